/** What is on its way out of payers' purses, as rows of SQLite. */
import type { PaymentKey } from "../../x402/payment-key.ts";
import { claimedSince, type Purse, type Spend } from "../purse.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

const SPEND = `payment_key AS "key", version, amount_atomic AS "amount", created_ms AS "createdMs"`;
const OF_PURSE = "network = :network AND lower(asset) = :asset AND lower(payer) = :payer";

const UNDECIDED = `FROM payments INDEXED BY undecided_spends
  WHERE state = 'SIGNED' AND submission IS NOT NULL AND ${OF_PURSE}`;
const SETTLED = `FROM payments INDEXED BY payments_by_payer
  WHERE settled_transaction IS NOT NULL AND submission IS NOT NULL
  AND ${OF_PURSE} AND updated_ms > :settledAfterMs AND created_ms > :claimedAfterMs`;

const SPENDS = `
  SELECT ${SPEND}, NULL AS "settledMs" ${UNDECIDED}
  UNION ALL
  SELECT ${SPEND}, updated_ms AS "settledMs" ${SETTLED}
  ORDER BY "createdMs"`;

const BOUND = `SELECT
  (SELECT total(amount_atomic) ${UNDECIDED}) + (SELECT total(amount_atomic) ${SETTLED}) AS "total"`;

/** Beyond how far the sum of many floating-point numbers is from the true one, relative to it. */
const ROUNDING = 1e-9;

/** In place of all spends of a purse: not less than they are together, and found without a value for each of them. */
export function boundSpends(
  database: SqliteDatabase,
  { network, asset, payer }: Purse,
  settledAfterMs: number,
): Pick<Spend, "key" | "amountAtomic" | "settledMs"> {
  const claimedAfterMs = claimedSince(settledAfterMs);
  const values = { network, asset, payer, settledAfterMs, claimedAfterMs };
  const found = database.get(BOUND, values);
  const amountAtomic = BigInt(Math.ceil(Number(found?.total) * (1 + ROUNDING)));
  return { key: "" as PaymentKey, amountAtomic, settledMs: null };
}

/** As they are stored: what was settled a moment ago may be told as undecided still. */
export function readSpends(
  database: SqliteDatabase,
  { network, asset, payer }: Purse,
  settledAfterMs: number,
): readonly Spend[] {
  const claimedAfterMs = claimedSince(settledAfterMs);
  const values = { network, asset, payer, settledAfterMs, claimedAfterMs };
  return database.all(SPENDS, values).map((columns) => ({
    // The column holds nothing but keys.
    key: String(columns.key) as PaymentKey,
    version: Number(columns.version),
    amountAtomic: BigInt(String(columns.amount)),
    settledMs: columns.settledMs === null ? null : Number(columns.settledMs),
  }));
}
