/** What others are to be told, as rows of SQLite. */
import type { SQLInputValue } from "node:sqlite";
import type { Time } from "../../time/time.ts";
import {
  draftsOf,
  KEPT_FOR_MS,
  LONGEST_PAUSE_MS,
  MAX_MESSAGES,
  readCount,
  readMessage,
  REPLAYED_AT_ONCE,
  TAKEN_FOR_MS,
  TIDIED_AT_ONCE,
  tidiedOf,
  type Given,
  type OutboxMessage,
  type MessageCount,
  type MessageFilter,
  type Messages,
  type Outbox,
  type OutboxEvent,
  type Recipient,
  type Tidied,
} from "../outbox.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import { openBeside } from "./sqlite-schema.ts";

/** Pause between two steps of a replay, in which others write, milliseconds. */
const BETWEEN_STEPS_MS = 20;

const COLUMNS = `place, id, recipient, type, subject, data, at_ms AS "atMs", state, attempts,
  since_ms AS "sinceMs", due_ms AS "dueMs", error`;

/** The first of each subject that is not over, where it is due. */
const DUE = `SELECT place FROM outbox AS m INDEXED BY messages_due
  WHERE recipient = :recipient AND state = 'WAITING' AND due_ms <= :nowMs
    AND NOT EXISTS (
      SELECT 1 FROM outbox AS e INDEXED BY messages_waiting
      WHERE e.recipient = m.recipient AND e.subject = m.subject AND e.state = 'WAITING'
        AND e.place < m.place)
  ORDER BY due_ms, place LIMIT :limit`;

export interface SqliteOutboxOptions {
  readonly database: SqliteDatabase;
  readonly time: Pick<Time, "now" | "sleep">;
  /** Several writes in one transaction. */
  readonly write: <Value>(step: () => Value) => Promise<Value>;
}

export class SqliteOutbox implements Outbox {
  readonly #options: SqliteOutboxOptions;
  readonly #database: SqliteDatabase;
  readonly #time: SqliteOutboxOptions["time"];
  #recipients: readonly Recipient[] = [];

  constructor(options: SqliteOutboxOptions) {
    this.#options = options;
    this.#database = options.database;
    this.#time = options.time;
  }

  address(recipients: readonly Recipient[]): void {
    this.#recipients = recipients;
  }

  /** What a process before this one had taken is due: nobody else has the file open. */
  release(): void {
    this.#database.run(
      "UPDATE outbox SET taker = NULL, due_ms = :nowMs WHERE state = 'WAITING' AND taker IS NOT NULL",
      { nowMs: this.#time.now() },
    );
  }

  /** Part of its caller's transaction. */
  add(event: OutboxEvent | undefined, atMs: number): void {
    for (const draft of draftsOf(event, this.#recipients)) {
      this.#database.run(
        `INSERT INTO outbox (id, recipient, type, subject, data, at_ms, state, attempts, since_ms, due_ms)
         VALUES (:id, :recipient, :type, :subject, :data, :atMs, 'WAITING', 0, :nowMs, :nowMs)`,
        { ...draft, atMs, nowMs: this.#time.now() },
      );
    }
  }

  trouble(subject: string, isThere: boolean, event?: OutboxEvent): Promise<boolean> {
    const nowMs = this.#time.now();
    return this.#options.write(() => {
      const changed = isThere
        ? this.#database.run(
            `INSERT INTO troubles (subject, since_ms) VALUES (:subject, :nowMs)
             ON CONFLICT (subject) DO NOTHING`,
            { subject, nowMs },
          )
        : this.#database.run("DELETE FROM troubles WHERE subject = :subject", { subject });
      if (changed > 0) this.add(event, nowMs);
      return changed > 0;
    });
  }

  take(recipient: string, taker: string, limit: number): Promise<readonly OutboxMessage[]> {
    const nowMs = this.#time.now();
    const asked = { recipient, nowMs, limit };
    // Most looks find nothing, and write nothing.
    if (this.#database.all(DUE, asked).length === 0) return Promise.resolve([]);
    return this.#options.write(() => {
      const rows = this.#database.all(
        `UPDATE outbox SET taker = :taker, due_ms = :untilMs, attempts = attempts + 1
         WHERE place IN (${DUE}) RETURNING ${COLUMNS}`,
        { ...asked, taker, untilMs: nowMs + TAKEN_FOR_MS },
      );
      return rows.map(readMessage);
    });
  }

  given(taker: string, given: readonly Given[]): Promise<void> {
    return this.#options.write(() => {
      for (const each of given) {
        const changed = this.#database.run(
          `UPDATE outbox SET state = :state, due_ms = :dueMs, error = :error, taker = NULL
           WHERE place = :place AND taker = :taker AND state = 'WAITING'`,
          { ...each, taker },
        );
        if (changed > 0) this.#putOff(each);
      }
    });
  }

  /**
   * What waits behind a message is due with it, or at once when that is over: each look goes through all that is due,
   * and this process has the money.
   */
  #putOff({ place, state, dueMs: laterMs }: Given): void {
    const dueMs = state === "WAITING" ? laterMs : this.#time.now();
    this.#database.run(
      `UPDATE outbox INDEXED BY messages_waiting SET due_ms = :dueMs
       WHERE state = 'WAITING' AND place > :place
         AND (recipient, subject) = (SELECT recipient, subject FROM outbox WHERE place = :place)`,
      { place, dueMs },
    );
  }

  async counts(): Promise<readonly MessageCount[]> {
    const rows = this.#database.all(
      `SELECT recipient, sum(state = 'WAITING') AS "waiting", sum(state = 'FAILED') AS "failed",
         min(CASE WHEN state = 'WAITING' THEN at_ms END) AS "oldestMs"
       FROM outbox INDEXED BY messages_open WHERE state <> 'DELIVERED' GROUP BY recipient`,
      {},
    );
    return rows.map(readCount);
  }

  async list(filter: MessageFilter, limit: number): Promise<readonly OutboxMessage[]> {
    const { where, values } = conditionsOf(filter);
    const rows = this.#database.all(
      `SELECT ${COLUMNS} FROM outbox WHERE ${where}
       ORDER BY state = 'DELIVERED', place DESC LIMIT :limit`,
      { ...values, limit },
    );
    return rows.map(readMessage);
  }

  /** In steps, oldest first: who else writes to the file waits for none of them long. */
  async replay(filter: MessageFilter): Promise<number> {
    const { where, values } = conditionsOf(filter);
    const nowMs = this.#time.now();
    let count = 0;
    for (let behind = 0; ;) {
      const from = behind;
      const places = await this.#options.write(() => {
        const rows = this.#database.all(
          `UPDATE outbox SET state = 'WAITING', attempts = 0, since_ms = :nowMs, due_ms = :nowMs,
             taker = NULL, error = NULL
           WHERE place IN (SELECT place FROM outbox WHERE place > :from AND ${where}
             ORDER BY place LIMIT :limit)
           RETURNING place`,
          { ...values, nowMs, from, limit: REPLAYED_AT_ONCE },
        );
        return rows.map(({ place }) => Number(place));
      });
      count += places.length;
      if (places.length < REPLAYED_AT_ONCE) return count;
      behind = Math.max(...places);
      await this.#time.sleep(BETWEEN_STEPS_MS);
    }
  }

  tidy(): Promise<Tidied> {
    const nowMs = this.#time.now();
    return this.#options.write(() => {
      const old = this.#database.all(
        "DELETE FROM outbox WHERE place IN (SELECT place FROM outbox WHERE at_ms < :beforeMs LIMIT :limit) RETURNING state",
        { beforeMs: nowMs - KEPT_FOR_MS, limit: TIDIED_AT_ONCE },
      );
      const found = this.#database.get('SELECT count(*) AS "count" FROM outbox', {});
      const most = Math.min(Number(found?.count) - MAX_MESSAGES, TIDIED_AT_ONCE);
      const excess = this.#database.all(
        `DELETE FROM outbox WHERE place IN (
           SELECT place FROM outbox ORDER BY state = 'WAITING', place LIMIT :limit)
         RETURNING state`,
        { limit: Math.max(0, most) },
      );
      this.#database.run(
        `UPDATE outbox SET due_ms = :nowMs WHERE place IN (
           SELECT place FROM outbox WHERE state = 'WAITING' AND due_ms > :lateMs LIMIT :limit)`,
        { nowMs, lateMs: nowMs + LONGEST_PAUSE_MS, limit: TIDIED_AT_ONCE },
      );
      return tidiedOf(old, excess);
    });
  }
}

function conditionsOf({ id, recipient, type, states, sinceMs }: MessageFilter): {
  readonly where: string;
  readonly values: Readonly<Record<string, SQLInputValue>>;
} {
  const given = { id: id ?? null, recipient: recipient ?? null, type: type ?? null };
  const where = [
    "(:id IS NULL OR id = :id)",
    "(:recipient IS NULL OR recipient = :recipient)",
    "(:type IS NULL OR type = :type)",
    "at_ms >= :sinceMs",
    "(:states IS NULL OR instr(:states, state) > 0)",
  ].join(" AND ");
  return { where, values: { ...given, states: states?.join(" ") ?? null, sinceMs: sinceMs ?? 0 } };
}

/**
 * Opens the messages of a ledger that another process may have open: nobody keeps them in memory. Rejects with
 * {@link LedgerUnavailable} where there is no such file, or one of another schema.
 */
export async function openSqliteMessages({
  path,
  time,
}: {
  readonly path: string;
  readonly time: Pick<Time, "now" | "sleep">;
}): Promise<Messages & { close(): Promise<void> }> {
  const database = openBeside(path);
  const write = async <Value>(step: () => Value): Promise<Value> => database.transaction(step);
  const outbox = new SqliteOutbox({ database, time, write });
  return {
    list: (filter, limit) => outbox.list(filter, limit),
    replay: (filter) => outbox.replay(filter),
    close: async () => database.close(),
  };
}
