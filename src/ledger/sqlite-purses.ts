/** What is on its way out of payers' purses, as rows of SQLite. */
import type { PaymentKey } from "../x402/payment-key.ts";
import type { Purse, Spend } from "./purse.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

const SPEND = `payment_key AS "key", version, amount_atomic AS "amount", created_ms AS "createdMs"`;
const OF_PURSE = "network = :network AND lower(asset) = :asset AND lower(payer) = :payer";

/** One statement for each index; both parts are short. */
const SPENDS = `
  SELECT ${SPEND}, NULL AS "settledMs" FROM payments
  WHERE state = 'SIGNED' AND submission IS NOT NULL AND ${OF_PURSE}
  UNION ALL
  SELECT ${SPEND}, updated_ms AS "settledMs" FROM payments
  WHERE settled_transaction IS NOT NULL AND submission IS NOT NULL AND ${OF_PURSE}
    AND updated_ms > :settledAfterMs
  ORDER BY "createdMs"`;

/** As they are stored: what was settled a moment ago may be told as undecided still. */
export function readSpends(
  database: SqliteDatabase,
  { network, asset, payer }: Purse,
  settledAfterMs: number,
): readonly Spend[] {
  return database.all(SPENDS, { network, asset, payer, settledAfterMs }).map((columns) => ({
    // The column holds nothing but keys.
    key: String(columns.key) as PaymentKey,
    version: Number(columns.version),
    amountAtomic: BigInt(String(columns.amount)),
    settledMs: columns.settledMs === null ? null : Number(columns.settledMs),
  }));
}
