/** Our accounts and what was signed with them, as rows of SQLite. */
import {
  LedgerConflict,
  type Lease,
  type StoredSubmission,
  type StoredTransaction,
  type SubmissionCost,
  type SubmissionState,
  type SubmittedPayment,
} from "../ledger.ts";
import { gasBudget, moreGas } from "../budgets.ts";
import { readEach } from "../payment-row.ts";
import { count } from "./sqlite-budgets.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import type { SqliteCore } from "./sqlite-core.ts";
import {
  accountName,
  concluded,
  readSubmissionRow,
  submittedOf,
  withVariant,
  type SubmissionRow,
} from "../submission-row.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import type { LeftAccount } from "../unattended.ts";
import { messageOf } from "../../x402/result.ts";

const COLUMNS = `id, network, state, variants, signed_ms AS "signedMs", cost`;

type OnUnreadable = (name: string, reason: string) => void;

/** Every method that writes is part of its caller's transaction. */
export class SqliteSubmissions {
  readonly #database: SqliteDatabase;
  readonly #core: Pick<SqliteCore, "select" | "time">;
  readonly #life: string;

  constructor(database: SqliteDatabase, core: Pick<SqliteCore, "select" | "time">, life: string) {
    this.#database = database;
    this.#core = core;
    this.#life = life;
  }

  /** Always granted: no other life has the file open. */
  lease(network: string, address: string): Lease {
    const account = { network, address: accountName(address), life: this.#life };
    const granted = this.#database.get(
      `INSERT INTO accounts (network, address, holder, epoch) VALUES (:network, :address, :life, 1)
       ON CONFLICT (network, address) DO UPDATE SET
         epoch = epoch + (holder IS NOT :life), holder = :life
       RETURNING epoch`,
      account,
    );
    return { network, address, epoch: Number(granted?.epoch) };
  }

  unlease({ network, address, epoch }: Lease): void {
    this.#database.run(
      `UPDATE accounts SET holder = NULL
       WHERE network = :network AND address = :address AND holder = :life AND epoch = :epoch`,
      { network, address: accountName(address), life: this.#life, epoch },
    );
  }

  /** Throws {@link LedgerConflict} unless the lease is this life's. */
  requireLease(lease: Lease): void {
    const { network, address, epoch } = lease;
    const held = this.#database.get(
      `SELECT 1 FROM accounts
       WHERE network = :network AND address = :address AND holder = :life AND epoch = :epoch`,
      { network, address: accountName(address), life: this.#life, epoch },
    );
    if (held === undefined) throw notLeased(lease);
  }

  /**
   * The leased account's next nonce, never one given out before. Throws {@link LedgerConflict} unless the
   * lease is this life's.
   */
  allocate(lease: Lease & { readonly seed: number }): number {
    const { network, address, epoch, seed } = lease;
    const allocated = this.#database.get(
      `UPDATE accounts SET next_nonce = max(coalesce(next_nonce, 0), ?) + 1
       WHERE network = ? AND address = ? AND holder = ? AND epoch = ?
       RETURNING next_nonce - 1 AS "nonce"`,
      [seed, network, accountName(address), this.#life, epoch],
    );
    if (allocated === undefined) throw notLeased(lease);
    return Number(allocated.nonce);
  }

  /** The nonce that {@link allocate} would give, as far as it is stored. */
  nextNonce(network: string, address: string): number | undefined {
    const found = this.#database.get(
      `SELECT next_nonce AS "next" FROM accounts WHERE network = :network AND address = :address`,
      { network, address: accountName(address) },
    );
    return typeof found?.next === "number" ? found.next : undefined;
  }

  hasSigned(transaction: string): boolean {
    const sql = `SELECT 1 FROM submissions WHERE id = :transaction
      UNION ALL SELECT 1 FROM submission_transactions WHERE transaction_id = lower(:transaction)`;
    return this.#database.get(sql, { transaction }) !== undefined;
  }

  insert({ id, network, state, variants, signedMs }: SubmissionRow): void {
    const [first] = variants;
    if (first === undefined) throw new TypeError("a submission has a variant at least");
    const { account, accountNonce } = first;
    this.#database.run(
      `INSERT INTO submissions (id, network, account, account_nonce, variants, state, signed_ms)
       VALUES (?, ?, ?, ?, ?, ?, ?)`,
      [id, network, accountName(account), accountNonce, JSON.stringify(variants), state, signedMs],
    );
    this.#name(id, first);
  }

  replace(lease: Lease, id: string, variant: StoredTransaction, nowMs: number): void {
    const next = withVariant(this.#read(id), lease, variant, nowMs);
    if (next === undefined) return;
    this.#database.run(
      `UPDATE submissions SET variants = :variants, signed_ms = :signedMs WHERE id = :id`,
      { id, variants: JSON.stringify(next.variants), signedMs: next.signedMs },
    );
    this.#name(id, variant);
  }

  conclude(id: string, to: SubmissionState, told: SubmissionCost | undefined): void {
    const before = this.#read(id);
    const next = concluded(before, to, told);
    if (before === undefined || next === undefined) return;
    const { state, cost, network } = next;
    const gas = moreGas(before.cost, cost);
    if (gas !== 0) count(this.#database, this.#core.time.now(), gasBudget(network), gas);
    const values = [state, cost === null ? null : JSON.stringify(cost), id];
    this.#database.run("UPDATE submissions SET state = ?, cost = ? WHERE id = ?", values);
  }

  /** Those of one account that are not CLOSED; what cannot be read is left out and told about. */
  unfinished(
    network: string,
    address: string,
    onUnreadable: OnUnreadable,
  ): readonly StoredSubmission[] {
    const rows = this.#database.all(
      `SELECT ${COLUMNS} FROM submissions
       WHERE network = :network AND account = :account AND state <> 'CLOSED'
       ORDER BY account_nonce`,
      { network, account: accountName(address) },
    );
    return rows.flatMap((columns) => {
      try {
        const row = readSubmissionRow(columns);
        return [{ ...row, payments: this.#payments(row.id, onUnreadable) }];
      } catch (error) {
        onUnreadable(String(columns.id), messageOf(error));
        return [];
      }
    });
  }

  /** No other life has the file open. */
  unattended(): readonly LeftAccount[] {
    const rows = this.#database.all(
      `SELECT network, address, epoch FROM accounts WHERE EXISTS (
         SELECT 1 FROM submissions
         WHERE submissions.network = accounts.network AND account = address AND state <> 'CLOSED')`,
      {},
    );
    return rows.map(({ network, address, epoch }) => ({
      network: String(network),
      address: String(address),
      epoch: Number(epoch),
    }));
  }

  #payments(submission: string, onUnreadable: OnUnreadable): readonly SubmittedPayment[] {
    const rows = this.#core.select("WHERE submission = :submission ORDER BY rowid", { submission });
    return readEach(rows, (row, key) => submittedOf(row, key as PaymentKey), onUnreadable);
  }

  #read(id: string): SubmissionRow | undefined {
    const sql = `SELECT ${COLUMNS} FROM submissions WHERE id = ?`;
    const columns = this.#database.get(sql, [id]);
    return columns && readSubmissionRow(columns);
  }

  /**
   * For operators, who look for a payment by any transaction that was signed for it, in lower case: where that is
   * what the submission is called, nothing more is stored.
   */
  #name(submission: string, { transaction }: StoredTransaction): void {
    if (transaction.toLowerCase() === submission) return;
    this.#database.run(
      `INSERT INTO submission_transactions (transaction_id, submission)
       VALUES (lower(?), ?)`,
      [transaction, submission],
    );
  }
}

function notLeased({ network, address }: Lease): LedgerConflict {
  return new LedgerConflict(`the account ${address} on ${network} is not leased to this life`);
}
