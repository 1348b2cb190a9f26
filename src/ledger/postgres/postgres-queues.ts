/** Payments in PostgreSQL that wait for somebody: for a facilitator's answer, or for a life that can sign. */
import type { HandedOver, OfferedPayment } from "../ledger.ts";
import { isPublic } from "../payment-judgement.ts";
import { handedOverOf, requestOf } from "../payment-row.ts";
import type { PostgresColumns, Session, Statement } from "./postgres-database.ts";
import { COLUMNS, storedOf, type Stored } from "./postgres-payments.ts";
import { UNWATCHED_MS, type OpenRefund, type OpenRefundState } from "../refund-steps.ts";
import { openRefundOf } from "../refunds.ts";
import { messageOf } from "../../x402/result.ts";

/** Hears of a row that had to be left out. */
export type OnUnreadable = (key: string, reason: string) => void;

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

/** See {@link Redemptions.handedOvers}. */
export async function readHandedOvers(
  session: Session,
  limit: number,
  onUnreadable: OnUnreadable,
): Promise<readonly HandedOver[]> {
  return readQueue(
    (behind) => session.query(HANDED_OVERS, [...behind, limit]),
    { limit, onUnreadable },
    ({ key, row }, { sinceMs }) => handedOverOf(row, key, Number(sinceMs)),
  );
}

/** See {@link Redemptions.doubted}. */
export async function readDoubted(
  session: Session,
  { limit, nowMs }: { readonly limit: number; readonly nowMs: number },
  onUnreadable: OnUnreadable,
): Promise<readonly HandedOver[]> {
  return readQueue(
    (behind) => session.query(DOUBTED, [...behind, limit, nowMs]),
    { limit, onUnreadable },
    ({ key, row }, { changedMs }) => handedOverOf(row, key, Number(changedMs)),
  );
}

/** See {@link Settlements.offers}. */
export async function readOffers(
  session: Session,
  { network, limit }: { readonly network: string; readonly limit: number },
  onUnreadable: OnUnreadable,
): Promise<readonly OfferedPayment[]> {
  return readQueue(
    (behind) => session.query(OFFERS, [...behind, limit, network]),
    { limit, onUnreadable },
    ({ key, row }) => {
      return { key, request: requestOf(row), isPublic: isPublic(row), version: row.version };
    },
  );
}

/** See {@link Ledger.refunds}. */
export async function readRefunds(
  session: Session,
  {
    network,
    limit,
    state = null,
    nowMs,
  }: {
    readonly network: string;
    readonly limit: number;
    readonly state?: OpenRefundState | null | undefined;
    readonly nowMs: number;
  },
  onUnreadable: OnUnreadable,
): Promise<readonly OpenRefund[]> {
  return readQueue(
    (behind) => session.query(REFUNDS, [...behind, limit, network, nowMs - UNWATCHED_MS, state]),
    { limit, onUnreadable },
    ({ key, row }) => openRefundOf(row, key),
  );
}

/** Reads up to a limit of rows page by page: those that cannot be read take nobody's place. */
async function readQueue<Value>(
  page: (behind: readonly [sinceMs: number, id: number]) => Promise<readonly PostgresColumns[]>,
  { limit, onUnreadable }: { readonly limit: number; readonly onUnreadable: OnUnreadable },
  read: (stored: Stored, columns: PostgresColumns) => Value,
): Promise<readonly Value[]> {
  const found: Value[] = [];
  for (let behind: readonly [number, number] = [0, 0]; ;) {
    const rows = await page(behind);
    for (const columns of rows) {
      const value = readOrTell(columns, onUnreadable, (stored) => read(stored, columns));
      if (value !== undefined && found.length < limit) found.push(value);
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < limit || found.length === limit) return found;
    behind = [Number(last.sinceMs), Number(last.id)];
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
