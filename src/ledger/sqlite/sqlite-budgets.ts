/** What was sold and burnt in an hour, as rows of SQLite. Every function is part of its caller's transaction. */
import type { PaymentKey } from "../../x402/payment-key.ts";
import {
  hourOf,
  judgeSale,
  keptFrom,
  payerBudget,
  SALES,
  type BudgetedSale,
  type Reserved,
} from "../budgets.ts";
import { LedgerConflict } from "../ledger-fault.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

/** See {@link Budgets.reserve}; the payment is stored. */
export function reserve(
  database: SqliteDatabase,
  key: PaymentKey,
  sale: BudgetedSale,
  nowMs: number,
): Reserved {
  const found = database.get(
    `SELECT EXISTS (SELECT 1 FROM reservations WHERE payment_key = :key) AS "isReserved"
     FROM payments WHERE payment_key = :key`,
    { key },
  );
  if (found === undefined) throw new LedgerConflict("a payment without a claim is not sold");
  if (found.isReserved === 1) return { kind: "reserved" };
  const payer = payerBudget(sale.payer);
  const judged = judgeSale(countedIn(database, nowMs, [SALES, payer]), sale, nowMs);
  if (judged.kind === "over") return judged;
  const { worth } = sale;
  for (const name of [SALES, payer]) count(database, nowMs, name, worth);
  database.run(
    `INSERT INTO reservations (payment_key, hour, payer_budget, counted)
     VALUES (:key, :hour, :payer, :worth)`,
    { key, hour: hourOf(nowMs), payer, worth },
  );
  return judged;
}

export function countedIn(
  database: SqliteDatabase,
  nowMs: number,
  names: readonly string[],
): ReadonlyMap<string, number> {
  const hour = hourOf(nowMs);
  const found = names.flatMap((name) => {
    const sql = "SELECT counted FROM budgets WHERE hour = :hour AND name = :name";
    const columns = database.get(sql, { hour, name });
    return columns === undefined ? [] : [[name, Number(columns.counted)] as const];
  });
  return new Map(found);
}

export function count(
  database: SqliteDatabase,
  nowMs: number,
  name: string,
  counted: number,
): void {
  database.run(
    `INSERT INTO budgets (hour, name, counted) VALUES (:hour, :name, :counted)
     ON CONFLICT (hour, name) DO UPDATE SET counted = budgets.counted + :counted`,
    { hour: hourOf(nowMs), name, counted },
  );
}

/** Hours that are long over. */
export function forgetBudgets(database: SqliteDatabase, nowMs: number): void {
  const values = { hour: keptFrom(nowMs) };
  database.run("DELETE FROM reservations WHERE hour < :hour", values);
  database.run("DELETE FROM budgets WHERE hour < :hour", values);
}
