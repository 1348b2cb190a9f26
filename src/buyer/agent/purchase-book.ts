/**
 * What an agent has bought, in a SQLite file: budgets are counted from it, a payment is in it before it is sent, and an
 * answer before it is told. One process at a time has it, under whatever name.
 */
import { createHash } from "node:crypto";
import { chmodSync, closeSync, mkdirSync, openSync, realpathSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type SQLInputValue, type SQLOutputValue } from "node:sqlite";
import { err, ok, type Result } from "../../x402/result.ts";
import { isVersion } from "../../x402/x402.ts";
import type { PaymentHeader } from "../exchange.ts";
import type { Dollars, Spent } from "./allowance.ts";
import type { ToldAnswer } from "./told-answer.ts";

/**
 * - `reserved`: nothing is signed yet. What a process leaves so is void: it signed nothing that it did not write.
 * - `open`: signed, and it is not known what became of it, or it is paid and not served yet. Presented again.
 * - `refused`: the seller says that nothing was settled. It could still settle what it holds, so nothing else is signed
 *   for the same call before that is void, and the day's budget counts it.
 * - `served`: the answer has come.
 * - `over`: it is not served, and the seller does not take the payment any more.
 * - `void`: what was signed never left.
 */
export type PurchaseState = "reserved" | "open" | "refused" | "served" | "over" | "void";

/** How a call is paid: by a payment on chain, or by what the account has at the seller. */
export type Way = "payment" | "account";

export interface AgentPurchase {
  readonly id: number;
  /** SHA-256 of the call, hex. */
  readonly key: string;
  readonly state: PurchaseState;
  readonly way: Way;
  /** When it was begun, milliseconds since the epoch. */
  readonly at: number;
  /** The name of the seller's budget. */
  readonly seller: string;
  /** `GET https://…` without the query, or `tool NAME at https://…`. */
  readonly what: string;
  readonly dollars: Dollars;
  /** For people. */
  readonly amount: string;
  readonly network: string;
  readonly payTo: string;
  readonly payer: string;
  /** Null: it is not signed, or not needed any more. */
  readonly payment: PaymentHeader | null;
  /** Until when a payment can be settled, milliseconds since the epoch. */
  readonly liveUntil: number;
  /** The seller's session in which the payment was shown; null: there was none. */
  readonly session: string | null;
  /** Of its receipt; null: it is not known that it was paid. */
  readonly transaction: string | null;
  /** The last that was heard of it; "": nothing. */
  readonly reason: string;
  /** Null: it has not come, or is not kept any more. */
  readonly answer: ToldAnswer | null;
}

/** What is written of a purchase when it is begun. */
export type NewPurchase = Pick<
  AgentPurchase,
  "key" | "way" | "at" | "seller" | "what" | "dollars" | "amount" | "network" | "payTo" | "payer"
>;

/** What is about to be sent; a session of our own is no payment. */
export type Sent = Pick<AgentPurchase, "payment" | "liveUntil" | "session">;

/** What is known of a purchase after it was presented. */
export interface PurchaseOutcome extends Pick<
  AgentPurchase,
  "state" | "transaction" | "reason" | "answer"
> {
  /** What it has cost; default: what was reserved. */
  readonly dollars?: Dollars;
}

/** Purchases that are kept; older ones go, as far as they count in no budget and are not open. */
export const MAX_PURCHASES = 10_000;
/** Answers that are kept to be told again, the newest. */
export const MAX_KEPT_ANSWERS = 256;
/** Longest sentence that is kept, characters. */
const MAX_REASON = 500;

/** Of the file. */
const VERSION = 1;

const SCHEMA = `
CREATE TABLE IF NOT EXISTS purchases (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('reserved', 'open', 'refused', 'served', 'over', 'void')),
  way TEXT NOT NULL CHECK (way IN ('payment', 'account')),
  day TEXT NOT NULL,
  at INTEGER NOT NULL,
  seller TEXT NOT NULL,
  what TEXT NOT NULL,
  dollars TEXT NOT NULL,
  amount TEXT NOT NULL,
  network TEXT NOT NULL,
  pay_to TEXT NOT NULL,
  payer TEXT NOT NULL,
  version INTEGER,
  payment TEXT,
  live_until INTEGER NOT NULL DEFAULT 0,
  session TEXT,
  transaction_id TEXT,
  reason TEXT NOT NULL DEFAULT '',
  answer TEXT
) STRICT;
CREATE INDEX IF NOT EXISTS purchases_by_key ON purchases (key);
CREATE INDEX IF NOT EXISTS purchases_by_day ON purchases (day);
CREATE INDEX IF NOT EXISTS purchases_live ON purchases (live_until) WHERE state IN ('open', 'refused');
CREATE INDEX IF NOT EXISTS purchases_answered ON purchases (id) WHERE answer IS NOT NULL;
PRAGMA user_version = ${VERSION};
`;

export class PurchaseBook {
  readonly #database: DatabaseSync;
  /** Absolute; null: it is in memory. */
  readonly #file: string | null;
  /** Of the file when it was opened. */
  readonly #identity: string;

  private constructor(database: DatabaseSync, file: string | null, identity: string) {
    this.#database = database;
    this.#file = file;
    this.#identity = identity;
  }

  /**
   * Opens the file, made with its folder where missing, for this process alone until it ends; or a sentence. `:memory:`
   * is a book that nobody reads again.
   */
  static open(path: string): Result<PurchaseBook, string> {
    let database: DatabaseSync | undefined;
    const failed = (reason: string): Result<never, string> => {
      // Else nobody has it, and whoever tries again is told that somebody does.
      if (database?.isOpen === true) database.close();
      return err(reason);
    };
    try {
      const file = path === ":memory:" ? null : madeFile(path);
      database = new DatabaseSync(file ?? path, { timeout: 0 });
      const foreign = foreignerOf(database);
      if (foreign !== null) return failed(`the purchases of ${path} cannot be opened: ${foreign}`);
      take(database);
      // Once it is ours, so that nobody can have given it a name meanwhile and opened it by that.
      const found = file === null ? { identity: "", names: 1n } : identityOf(file);
      if (found?.names !== 1n) {
        return failed(
          `the file of purchases ${path} has ${found?.names ?? "no"} names (hard links), and what a process that was killed has left lies beside one of them: remove all names but one`,
        );
      }
      database.exec(SCHEMA);
      // Whoever reserved them is gone, and has signed nothing that is not written.
      database.exec("UPDATE purchases SET state = 'void' WHERE state = 'reserved'");
      return ok(new PurchaseBook(database, file, found.identity));
    } catch (cause) {
      if (isBusy(cause)) {
        return failed(
          `another process has the purchases of ${path} open: end it, or give each its own --state, which has budgets of its own`,
        );
      }
      const reason = cause instanceof Error ? cause.message : String(cause);
      return failed(`the purchases of ${path} cannot be opened: ${reason}`);
    }
  }

  /**
   * Of the day of that moment, with what earlier days have signed and can still be settled. What is of a later day counts,
   * too: a clock that was set back opens no budget a second time.
   */
  spent(now: number, seller: string): Spent {
    const rows = this.#all(
      `SELECT seller, dollars FROM purchases
       WHERE (day >= ?1 AND state <> 'void')
         OR (day < ?1 AND state IN ('open', 'refused') AND live_until > ?2)`,
      dayOf(now),
      now,
    );
    let [inAll, atSeller] = [0n, 0n];
    for (const row of rows) {
      const dollars = BigInt(text(row["dollars"]));
      inAll += dollars;
      if (row["seller"] === seller) atSeller += dollars;
    }
    return { inAll, atSeller };
  }

  /** The newest purchase of that call. */
  latest(key: string): AgentPurchase | undefined {
    const [row] = this.#all(`SELECT * FROM purchases WHERE key = ? ORDER BY id DESC LIMIT 1`, key);
    return row && purchaseOf(row);
  }

  byId(id: number): AgentPurchase | undefined {
    const [row] = this.#all(`SELECT * FROM purchases WHERE id = ?`, id);
    return row && purchaseOf(row);
  }

  /** The newest first. */
  list(limit: number): readonly AgentPurchase[] {
    return this.#all(`SELECT * FROM purchases ORDER BY id DESC LIMIT ?`, limit).map(purchaseOf);
  }

  /** Its id; or a sentence where there is no room left, or the file is not there any more. Durable when it returns. */
  reserve(purchase: NewPurchase): Result<number, string> {
    if (!this.#isInItsPlace()) {
      return err(
        `the file of purchases ${this.#file} was moved, removed, replaced or given another name while it was open, so that another process could have one with the same budgets: put it back and start this program anew`,
      );
    }
    if (!this.#makeRoom(purchase.at)) {
      return err(`${MAX_PURCHASES} purchases of today are in the book, and it holds no more`);
    }
    const { key, way, at, seller, what, dollars, amount, network, payTo, payer } = purchase;
    const { lastInsertRowid } = this.#database
      .prepare(
        `INSERT INTO purchases (key, state, way, day, at, seller, what, dollars, amount, network, pay_to, payer)
         VALUES (?, 'reserved', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      )
      .run(key, way, dayOf(at), at, seller, what, String(dollars), amount, network, payTo, payer);
    return ok(Number(lastInsertRowid));
  }

  /** Durable when it returns. */
  keep(id: number, { payment, liveUntil, session }: Sent): void {
    this.#run(
      `UPDATE purchases SET state = 'open', version = ?, payment = ?, live_until = ?, session = ? WHERE id = ?`,
      payment?.version ?? null,
      payment?.value ?? null,
      liveUntil,
      session,
      id,
    );
  }

  /** Where its answer can be asked for by now. Durable when it returns. */
  moved(id: number, session: string): void {
    this.#run(`UPDATE purchases SET session = ? WHERE id = ?`, session, id);
  }

  /** Durable when it returns. What was paid stays paid, and what was served stays served. */
  conclude(id: number, { state, transaction, reason, answer, dollars }: PurchaseOutcome): void {
    this.#run(
      `UPDATE purchases SET state = ?2, transaction_id = coalesce(?3, transaction_id), reason = ?4, answer = ?5,
         dollars = coalesce(?6, dollars),
         payment = CASE WHEN ?2 IN ('served', 'void') THEN NULL ELSE payment END
       WHERE id = ?1 AND state <> 'served'`,
      id,
      state,
      transaction,
      reason.slice(0, MAX_REASON).toWellFormed(),
      answer === null ? null : JSON.stringify(answer),
      dollars === undefined ? null : String(dollars),
    );
    this.#run(
      `UPDATE purchases SET answer = NULL WHERE answer IS NOT NULL AND id <=
         (SELECT id FROM purchases WHERE answer IS NOT NULL ORDER BY id DESC LIMIT 1 OFFSET ?)`,
      MAX_KEPT_ANSWERS,
    );
  }

  close(): void {
    if (this.#database.isOpen) this.#database.close();
  }

  /** Whether whoever opens its path now opens this very file, which has no other name. */
  #isInItsPlace(): boolean {
    if (this.#file === null) return true;
    const found = identityOf(this.#file);
    return found?.identity === this.#identity && found.names === 1n;
  }

  /** Whether there is room for one more. */
  #makeRoom(now: number): boolean {
    const count = () => Number(this.#all("SELECT count(*) AS n FROM purchases")[0]?.["n"]);
    const surplus = count() - MAX_PURCHASES + 1;
    if (surplus <= 0) return true;
    this.#run(
      `DELETE FROM purchases WHERE id IN (SELECT id FROM purchases
         WHERE day < ? AND state <> 'reserved' AND NOT (state IN ('open', 'refused') AND live_until > ?)
         ORDER BY id LIMIT ?)`,
      dayOf(now),
      now,
      surplus,
    );
    return count() < MAX_PURCHASES;
  }

  #run(sql: string, ...values: SQLInputValue[]): void {
    this.#database.prepare(sql).run(...values);
  }

  #all(sql: string, ...values: SQLInputValue[]): readonly Record<string, SQLOutputValue>[] {
    return this.#database.prepare(sql).all(...values);
  }
}

/** SHA-256 of parts that cannot be taken for one another, hex. */
export function keyOf(parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex");
}

/** `2026-08-01`, of UTC. */
function dayOf(now: number): string {
  return new Date(now).toISOString().slice(0, 10);
}

/**
 * The file for its owner alone, absolute and without symbolic links, so that what lies beside it has one name. One that exists is
 * not opened for that: closing it would give up the locks that this process has on it.
 */
function madeFile(path: string): string {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  if (statSync(path, { throwIfNoEntry: false }) === undefined) {
    closeSync(openSync(path, "a", 0o600));
  }
  const file = realpathSync(path);
  chmodSync(file, 0o600);
  return file;
}

/** Whose file it is, where it is not ours: what another program, or a later one, has written is left as it is. */
function foreignerOf(database: DatabaseSync): string | null {
  const version = Number(database.prepare("PRAGMA user_version").get()?.["user_version"]);
  const tables = Number(database.prepare("SELECT count(*) AS n FROM sqlite_schema").get()?.["n"]);
  if (version === VERSION || (version === 0 && tables === 0)) return null;
  return version > VERSION
    ? "a later version of this program has written it"
    : "it is a database of something else";
}

/**
 * For this process alone until it ends, however it ends: the kernel's lock of the file itself, whichever name it was opened by.
 * Without a log of its own beside it (WAL) every purchase that is done is in that one file. @throws SQLITE_BUSY where
 * another process has it
 */
function take(database: DatabaseSync): void {
  database.exec("PRAGMA locking_mode = EXCLUSIVE");
  database.exec("PRAGMA journal_mode = TRUNCATE; PRAGMA synchronous = FULL");
  database.exec("BEGIN EXCLUSIVE; COMMIT");
}

/** Which file is there, and how many names it has; undefined: none is. */
function identityOf(
  file: string,
): { readonly identity: string; readonly names: bigint } | undefined {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false });
  return found && { identity: `${found.dev}:${found.ino}`, names: found.nlink };
}

/** SQLite's word, in whichever of its forms. */
function isBusy(cause: unknown): boolean {
  const { errcode } = Object(cause);
  return typeof errcode === "number" && (errcode & 0xff) === SQLITE_BUSY;
}

const SQLITE_BUSY = 5;

function purchaseOf(row: Readonly<Record<string, SQLOutputValue>>): AgentPurchase {
  const { version, payment, answer } = row;
  const known = Number(version);
  return {
    id: Number(row["id"]),
    key: text(row["key"]),
    // What the CHECKs of the table allow.
    state: text(row["state"]) as PurchaseState,
    way: text(row["way"]) as Way,
    at: Number(row["at"]),
    seller: text(row["seller"]),
    what: text(row["what"]),
    dollars: BigInt(text(row["dollars"])),
    amount: text(row["amount"]),
    network: text(row["network"]),
    payTo: text(row["pay_to"]),
    payer: text(row["payer"]),
    payment:
      typeof payment === "string" && isVersion(known) ? { version: known, value: payment } : null,
    liveUntil: Number(row["live_until"]),
    session: typeof row["session"] === "string" ? row["session"] : null,
    transaction: typeof row["transaction_id"] === "string" ? row["transaction_id"] : null,
    reason: text(row["reason"]),
    answer: typeof answer === "string" ? JSON.parse(answer) : null,
  };
}

function text(value: SQLOutputValue | undefined): string {
  return typeof value === "string" ? value : "";
}
