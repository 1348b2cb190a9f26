/**
 * The ledger in one SQLite file, for one process at a time. Each transition is one statement that
 * names the state it leaves; the file is in WAL mode with `synchronous=FULL`, so that what a promise
 * has acknowledged survives a power cut, not only a crash.
 */
import { payerOf, type PaymentKey } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import {
  LedgerConflict,
  MAX_DELIVERY_ATTEMPTS,
  type BeginOutcome,
  type BrokenDelivery,
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
  readEach,
  readPaymentRow,
  requestOf,
  signedOf,
  type PaymentRow,
} from "./payment-row.ts";
import {
  accountName,
  allocateNonce,
  nextNonce,
  requireSignedFor,
  type SigningAccount,
} from "./sqlite-accounts.ts";
import { SqliteDatabase, type Values } from "./sqlite-database.ts";
import { lockLedger } from "./sqlite-lock.ts";
import { migrate } from "./sqlite-schema.ts";

export interface SqliteLedgerOptions {
  /** A file, made with its folder where missing, or `:memory:` for a ledger that dies with us. */
  readonly path: string;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  /** Unique to this life of the process: rows of another were left behind by a crash. */
  readonly bootId: string;
  /** Opens the file without locking others out; whoever asks for it sees to what they do there. */
  readonly shared?: boolean;
  /** Hears of each row that recovery had to leave out. */
  readonly onUnreadable?: (key: string, reason: string) => void;
}

const COLUMNS = `state, binding, target, idempotency_key AS "idempotencyKey", request, network, payer,
  account, account_nonce AS "accountNonce", raw, transactions ->> '$[#-1]' AS "transaction",
  settled_transaction AS "settledTransaction", attempts,
  served_target AS "servedTarget", failure_code AS "failureCode",
  failure_detail AS "failureDetail", claimed_by AS "claimedBy"`;

/**
 * Opens the ledger, locks it for as long as it is open, brings its schema up to date, and tidies up
 * after an earlier life of this process: its claims that were never signed are dropped, its unfinished
 * deliveries may be tried again. Rejects with {@link LedgerUnavailable}, also where another process has
 * the file open.
 */
export async function openSqliteLedger(options: SqliteLedgerOptions): Promise<Ledger> {
  const database = new SqliteDatabase(options.path);
  let lock: SqliteDatabase | undefined;
  try {
    if (options.shared !== true) lock = lockLedger(database);
    database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    migrate(database);
    recover(database, options.bootId);
    return new SqliteLedger(database, lock, options);
  } catch (error) {
    database.close();
    lock?.close();
    throw error;
  }
}

class SqliteLedger implements Ledger {
  readonly #database: SqliteDatabase;
  readonly #lock: SqliteDatabase | undefined;
  readonly #clock: () => number;
  readonly #bootId: string;
  readonly #onUnreadable: (key: string, reason: string) => void;

  constructor(
    database: SqliteDatabase,
    lock: SqliteDatabase | undefined,
    { clock, bootId, onUnreadable }: SqliteLedgerOptions,
  ) {
    this.#database = database;
    this.#lock = lock;
    this.#clock = clock;
    this.#bootId = bootId;
    this.#onUnreadable = onUnreadable ?? (() => undefined);
  }

  async claim(key: PaymentKey, terms: ClaimTerms): Promise<ClaimOutcome> {
    if (this.#insert(key, terms)) return { kind: "granted" };
    const row = this.#row(key);
    // Gone between the two statements: another process had it, and may have it again.
    return row === undefined ? { kind: "busy" } : claimOutcome(row, terms, this.#bootId);
  }

  async isRecorded(key: PaymentKey): Promise<boolean> {
    return this.#row(key) !== undefined;
  }

  async begin(
    key: PaymentKey,
    request: FacilitatorRequest,
    idempotencyKey: string | undefined,
  ): Promise<BeginOutcome> {
    const caller = idempotencyKey ?? null;
    const first = { binding: null, target: null, idempotencyKey: caller, request };
    if (this.#insert(key, first)) return { kind: "granted" };
    const row = this.#row(key);
    if (row === undefined) return { kind: "taken" };
    const outcome = beginOutcome(row, request, idempotencyKey);
    if (outcome.kind !== "anew") return outcome;
    return this.#takeOver(key, first) ? { kind: "granted" } : { kind: "taken" };
  }

  async signed(
    key: PaymentKey,
    account: SigningAccount,
    sign: (accountNonce: number) => StoredTransaction,
  ): Promise<StoredTransaction> {
    const store = (): StoredTransaction => {
      const row = this.#row(key);
      const open = row?.state === "CLAIMED" || (row?.state === "SIGNED" && row.raw === null);
      if (!open) throw conflict(key, "SIGNED", row);
      const nonce = allocateNonce(this.#database, account);
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

  async undelivered(key: PaymentKey, { sent, served }: BrokenDelivery): Promise<void> {
    return this.#move(key, {
      to: "SETTLED",
      sql: `UPDATE payments SET state = 'SETTLED', attempts = max(attempts - :givenBack, 0),
              served_target = coalesce(served_target, :served), updated_ms = :now
            WHERE payment_key = :key AND state = 'DELIVERING'`,
      values: { givenBack: sent ? 0 : 1, served, now: this.#clock() },
      repeated: (row) => row?.state === "SETTLED" && (row.attempts > 0 || !sent),
    });
  }

  async unfinished(): Promise<readonly UnfinishedSettlement[]> {
    const rows = this.#database.all(
      `SELECT payment_key AS "key", ${COLUMNS} FROM payments
       WHERE state = 'SIGNED' AND raw IS NOT NULL ORDER BY updated_ms, account_nonce`,
      {},
    );
    return readEach(rows, unfinishedOf, this.#onUnreadable);
  }

  async unusedNonces(
    network: string,
    address: string,
    from: number,
  ): Promise<readonly StoredTransaction[]> {
    const rows = this.#database.all(
      `SELECT payment_key AS "key", ${COLUMNS} FROM payments
       WHERE network = :network AND raw IS NOT NULL AND account_nonce >= :from
         AND state = 'FAILED' ORDER BY account_nonce`,
      { network, from },
    );
    const signed = readEach(rows, signedOf, this.#onUnreadable);
    return signed.filter(({ account }) => accountName(account) === accountName(address));
  }

  async nextAccountNonce(network: string, address: string): Promise<number | undefined> {
    return nextNonce(this.#database, network, address);
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
    this.#lock?.close();
  }

  /** The claim itself: of any number of concurrent inserts one makes the row. */
  #insert(key: PaymentKey, first: FirstUse): boolean {
    const changes = this.#database.run(
      `INSERT INTO payments (payment_key, state, binding, target, idempotency_key, request,
         network, payer, amount_atomic, claimed_by, created_ms, updated_ms)
       VALUES (:key, 'CLAIMED', :binding, :target, :idempotencyKey, :request,
         :network, :payer, :amount, :bootId, :now, :now)
       ON CONFLICT (payment_key) DO NOTHING`,
      this.#columnsOf(key, first),
    );
    return changes === 1;
  }

  /** FAILED -> CLAIMED for another caller; never where bytes could be sent beside the new ones. */
  #takeOver(key: PaymentKey, first: FirstUse): boolean {
    const changes = this.#database.run(
      `UPDATE payments SET state = 'CLAIMED', binding = :binding, target = :target,
         idempotency_key = :idempotencyKey, request = :request, network = :network,
         payer = :payer, amount_atomic = :amount, failure_code = NULL, failure_detail = NULL,
         claimed_by = :bootId, created_ms = :now, updated_ms = :now
       WHERE payment_key = :key AND state = 'FAILED' AND raw IS NULL`,
      this.#columnsOf(key, first),
    );
    return changes === 1;
  }

  #columnsOf(key: PaymentKey, { binding, target, idempotencyKey, request }: FirstUse): Values {
    return {
      key,
      binding,
      target,
      idempotencyKey,
      request: JSON.stringify(request),
      network: request.paymentPayload.network,
      payer: payerOf(request.paymentPayload),
      amount: amountOf(request),
      bootId: this.#bootId,
      now: this.#clock(),
    };
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

/** What makes a row: a resource server's terms, or a facilitator's, which have no binding and no target. */
interface FirstUse {
  readonly binding: string | null;
  readonly target: string | null;
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

function unfinishedOf(row: PaymentRow, key: string): UnfinishedSettlement {
  return { key: key as PaymentKey, request: requestOf(row), signed: signedOf(row) };
}

function conflict(key: PaymentKey, to: string, row: PaymentRow | undefined): LedgerConflict {
  return new LedgerConflict(`payment ${key} cannot go from ${row?.state ?? "(none)"} to ${to}`);
}
