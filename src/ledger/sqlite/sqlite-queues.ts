/** Payments in SQLite that wait to be gone on with. */
import type { PaymentKey } from "../../x402/payment-key.ts";
import type { HandedOver, OfferedPayment, Queues } from "../ledger.ts";
import { isPublic } from "../payment-judgement.ts";
import { handedOverOf, requestOf, type PaymentRow } from "../payment-row.ts";
import { UNWATCHED_MS, type OpenRefund, type OpenRefundState } from "../refund-steps.ts";
import { openRefundOf } from "../refunds.ts";
import type { SqliteCore } from "./sqlite-core.ts";

export class SqliteQueues implements Queues {
  readonly #core: SqliteCore;

  constructor(core: SqliteCore) {
    this.#core = core;
  }

  async handedOvers(limit: number): Promise<readonly HandedOver[]> {
    const where =
      "WHERE state = 'SIGNED' AND submission IS NULL AND facilitator IS NOT NULL AND held_transaction IS NULL";
    return this.#core.readable(`${where} ORDER BY updated_ms, rowid`, { limit }, readHandedOver);
  }

  async doubted(limit: number): Promise<readonly HandedOver[]> {
    const due = { limit, now: this.#core.time.now() };
    const where = "WHERE look_again_ms <= :now ORDER BY look_again_ms, rowid";
    return this.#core.readable(where, due, readHandedOver);
  }

  async offers(network: string, limit: number): Promise<readonly OfferedPayment[]> {
    const where = "WHERE offered = 1 AND network = :network ORDER BY updated_ms, rowid";
    return this.#core.readable(where, { network, limit }, offeredOf);
  }

  async offered(signal: AbortSignal): Promise<void> {
    await this.#core.offered(signal);
  }

  async refunds(
    network: string,
    limit: number,
    state?: OpenRefundState,
  ): Promise<readonly OpenRefund[]> {
    const states = state === undefined ? "'ASKED', 'SENDING'" : `'${state}'`;
    const where = `WHERE refund_state IN (${states}) AND network = :network
       AND (refund_state = 'SENDING' OR CASE WHEN submission IS NULL THEN updated_ms + ${UNWATCHED_MS} <= :now ELSE NOT EXISTS
         (SELECT 1 FROM submissions AS s WHERE s.id = payments.submission AND s.state <> 'CLOSED') END)
       ORDER BY updated_ms, rowid`;
    const now = this.#core.time.now();
    // The column holds nothing but keys.
    return this.#core.readable(where, { network, limit, now }, (row, key) =>
      openRefundOf(row, key as PaymentKey),
    );
  }
}

function readHandedOver(
  row: PaymentRow,
  key: string,
  { updatedMs }: Readonly<Record<string, unknown>>,
): HandedOver {
  return handedOverOf(row, key as PaymentKey, Number(updatedMs));
}

function offeredOf(row: PaymentRow, key: string): OfferedPayment {
  const { version } = row;
  return { key: key as PaymentKey, request: requestOf(row), isPublic: isPublic(row), version };
}
