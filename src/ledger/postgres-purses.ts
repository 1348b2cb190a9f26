/**
 * What is on its way out of payers' purses, as rows of PostgreSQL. Whoever signs reads it in one statement with
 * the payments that are to be signed, behind the statement that has locked the purses: so it sees what everybody
 * before it has signed.
 */
import type { PaymentKey } from "../x402/payment-key.ts";
import { LedgerUnavailable } from "./ledger.ts";
import type { Session, Statement } from "./postgres-database.ts";
import { COLUMNS, storedOf, type Stored } from "./postgres-payments.ts";
import {
  earliestUnseen,
  purseName,
  purseOf,
  type Purse,
  type PurseReadings,
  type Spend,
} from "./purse.ts";

/** Purses that are asked for together. */
export interface AskedPurses {
  /** In the one order in which everybody locks them. */
  readonly names: readonly string[];
  readonly purses: readonly Purse[];
  /** Milliseconds since the epoch. */
  readonly settledAfterMs: number;
}

/** Payments of a purse `u` of {@link spending}. */
function part(settledMs: string, isMeant: string): string {
  return `
    SELECT p.payment_key, p.version, p.amount_atomic, p.id, ${settledMs} AS settled_ms
    FROM coinslot.payments AS p
    WHERE lower(p.payer) = u.payer AND lower(p.asset) = u.asset AND p.network = u.network
      AND p.submission IS NOT NULL AND ${isMeant}`;
}

/** Of the purses whose networks, assets and payers are given from that place on, and the time behind them. */
function spending(first: number): string {
  const [networks, assets, payers, afterMs] = [0, 1, 2, 3].map((at) => `$${first + at}`);
  const settledLately = `p.settled_transaction IS NOT NULL AND p.updated_ms > ${afterMs}::bigint`;
  return `
    SELECT coalesce(json_agg(json_build_array(
      s.payment_key, s.version, s.amount_atomic, s.settled_ms) ORDER BY s.id), '[]')::text
    FROM unnest(${networks}::text[], ${assets}::text[], ${payers}::text[]) AS u(network, asset, payer),
    LATERAL (
      ${part("NULL::bigint", "p.state = 'SIGNED'")}
      UNION ALL
      ${part("p.updated_ms", settledLately)}
    ) AS s`;
}

const SPENDS: Statement = { name: "purse_spends", text: `SELECT (${spending(1)}) AS "spends"` };

/** The spends stand in the first row. */
const LOCK: Statement = {
  name: "lock_payments_with_purses",
  text: `
    WITH locked AS (
      SELECT ${COLUMNS} FROM coinslot.payments AS p WHERE p.payment_key = ANY ($1)
      ORDER BY p.payment_key FOR UPDATE
    )
    SELECT *, CASE row_number() OVER () WHEN 1 THEN (${spending(2)}) END AS "spends" FROM locked`,
};

export function pursesOf(readings: PurseReadings): AskedPurses {
  const byName = new Map([...readings.keys()].map((key) => [purseName(key), purseOf(key)]));
  const names = [...byName.keys()].sort();
  const purses = names.flatMap((name) => byName.get(name) ?? []);
  return { names, purses, settledAfterMs: readings.size === 0 ? 0 : earliestUnseen(readings) };
}

/** Payments that exist, which nobody changes before the transaction ends, and what leaves those purses. */
export async function lockWithPurses(
  session: Session,
  keys: readonly PaymentKey[],
  { purses, settledAfterMs }: AskedPurses,
): Promise<{
  readonly payments: readonly Stored[];
  readonly spendsOf: (purse: Purse) => readonly Spend[];
}> {
  const rows = await session.query(LOCK, [keys, ...columnsOf(purses), settledAfterMs]);
  const spends = rows.length === 0 ? [] : readAll(rows[0]?.spends);
  return {
    payments: rows.map(storedOf),
    spendsOf: (purse) => spends.filter(({ key }) => purseName(key) === purse.name),
  };
}

/** See {@link Purses.spends}. */
export async function readSpends(
  session: Session,
  purse: Purse,
  settledAfterMs: number,
): Promise<readonly Spend[]> {
  const [row] = await session.query(SPENDS, [...columnsOf([purse]), settledAfterMs]);
  return readAll(row?.spends);
}

function columnsOf(purses: readonly Purse[]): readonly (readonly string[])[] {
  return [
    purses.map(({ network }) => network),
    purses.map(({ asset }) => asset),
    purses.map(({ payer }) => payer),
  ];
}

function readAll(json: unknown): readonly Spend[] {
  const list: unknown = JSON.parse(String(json));
  if (!Array.isArray(list))
    throw new LedgerUnavailable("stored payments of a payer cannot be read");
  return list.map((each: unknown) => {
    const [key, version, amount, settledMs] = Array.isArray(each) ? each : [];
    return {
      // The column holds nothing but keys.
      key: String(key) as PaymentKey,
      version: Number(version),
      amountAtomic: BigInt(String(amount)),
      settledMs: settledMs === null ? null : Number(settledMs),
    };
  });
}
