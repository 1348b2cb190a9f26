/**
 * The ledger in one SQLite file, for one process at a time. Each transition is one statement that
 * names the state it leaves; the file is in WAL mode with `synchronous=FULL`, so that what a promise
 * has acknowledged survives a power cut, not only a crash.
 */
import { isEvmAddress } from "../x402/address.ts";
import { payerOf, type PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import {
  LedgerConflict,
  MAX_DELIVERY_ATTEMPTS,
  type BeginOutcome,
  type ClaimOutcome,
  type ClaimTerms,
  type FailedPayment,
  type Ledger,
  type SettledPayment,
  type StoredTransaction,
  type UnfinishedSettlement,
} from "./ledger.ts";
import {
  amountOf,
  beginOutcome,
  claimOutcome,
  readPaymentRow,
  requestOf,
  signedOf,
  type PaymentRow,
} from "./payment-row.ts";
import { SqliteDatabase, type Values } from "./sqlite-database.ts";
import { migrate } from "./sqlite-schema.ts";

export interface SqliteLedgerOptions {
  /** A file, made with its folder where missing, or `:memory:` for a ledger that dies with us. */
  readonly path: string;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  /** Unique to this life of the process: rows of another were left behind by a crash. */
  readonly bootId: string;
}

const COLUMNS = `state, binding, idempotency_key AS "idempotencyKey", request, network, payer,
  account, account_nonce AS "accountNonce", raw, transactions ->> '$[#-1]' AS "transaction",
  settled_transaction AS "settledTransaction", attempts,
  failure_code AS "failureCode", failure_detail AS "failureDetail"`;

/**
 * Opens the ledger, brings its schema up to date, and tidies up after an earlier life of this process:
 * its claims that were never signed are dropped, its unfinished deliveries may be tried again. Rejects
 * with {@link LedgerUnavailable}.
 */
export async function openSqliteLedger(options: SqliteLedgerOptions): Promise<Ledger> {
  const database = new SqliteDatabase(options.path);
  try {
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    migrate(database);
    recover(database, options.bootId);
    return new SqliteLedger(database, options);
  } catch (error) {
    database.close();
    throw error;
  }
}

class SqliteLedger implements Ledger {
  readonly #database: SqliteDatabase;
  readonly #clock: () => number;
  readonly #bootId: string;

  constructor(database: SqliteDatabase, { clock, bootId }: SqliteLedgerOptions) {
    this.#database = database;
    this.#clock = clock;
    this.#bootId = bootId;
  }

  async claim(key: PaymentKey, terms: ClaimTerms): Promise<ClaimOutcome> {
    if (this.#insert(key, terms)) return { kind: "granted" };
    const row = this.#row(key);
    // Gone between the two statements: another process had it, and may have it again.
    return row === undefined ? { kind: "busy" } : claimOutcome(row, terms.binding);
  }

  async isRecorded(key: PaymentKey): Promise<boolean> {
    return this.#row(key) !== undefined;
  }

  async begin(
    key: PaymentKey,
    request: FacilitatorRequest,
    idempotencyKey: string | undefined,
  ): Promise<BeginOutcome> {
    const first = { binding: null, idempotencyKey: idempotencyKey ?? null, request };
    if (this.#insert(key, first)) return { kind: "granted" };
    const row = this.#row(key);
    if (row === undefined) return { kind: "taken" };
    const outcome = beginOutcome(row, idempotencyKey);
    if (outcome.kind !== "anew") return outcome;
    return this.#takeOver(key, first) ? { kind: "granted" } : { kind: "taken" };
  }

  async signed(
    key: PaymentKey,
    account: { readonly network: string; readonly address: string; readonly seed: number },
    sign: (accountNonce: number) => StoredTransaction,
  ): Promise<StoredTransaction> {
    const store = (): StoredTransaction => {
      const row = this.#row(key);
      const open = row?.state === "CLAIMED" || (row?.state === "SIGNED" && row.raw === null);
      if (!open) throw conflict(key, "SIGNED", row);
      const nonce = this.#allocate(account);
      const transaction = sign(nonce);
      requireSignedFor(transaction, account.address, nonce);
      this.#database.run(
        `UPDATE payments SET state = 'SIGNED', raw = :raw, account = :account,
           account_nonce = :accountNonce, updated_ms = :now,
           transactions = json_insert(transactions, '$[#]', :transaction)
         WHERE payment_key = :key AND (state = 'CLAIMED' OR (state = 'SIGNED' AND raw IS NULL))`,
        {
          key,
          raw: transaction.raw,
          account: transaction.account,
          accountNonce: transaction.accountNonce,
          transaction: transaction.transaction,
          now: this.#clock(),
        },
      );
      return transaction;
    };
    return this.#database.transaction(store);
  }

  async handedOver(key: PaymentKey): Promise<void> {
    return this.#move(key, {
      to: "SIGNED",
      sql: `UPDATE payments SET state = 'SIGNED', updated_ms = :now
            WHERE payment_key = :key AND state = 'CLAIMED'`,
      values: { now: this.#clock() },
      repeated: (row) => row?.state === "SIGNED" && row.raw === null,
    });
  }

  async settled(key: PaymentKey, { transaction, payer }: SettledPayment): Promise<void> {
    return this.#move(key, {
      to: "SETTLED",
      sql: `UPDATE payments SET state = 'SETTLED', settled_transaction = :transaction,
              payer = :payer, updated_ms = :now
            WHERE payment_key = :key AND state IN ('CLAIMED', 'SIGNED')`,
      values: { transaction, payer, now: this.#clock() },
      repeated: (row) => row?.settledTransaction === transaction,
    });
  }

  async failed(key: PaymentKey, { code, detail }: FailedPayment): Promise<void> {
    return this.#move(key, {
      to: "FAILED",
      sql: `UPDATE payments SET state = 'FAILED', failure_code = :code, failure_detail = :detail,
              updated_ms = :now
            WHERE payment_key = :key AND state IN ('CLAIMED', 'SIGNED')`,
      values: { code, detail, now: this.#clock() },
      repeated: (row) => row?.state === "FAILED",
    });
  }

  async released(key: PaymentKey): Promise<void> {
    return this.#move(key, {
      to: "(none)",
      sql: `DELETE FROM payments
            WHERE payment_key = :key AND binding IS NOT NULL
              AND (state = 'CLAIMED' OR (state = 'SIGNED' AND raw IS NULL))`,
      values: {},
      repeated: (row) => row === undefined,
    });
  }

  async abandoned(key: PaymentKey): Promise<void> {
    return this.#move(key, {
      to: "(none)",
      sql: `DELETE FROM payments
            WHERE payment_key = :key AND state = 'CLAIMED' AND binding IS NULL`,
      values: {},
      repeated: (row) => row === undefined || row.binding !== null,
    });
  }

  async delivering(key: PaymentKey): Promise<boolean> {
    const changes = this.#database.run(
      `UPDATE payments SET state = 'DELIVERING', attempts = attempts + 1, claimed_by = :bootId,
         updated_ms = :now
       WHERE payment_key = :key AND state = 'SETTLED' AND attempts < :most`,
      { key, bootId: this.#bootId, most: MAX_DELIVERY_ATTEMPTS, now: this.#clock() },
    );
    return changes === 1;
  }

  async delivered(key: PaymentKey): Promise<void> {
    return this.#move(key, {
      to: "DELIVERED",
      sql: `UPDATE payments SET state = 'DELIVERED', updated_ms = :now
            WHERE payment_key = :key AND state = 'DELIVERING'`,
      values: { now: this.#clock() },
      repeated: (row) => row?.state === "DELIVERED",
    });
  }

  async undelivered(key: PaymentKey): Promise<void> {
    return this.#move(key, {
      to: "SETTLED",
      sql: `UPDATE payments SET state = 'SETTLED', updated_ms = :now
            WHERE payment_key = :key AND state = 'DELIVERING'`,
      values: { now: this.#clock() },
      repeated: (row) => row?.state === "SETTLED" && row.attempts > 0,
    });
  }

  async unfinished(): Promise<readonly UnfinishedSettlement[]> {
    const rows = this.#database.all(
      `SELECT payment_key AS "key", ${COLUMNS} FROM payments
       WHERE state = 'SIGNED' AND raw IS NOT NULL ORDER BY updated_ms, account_nonce`,
      {},
    );
    return rows.map((columns) => {
      const row = readPaymentRow(columns);
      return {
        key: String(columns.key) as PaymentKey,
        request: requestOf(row),
        signed: signedOf(row),
      };
    });
  }

  async nextAccountNonce(network: string, address: string): Promise<number | undefined> {
    const found = this.#database.get(
      `SELECT next_nonce AS "next" FROM accounts WHERE network = :network AND address = :address`,
      { network, address: accountName(address) },
    );
    return found === undefined ? undefined : Number(found.next);
  }

  async termsChangedAt(route: string, termsHash: string, now: number): Promise<number> {
    const found = this.#database.get(
      `SELECT changed_at AS "changedAt" FROM route_terms WHERE route = :route AND hash = :hash`,
      { route, hash: termsHash },
    );
    if (found !== undefined) return Number(found.changedAt);
    this.#database.run(
      `INSERT INTO route_terms (route, hash, changed_at) VALUES (:route, :hash, :now)
       ON CONFLICT (route) DO UPDATE SET hash = :hash, changed_at = :now`,
      { route, hash: termsHash, now },
    );
    return now;
  }

  async ping(): Promise<void> {
    this.#database.run(
      `INSERT INTO heartbeat (id, at_ms) VALUES (1, :now)
       ON CONFLICT (id) DO UPDATE SET at_ms = :now`,
      { now: this.#clock() },
    );
  }

  async close(): Promise<void> {
    this.#database.close();
  }

  /** The claim itself: of any number of concurrent inserts one makes the row. */
  #insert(key: PaymentKey, first: FirstUse): boolean {
    const changes = this.#database.run(
      `INSERT INTO payments (payment_key, state, binding, idempotency_key, request, network, payer,
         amount_atomic, claimed_by, created_ms, updated_ms)
       VALUES (:key, 'CLAIMED', :binding, :idempotencyKey, :request, :network, :payer,
         :amount, :bootId, :now, :now)
       ON CONFLICT (payment_key) DO NOTHING`,
      this.#columnsOf(key, first),
    );
    return changes === 1;
  }

  /** FAILED -> CLAIMED for another caller; what the failed settlement left behind is forgotten. */
  #takeOver(key: PaymentKey, first: FirstUse): boolean {
    const changes = this.#database.run(
      `UPDATE payments SET state = 'CLAIMED', binding = :binding, idempotency_key = :idempotencyKey,
         request = :request, network = :network, payer = :payer, amount_atomic = :amount,
         account = NULL, account_nonce = NULL, raw = NULL, transactions = '[]',
         failure_code = NULL, failure_detail = NULL,
         claimed_by = :bootId, created_ms = :now, updated_ms = :now
       WHERE payment_key = :key AND state = 'FAILED'`,
      this.#columnsOf(key, first),
    );
    return changes === 1;
  }

  #columnsOf(key: PaymentKey, { binding, idempotencyKey, request }: FirstUse): Values {
    return {
      key,
      binding,
      idempotencyKey,
      request: JSON.stringify(request),
      network: request.paymentPayload.network,
      payer: payerOf(request.paymentPayload),
      amount: amountOf(request),
      bootId: this.#bootId,
      now: this.#clock(),
    };
  }

  /** The account's next nonce, never one given out before; part of the caller's transaction. */
  #allocate(account: {
    readonly network: string;
    readonly address: string;
    readonly seed: number;
  }): number {
    const allocated = this.#database.get(
      `INSERT INTO accounts (network, address, next_nonce) VALUES (:network, :address, :seed + 1)
       ON CONFLICT (network, address) DO UPDATE SET next_nonce = max(next_nonce, :seed) + 1
       RETURNING next_nonce - 1 AS "nonce"`,
      { network: account.network, address: accountName(account.address), seed: account.seed },
    );
    return Number(allocated?.nonce);
  }

  #row(key: PaymentKey): PaymentRow | undefined {
    const sql = `SELECT ${COLUMNS} FROM payments WHERE payment_key = :key`;
    const columns = this.#database.get(sql, { key });
    return columns === undefined ? undefined : readPaymentRow(columns);
  }

  /** One guarded statement; where it changes nothing, either a repeat or a conflict. */
  async #move(key: PaymentKey, { to, sql, values, repeated }: Transition): Promise<void> {
    if (this.#database.run(sql, { key, ...values }) === 1) return;
    const row = this.#row(key);
    if (!repeated(row)) throw conflict(key, to, row);
  }
}

/** What makes a row: a resource server's terms, or a facilitator's, which have no binding. */
interface FirstUse {
  readonly binding: string | null;
  readonly idempotencyKey: string | null;
  readonly request: FacilitatorRequest;
}

interface Transition {
  readonly to: string;
  /** Changes one row when it is in the right state, none otherwise; takes `:key`. */
  readonly sql: string;
  readonly values: Values;
  /** Whether the row shows that this same transition has happened before. */
  readonly repeated: (row: PaymentRow | undefined) => boolean;
}

/** Nothing was sent for an unsigned claim; an upstream cut off by the crash may be asked again. */
function recover(database: SqliteDatabase, bootId: string): void {
  database.transaction(() => {
    database.run("DELETE FROM payments WHERE state = 'CLAIMED' AND claimed_by <> :bootId", {
      bootId,
    });
    database.run(
      `UPDATE payments SET state = 'SETTLED' WHERE state = 'DELIVERING' AND claimed_by <> :bootId`,
      { bootId },
    );
  });
}

/** EVM addresses count nonces together whatever their letter case; other networks' are case-sensitive. */
function accountName(address: string): string {
  return isEvmAddress(address) ? address.toLowerCase() : address;
}

/** Bytes for another account or nonce would leave a gap that blocks every later payment. */
function requireSignedFor(transaction: StoredTransaction, address: string, nonce: number): void {
  const { account, accountNonce } = transaction;
  if (accountName(account) === accountName(address) && accountNonce === nonce) return;
  throw new Error(`signed for ${account} nonce ${accountNonce} instead of ${address} ${nonce}`);
}

function conflict(key: PaymentKey, to: string, row: PaymentRow | undefined): LedgerConflict {
  return new LedgerConflict(`payment ${key} cannot go from ${row?.state ?? "(none)"} to ${to}`);
}
