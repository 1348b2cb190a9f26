/** Payments in PostgreSQL that wait for somebody: for a facilitator's answer, or for a life that can sign. */
import type { Time } from "../../time/time.ts";
import type { HandedOver, OfferedPayment, Queues } from "../ledger.ts";
import { isPublic } from "../payment-judgement.ts";
import { handedOverOf, requestOf } from "../payment-row.ts";
import type { PostgresColumns, PostgresDatabase, Statement } from "./postgres-database.ts";
import { COLUMNS, storedOf, type Stored } from "./postgres-payments.ts";
import { UNWATCHED_MS, type OpenRefund, type OpenRefundState } from "../refund-steps.ts";
import { openRefundOf } from "../refunds.ts";
import { messageOf } from "../../x402/result.ts";

/** Hears of a row that had to be left out. */
export type OnUnreadable = (key: string, reason: string) => void;

interface QueuesGround {
  readonly database: PostgresDatabase;
  readonly listener: Pick<Queues, "offered">;
  readonly time: Time;
  readonly onUnreadable: OnUnreadable;
}

const HANDED_OVERS: Statement = {
  name: "handed_overs",
  text: `SELECT ${COLUMNS}, p.updated_ms AS "sinceMs" FROM coinslot.payments AS p
         WHERE p.state = 'SIGNED' AND p.submission IS NULL AND p.facilitator IS NOT NULL
           AND p.held_transaction IS NULL
           AND (p.updated_ms, p.id) > ($1, $2)
         ORDER BY p.updated_ms, p.id LIMIT $3`,
};

const DOUBTED: Statement = {
  name: "doubted_payments",
  text: `SELECT ${COLUMNS}, p.look_again_ms AS "sinceMs", p.updated_ms AS "changedMs"
         FROM coinslot.payments AS p
         WHERE p.look_again_ms <= $4 AND (p.look_again_ms, p.id) > ($1, $2)
         ORDER BY p.look_again_ms, p.id LIMIT $3`,
};

const OFFERS: Statement = {
  name: "offers",
  text: `SELECT ${COLUMNS}, p.updated_ms AS "sinceMs" FROM coinslot.payments AS p
         WHERE p.offered AND p.network = $4 AND (p.updated_ms, p.id) > ($1, $2)
         ORDER BY p.updated_ms, p.id LIMIT $3`,
};

const REFUNDS: Statement = {
  name: "open_refunds",
  text: `SELECT ${COLUMNS}, p.updated_ms AS "sinceMs" FROM coinslot.payments AS p
         WHERE p.refund_state IN ('ASKED', 'SENDING') AND p.refund_state = coalesce($6, p.refund_state) AND p.network = $4
           AND (p.refund_state = 'SENDING' OR CASE WHEN p.submission IS NULL THEN p.updated_ms <= $5 ELSE NOT EXISTS
             (SELECT 1 FROM coinslot.submissions AS s WHERE s.id = p.submission AND s.state <> 'CLOSED') END)
           AND (p.updated_ms, p.id) > ($1, $2)
         ORDER BY p.updated_ms, p.id LIMIT $3`,
};

export class PostgresQueues implements Queues {
  readonly #ground: QueuesGround;

  constructor(ground: QueuesGround) {
    this.#ground = ground;
  }

  async handedOvers(limit: number): Promise<readonly HandedOver[]> {
    return this.#read(HANDED_OVERS, { limit }, ({ key, row }, { sinceMs }) =>
      handedOverOf(row, key, Number(sinceMs)),
    );
  }

  async doubted(limit: number): Promise<readonly HandedOver[]> {
    const more = [this.#ground.time.now()];
    return this.#read(DOUBTED, { limit, more }, ({ key, row }, { changedMs }) =>
      handedOverOf(row, key, Number(changedMs)),
    );
  }

  async offers(network: string, limit: number): Promise<readonly OfferedPayment[]> {
    return this.#read(OFFERS, { limit, more: [network] }, ({ key, row }) => {
      return { key, request: requestOf(row), isPublic: isPublic(row), version: row.version };
    });
  }

  async offered(signal: AbortSignal): Promise<void> {
    await this.#ground.listener.offered(signal);
  }

  async refunds(
    network: string,
    limit: number,
    state?: OpenRefundState,
  ): Promise<readonly OpenRefund[]> {
    const more = [network, this.#ground.time.now() - UNWATCHED_MS, state ?? null];
    return this.#read(REFUNDS, { limit, more }, ({ key, row }) => openRefundOf(row, key));
  }

  /** Reads up to a limit of rows page by page: those that cannot be read take nobody's place. */
  async #read<Value>(
    statement: Statement,
    { limit, more = [] }: { readonly limit: number; readonly more?: readonly unknown[] },
    read: (stored: Stored, columns: PostgresColumns) => Value,
  ): Promise<readonly Value[]> {
    const { database, onUnreadable } = this.#ground;
    const found: Value[] = [];
    for (let behind: readonly [sinceMs: number, id: number] = [0, 0]; ;) {
      const rows = await database.query(statement, [...behind, limit, ...more]);
      for (const columns of rows) {
        const value = readOrTell(columns, onUnreadable, (stored) => read(stored, columns));
        if (value !== undefined && found.length < limit) found.push(value);
      }
      const last = rows.at(-1);
      if (last === undefined || rows.length < limit || found.length === limit) return found;
      behind = [Number(last.sinceMs), Number(last.id)];
    }
  }
}

/** Undefined for a row that cannot be read, which is told. */
export function readOrTell<Value>(
  columns: PostgresColumns,
  onUnreadable: OnUnreadable,
  read: (stored: Stored) => Value,
): Value | undefined {
  try {
    return read(storedOf(columns));
  } catch (error) {
    onUnreadable(String(columns.key), messageOf(error));
    return undefined;
  }
}
