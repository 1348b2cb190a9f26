/**
 * What is on its way out of payers' purses, as rows of PostgreSQL. Whoever signs reads it in one statement with
 * the payments that are to be signed, behind the statement that has locked the purses: so it sees what everybody
 * before it has signed.
 */
import type { PaymentKey } from "../../x402/payment-key.ts";
import { LedgerUnavailable } from "../ledger.ts";
import type { Session, Statement } from "./postgres-database.ts";
import { COLUMNS, storedOf, type Stored } from "./postgres-payments.ts";
import {
  claimedSince,
  earliestUnseen,
  purseName,
  purseOf,
  type Purse,
  type Draws,
  type Spend,
} from "../purse.ts";

/** Purses that are asked for together. */
export interface AskedPurses {
  /** In the one order in which everybody locks them. */
  readonly purses: readonly AskedPurse[];
  /** Milliseconds since the epoch. */
  readonly settledAfterMs: number;
}

export interface AskedPurse extends Purse {
  /** Up to that, atomic units, it does not matter what else leaves the purse. */
  readonly enoughAtomic: bigint;
}

/** Payments of a purse `u` of {@link spending}. */
function part(settledMs: string, isMeant: string): string {
  return `
    SELECT p.payment_key, p.version, p.amount_atomic, p.id, ${settledMs} AS settled_ms
    FROM coinslot.payments AS p
    WHERE lower(p.payer) = u.payer AND lower(p.asset) = u.asset AND p.network = u.network
      AND p.submission IS NOT NULL AND ${isMeant}`;
}

/**
 * Of the purses whose networks, assets, payers and amounts are given from that place on, and the two times behind
 * them: one list for each purse whose spends are more than its amount.
 */
function spending(first: number): string {
  const [networks, assets, payers, enough, afterMs, claimedMs] = [0, 1, 2, 3, 4, 5].map(
    (at) => `$${first + at}`,
  );
  const settledLately = `p.settled_transaction IS NOT NULL AND p.updated_ms > ${afterMs}::bigint
    AND p.created_ms > ${claimedMs}::bigint`;
  return `
    SELECT coalesce(json_agg(t.spends), '[]')::text FROM (
      SELECT json_agg(json_build_array(
        s.payment_key, s.version, s.amount_atomic, s.settled_ms) ORDER BY s.id) AS spends
      FROM unnest(${networks}::text[], ${assets}::text[], ${payers}::text[], ${enough}::numeric[])
        AS u(network, asset, payer, enough),
      LATERAL (
        ${part("NULL::bigint", "p.state = 'SIGNED'")}
        UNION ALL
        ${part("p.updated_ms", settledLately)}
      ) AS s
      GROUP BY u.network, u.asset, u.payer, u.enough
      HAVING sum(s.amount_atomic::numeric) > u.enough
    ) AS t`;
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

export function pursesOf(draws: Draws): AskedPurses {
  const least = new Map<string, bigint>();
  const wanted = new Map<string, bigint>();
  const purses = new Map<string, Purse>();
  for (const [
    key,
    {
      amountAtomic,
      reading: { balanceAtomic },
    },
  ] of draws) {
    const purse = purseOf(key);
    const { name } = purse;
    const known = least.get(name) ?? balanceAtomic;
    purses.set(name, purse);
    least.set(name, balanceAtomic < known ? balanceAtomic : known);
    wanted.set(name, (wanted.get(name) ?? 0n) + amountAtomic);
  }
  const asked = [...purses.values()].map((purse) => {
    const enoughAtomic = (least.get(purse.name) ?? 0n) - (wanted.get(purse.name) ?? 0n);
    return { ...purse, enoughAtomic };
  });
  asked.sort((one, other) => (one.name < other.name ? -1 : 1));
  return { purses: asked, settledAfterMs: draws.size === 0 ? 0 : earliestUnseen(draws) };
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
  const rows = await session.query(LOCK, [keys, ...columnsOf(purses), ...timesOf(settledAfterMs)]);
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
  const all = [{ ...purse, enoughAtomic: 0n }];
  const [row] = await session.query(SPENDS, [...columnsOf(all), ...timesOf(settledAfterMs)]);
  return readAll(row?.spends);
}

function timesOf(settledAfterMs: number): readonly number[] {
  return [settledAfterMs, claimedSince(settledAfterMs)];
}

function columnsOf(purses: readonly AskedPurse[]): readonly (readonly string[])[] {
  return [
    purses.map(({ network }) => network),
    purses.map(({ asset }) => asset),
    purses.map(({ payer }) => payer),
    purses.map(({ enoughAtomic }) => enoughAtomic.toString()),
  ];
}

function readAll(json: unknown): readonly Spend[] {
  const list: unknown = JSON.parse(String(json));
  if (!Array.isArray(list))
    throw new LedgerUnavailable("stored payments of a payer cannot be read");
  return list.flat(1).map((each: unknown) => {
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
