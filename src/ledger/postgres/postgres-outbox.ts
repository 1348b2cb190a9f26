/** What others are to be told, as rows of PostgreSQL, where every replica finds them. */
import type { Time } from "../../time/time.ts";
import {
  draftsOf,
  KEPT_FOR_MS,
  LONGEST_PAUSE_MS,
  MAX_MESSAGES,
  readCount,
  readMessage,
  TAKEN_FOR_MS,
  TIDIED_AT_ONCE,
  tidiedOf,
  type Given,
  type OutboxMessage,
  type MessageCount,
  type MessageDraft,
  type MessageFilter,
  type Messages,
  type Outbox,
  type OutboxEvent,
  type Recipient,
  type Tidied,
} from "../outbox.ts";
import type { Session, Statement } from "./postgres-database.ts";
import { openBeside } from "./postgres-beside.ts";

type Now = Pick<Time, "now">;

const COLUMNS = `m.place AS "place", m.id AS "id", m.recipient AS "recipient", m.type AS "type",
  m.subject AS "subject", m.data AS "data", m.at_ms AS "atMs", m.state AS "state",
  m.attempts AS "attempts", m.since_ms AS "sinceMs", m.due_ms AS "dueMs", m.error AS "error"`;

/** Writes the {@link MessageDraft}s of a JSON list: part of the statement that changes what they tell of. */
export function tellingOf(drafts: string, nowMs: string, changed: string): string {
  return `INSERT INTO coinslot.outbox
      (id, recipient, type, subject, data, at_ms, state, attempts, since_ms, due_ms)
    SELECT d.id, d.recipient, d.type, d.subject, d.data, ${nowMs}::bigint, 'WAITING', 0, ${nowMs}, ${nowMs}
    FROM json_to_recordset(${drafts}::json)
      AS d(id text, recipient text, type text, subject text, data text)
    WHERE EXISTS (SELECT FROM ${changed})`;
}

const TROUBLE_BEGINS: Statement = {
  name: "trouble_begins",
  text: `
    WITH changed AS (
      INSERT INTO coinslot.troubles (subject, since_ms) VALUES ($1, $2::bigint)
      ON CONFLICT (subject) DO NOTHING RETURNING subject
    ),
    told AS (${tellingOf("$3", "$2", "changed")})
    SELECT FROM changed`,
};
const TROUBLE_ENDS: Statement = {
  name: "trouble_ends",
  text: `
    WITH changed AS (DELETE FROM coinslot.troubles WHERE subject = $1 RETURNING subject),
    told AS (${tellingOf("$3", "$2", "changed")})
    SELECT FROM changed`,
};

/** Who is faster has them; the others pass over what is being taken. */
const TAKE: Statement = {
  name: "take_messages",
  text: `
    UPDATE coinslot.outbox AS m SET taker = $2, due_ms = $4, attempts = m.attempts + 1
    WHERE m.place = ANY (ARRAY(
      SELECT w.place FROM coinslot.outbox AS w
      WHERE w.recipient = $1 AND w.state = 'WAITING' AND w.due_ms <= $3
        AND NOT EXISTS (SELECT FROM coinslot.outbox AS e
          WHERE e.recipient = w.recipient AND e.subject = w.subject AND e.state = 'WAITING'
            AND e.place < w.place)
      ORDER BY w.due_ms, w.place LIMIT $5 FOR UPDATE SKIP LOCKED))
    RETURNING ${COLUMNS}`,
};
const GIVEN: Statement = {
  name: "given_messages",
  text: `
    UPDATE coinslot.outbox AS m SET state = g.state, due_ms = g."dueMs", error = g.error, taker = NULL
    FROM json_to_recordset($2::json) AS g(place bigint, state text, "dueMs" bigint, error text)
    WHERE m.place = g.place AND m.taker = $1 AND m.state = 'WAITING'`,
};
const COUNTS: Statement = {
  name: "count_messages",
  text: `SELECT recipient AS "recipient", count(*) FILTER (WHERE state = 'WAITING') AS "waiting",
           count(*) FILTER (WHERE state = 'FAILED') AS "failed",
           min(at_ms) FILTER (WHERE state = 'WAITING') AS "oldestMs"
         FROM coinslot.outbox WHERE state <> 'DELIVERED' GROUP BY recipient`,
};

const CHOSEN = `m.place > 0 AND m.at_ms >= $1 AND ($2::text IS NULL OR m.id = $2)
  AND ($3::text IS NULL OR m.recipient = $3) AND ($4::text IS NULL OR m.type = $4)
  AND ($5::text[] IS NULL OR m.state = ANY ($5))`;

const LIST: Statement = {
  name: "list_messages",
  text: `SELECT ${COLUMNS} FROM coinslot.outbox AS m WHERE ${CHOSEN}
         ORDER BY m.state = 'DELIVERED', m.place DESC LIMIT $6`,
};
const REPLAY: Statement = {
  name: "replay_messages",
  text: `UPDATE coinslot.outbox AS m SET state = 'WAITING', attempts = 0, since_ms = $6, due_ms = $6,
           taker = NULL, error = NULL
         WHERE ${CHOSEN} RETURNING m.place AS "place"`,
};
const FORGET_OLD: Statement = {
  name: "forget_old_messages",
  text: `DELETE FROM coinslot.outbox WHERE place = ANY (ARRAY(
           SELECT place FROM coinslot.outbox WHERE at_ms < $1 ORDER BY at_ms LIMIT ${TIDIED_AT_ONCE}))
         RETURNING state AS "state"`,
};
const FORGET_EXCESS: Statement = {
  name: "forget_excess_messages",
  text: `DELETE FROM coinslot.outbox WHERE place = ANY (ARRAY(
           SELECT place FROM coinslot.outbox WHERE place > 0 ORDER BY state = 'WAITING', place LIMIT greatest(0,
             least(${TIDIED_AT_ONCE}, (SELECT count(*) FROM coinslot.outbox WHERE place > 0) - ${MAX_MESSAGES}))))
         RETURNING state AS "state"`,
};

const HASTEN: Statement = {
  name: "hasten_messages",
  text: `UPDATE coinslot.outbox SET due_ms = $1 WHERE place = ANY (ARRAY(
           SELECT place FROM coinslot.outbox WHERE recipient > '' AND state = 'WAITING' AND due_ms > $2
           LIMIT ${TIDIED_AT_ONCE} FOR UPDATE SKIP LOCKED))`,
};

export class PostgresOutbox implements Outbox {
  readonly #database: Session;
  readonly #time: Now;
  #recipients: readonly Recipient[] = [];

  constructor(database: Session, time: Now) {
    this.#database = database;
    this.#time = time;
  }

  address(recipients: readonly Recipient[]): void {
    this.#recipients = recipients;
  }

  drafts(event: OutboxEvent | undefined): readonly MessageDraft[] {
    return draftsOf(event, this.#recipients);
  }

  async trouble(subject: string, isThere: boolean, event?: OutboxEvent): Promise<boolean> {
    const statement = isThere ? TROUBLE_BEGINS : TROUBLE_ENDS;
    const values = [subject, this.#time.now(), JSON.stringify(this.drafts(event))];
    return (await this.#database.query(statement, values)).length > 0;
  }

  async take(recipient: string, taker: string, limit: number): Promise<readonly OutboxMessage[]> {
    const nowMs = this.#time.now();
    const asked = [recipient, taker, nowMs, nowMs + TAKEN_FOR_MS, limit];
    return (await this.#database.query(TAKE, asked)).map(readMessage);
  }

  async given(taker: string, given: readonly Given[]): Promise<void> {
    await this.#database.query(GIVEN, [taker, JSON.stringify(given)]);
  }

  async counts(): Promise<readonly MessageCount[]> {
    return (await this.#database.query(COUNTS, [])).map(readCount);
  }

  async list(filter: MessageFilter, limit: number): Promise<readonly OutboxMessage[]> {
    return (await this.#database.query(LIST, [...chosen(filter), limit])).map(readMessage);
  }

  async replay(filter: MessageFilter): Promise<number> {
    return (await this.#database.query(REPLAY, [...chosen(filter), this.#time.now()])).length;
  }

  async tidy(): Promise<Tidied> {
    const nowMs = this.#time.now();
    const old = await this.#database.query(FORGET_OLD, [nowMs - KEPT_FOR_MS]);
    const excess = await this.#database.query(FORGET_EXCESS, []);
    await this.#database.query(HASTEN, [nowMs, nowMs + LONGEST_PAUSE_MS]);
    return tidiedOf(old, excess);
  }
}

function chosen({ id, recipient, type, states, sinceMs }: MessageFilter): readonly unknown[] {
  return [sinceMs ?? 0, id ?? null, recipient ?? null, type ?? null, states ?? null];
}

/**
 * Opens the messages beside running gateways, or without one. Rejects with {@link LedgerUnavailable} where the database
 * cannot be asked, holds no ledger, or another version's.
 */
export async function openPostgresMessages({
  url,
  time,
}: {
  readonly url: string;
  readonly time: Now;
}): Promise<Messages & { close(): Promise<void> }> {
  const database = await openBeside(url);
  const outbox = new PostgresOutbox(database, time);
  return {
    list: (filter, limit) => outbox.list(filter, limit),
    replay: (filter) => outbox.replay(filter),
    close: () => database.close(),
  };
}
