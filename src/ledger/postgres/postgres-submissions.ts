/**
 * What this gateway signed, in PostgreSQL: an account nonce is allocated, signed for and stored with all
 * its payments in one transaction, under the account's row lock. Whoever was taken for dead finds the
 * lease gone there, and signs nothing.
 */
import type { PaymentKey } from "../../x402/payment-key.ts";
import {
  LedgerConflict,
  type Lease,
  type StoredSubmission,
  type StoredTransaction,
  type SubmissionCost,
  type SubmissionState,
} from "../ledger.ts";
import { gasBudget, moreGas } from "../budgets.ts";
import * as machine from "../machine.ts";
import { count } from "./postgres-budgets.ts";
import type { PostgresDatabase, Session, Statement } from "./postgres-database.ts";
import { requireLease } from "./postgres-lives.ts";
import { COLUMNS, storedOf, writeMoves, type Move } from "./postgres-payments.ts";
import { lockWithPurses, pursesOf } from "./postgres-purses.ts";
import { LedgerOverdraft, overdrawn, type Draws } from "../purse.ts";
import {
  accountName,
  concluded,
  firstSubmission,
  readSubmissionRow,
  requireSignedFor,
  submittedOf,
  withVariant,
  type SubmissionRow,
} from "../submission-row.ts";
import { messageOf } from "../../x402/result.ts";

const SUBMISSION = `s.id AS "id", s.network AS "network", s.state AS "state",
  s.signed_ms AS "signedMs", s.variants AS "variants", s.cost AS "cost"`;

const INSERT: Statement = {
  name: "insert_submission",
  text: `
    WITH made AS (
      INSERT INTO coinslot.submissions (id, network, account, account_nonce, variants, state, signed_ms)
      VALUES ($1, $2, $3, $4, $5, $6, $7)
    ),
    named AS (
      INSERT INTO coinslot.submission_transactions (transaction_id, submission) VALUES (lower($1), $1)
    )
    UPDATE coinslot.accounts SET next_nonce = $4 + 1 WHERE network = $2 AND address = $3`,
};

const LOCK: Statement = {
  name: "lock_submission",
  text: `SELECT ${SUBMISSION} FROM coinslot.submissions AS s WHERE s.id = $1 FOR UPDATE`,
};

const ADD_VARIANT: Statement = {
  name: "add_variant",
  text: `
    WITH named AS (
      INSERT INTO coinslot.submission_transactions (transaction_id, submission) VALUES (lower($4), $1)
    )
    UPDATE coinslot.submissions SET variants = $2, signed_ms = $3 WHERE id = $1`,
};

const CONCLUDE: Statement = {
  name: "conclude_submission",
  text: `UPDATE coinslot.submissions SET state = $2, cost = $3 WHERE id = $1`,
};

const UNFINISHED: Statement = {
  name: "unfinished_submissions",
  text: `SELECT ${SUBMISSION} FROM coinslot.submissions AS s
         WHERE s.network = $1 AND s.account = $2 AND s.state <> 'CLOSED' ORDER BY s.account_nonce`,
};

const CARRIED: Statement = {
  name: "carried_payments",
  text: `SELECT ${COLUMNS} FROM coinslot.payments AS p WHERE p.submission = ANY ($1) ORDER BY p.id`,
};

const HAS_SIGNED: Statement = {
  name: "has_signed",
  text: `SELECT FROM coinslot.submission_transactions WHERE transaction_id = lower($1)`,
};

const NEXT_NONCE: Statement = {
  name: "next_nonce",
  text: `SELECT next_nonce AS "nextNonce" FROM coinslot.accounts WHERE network = $1 AND address = $2`,
};

/** What is to be signed, by whom. */
interface ToSign {
  readonly keys: readonly PaymentKey[];
  readonly account: Lease & { readonly seed: number };
  readonly sign: (accountNonce: number) => StoredTransaction;
  readonly draws?: Draws | undefined;
}

/** See {@link Signing.signed}. */
export async function storeSigned(
  database: PostgresDatabase,
  { keys, account, sign, draws = new Map() }: ToSign,
  moment: machine.Moment,
): Promise<StoredSubmission> {
  const { network, address, seed } = account;
  return database.transaction(async (session) => {
    const purses = pursesOf(draws);
    const names = purses.purses.map(({ name }) => name);
    const stored = await requireLease(session, account, moment.life, names);
    const { payments: found, spendsOf } = await lockWithPurses(session, keys, purses);
    const rows = new Map(found.map((each) => [each.key, each]));
    const step = (key: PaymentKey, id: string): Move => {
      const row = rows.get(key);
      const { next, note } = machine.sign(row?.row, id, moment);
      if (row === undefined || !next || next.network !== network) {
        throw new LedgerConflict(`payment ${key} is not one to sign on ${network}`);
      }
      return { stored: row, next, note: note ?? "" };
    };
    // Before anything is signed that could not be stored.
    for (const key of keys) step(key, "");
    const over = overdrawn(draws, spendsOf);
    if (over.length > 0) throw new LedgerOverdraft(over);
    const nonce = Math.max(stored ?? seed, seed);
    const variant = sign(nonce);
    requireSignedFor(variant, address, nonce);
    const submission = firstSubmission(network, variant, moment.nowMs);
    const moves = keys.map((key) => step(key, submission.id));
    await insert(session, submission, variant);
    if ((await writeMoves(session, moves, moment)) !== keys.length) {
      throw new LedgerConflict("a payment was named twice, or changed while it was locked");
    }
    const payments = moves.map(({ stored: { key }, next }) => submittedOf(next, key));
    return { ...submission, payments };
  });
}

/** See {@link Signing.replaced}. */
export async function storeVariant(
  database: PostgresDatabase,
  { lease, id, variant }: { lease: Lease; id: string; variant: StoredTransaction },
  { life, nowMs }: machine.Moment,
): Promise<void> {
  await database.transaction(async (session) => {
    await requireLease(session, lease, life);
    const next = withVariant(await lock(session, id), lease, variant, nowMs);
    if (next === undefined) return;
    const { transaction } = variant;
    await session.query(ADD_VARIANT, [
      id,
      JSON.stringify(next.variants),
      next.signedMs,
      transaction,
    ]);
  });
}

/** Where a submission stands, and what it cost where that is known. */
interface Conclusion {
  readonly id: string;
  readonly state: SubmissionState;
  readonly cost: SubmissionCost | undefined;
}

/** See {@link Signing.concluded}. */
export async function storeConclusion(
  database: PostgresDatabase,
  { id, state, cost: told }: Conclusion,
  nowMs: number,
): Promise<void> {
  await database.transaction(async (session) => {
    const before = await lock(session, id);
    const next = concluded(before, state, told);
    if (before === undefined || next === undefined) return;
    const cost = next.cost === null ? null : JSON.stringify(next.cost);
    await session.query(CONCLUDE, [id, next.state, cost]);
    const gas = moreGas(before.cost, next.cost);
    if (gas !== 0) await count(session, nowMs, gasBudget(next.network), gas);
  });
}

/** See {@link Signing.unfinished}. */
export async function readUnfinished(
  session: Session,
  { network, address }: Pick<Lease, "network" | "address">,
  onUnreadable: (key: string, reason: string) => void,
): Promise<readonly StoredSubmission[]> {
  const readable = <Value>(name: unknown, read: () => Value): readonly Value[] => {
    try {
      return [read()];
    } catch (error) {
      onUnreadable(String(name), messageOf(error));
      return [];
    }
  };
  const found = await session.query(UNFINISHED, [network, accountName(address)]);
  const rows = found.flatMap((columns) => readable(columns.id, () => readSubmissionRow(columns)));
  if (rows.length === 0) return [];
  const payments = await session.query(CARRIED, [rows.map(({ id }) => id)]);
  const all = payments.flatMap((columns) =>
    readable(columns.key, () => {
      const { key, row } = storedOf(columns);
      return { submission: row.submission, payment: submittedOf(row, key) };
    }),
  );
  return rows.map((row) => ({
    ...row,
    payments: all.flatMap(({ submission, payment }) => (submission === row.id ? [payment] : [])),
  }));
}

/** See {@link Signing.hasSigned}. */
export async function readHasSigned(session: Session, transaction: string): Promise<boolean> {
  return (await session.query(HAS_SIGNED, [transaction])).length > 0;
}

/** See {@link Signing.nextAccountNonce}. */
export async function readNextNonce(
  session: Session,
  network: string,
  address: string,
): Promise<number | undefined> {
  const [account] = await session.query(NEXT_NONCE, [network, accountName(address)]);
  const next = account?.nextNonce ?? null;
  return next === null ? undefined : Number(next);
}

async function insert(
  session: Session,
  { id, network, state, variants, signedMs }: SubmissionRow,
  { account, accountNonce }: StoredTransaction,
): Promise<void> {
  const bytes = JSON.stringify(variants);
  const name = accountName(account);
  await session.query(INSERT, [id, network, name, accountNonce, bytes, state, signedMs]);
}

async function lock(session: Session, id: string): Promise<SubmissionRow | undefined> {
  const [columns] = await session.query(LOCK, [id]);
  return columns === undefined ? undefined : readSubmissionRow(columns);
}
