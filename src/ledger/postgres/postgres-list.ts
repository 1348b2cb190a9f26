/** The statement by which a list of payments is read: one for each set of filters, since a plan fits one set. */
import type { PaymentFilter } from "../books.ts";
import { PAYMENT_STATES } from "../transition.ts";
import type { Statement } from "./postgres-database.ts";
import { COLUMNS } from "./postgres-payments.ts";

export const SUMMARY = `${COLUMNS}, p.asset AS "asset", p.amount_atomic AS "amount", p.pay_to AS "payTo",
  p.created_ms AS "claimedMs", p.updated_ms AS "updatedMs"`;

export interface ListStatement {
  readonly statement: Statement;
  readonly values: readonly unknown[];
}

const IS_OWED = "p.state = 'SETTLED' AND p.binding IS NOT NULL";
const IS_HELD = "p.state = 'SIGNED' AND p.held_transaction IS NOT NULL";

/** For a filter that leaves a state, where it names any. */
export function listStatement(filter: PaymentFilter): ListStatement {
  const { states, undelivered, held, unrefunded, network, payer, sinceMs, untilMs, after, limit } =
    filter;
  const values: unknown[] = [];
  // Names of statements have 63 characters at most.
  const names: string[] = [];
  const given = (name: string, value: unknown): string => {
    names.push(name);
    return `$${values.push(value)}`;
  };
  const conditions: string[] = ["true"];
  if (states !== undefined) {
    const listed = [...new Set(states)].toSorted();
    names.push(`state${listed.map((state) => PAYMENT_STATES.indexOf(state)).join("")}`);
    conditions.push(`p.state IN ('${listed.join("', '")}')`);
  }
  if (undelivered === true) names.push("owed");
  if (held !== undefined) {
    names.push(held ? "held" : "unheld");
    conditions.push(held ? IS_HELD : `NOT (${IS_HELD})`);
  }
  if (unrefunded === true) {
    names.push("back");
    conditions.push("p.refund_state = 'FAILED'");
  }
  if (network !== undefined) conditions.push(`p.network = ${given("network", network)}`);
  if (payer !== undefined) conditions.push(`lower(p.payer) = lower(${given("payer", payer)})`);
  if (sinceMs !== undefined) conditions.push(`p.created_ms >= ${given("since", sinceMs)}`);
  if (untilMs !== undefined) conditions.push(`p.created_ms < ${given("until", untilMs)}`);
  if (after !== undefined) {
    conditions.push(`(p.created_ms, p.id) < (SELECT b.created_ms, b.id
      FROM coinslot.payments AS b WHERE b.payment_key = ${given("after", after)})`);
  }
  const ordered = `LIMIT ${given("payments", limit)}`;
  const part = (...more: readonly string[]): string =>
    `SELECT ${SUMMARY} FROM coinslot.payments AS p WHERE ${[...conditions, ...more].join(" AND ")}
    ORDER BY p.created_ms DESC, p.id DESC ${ordered}`;
  // Each by the index of what waits for somebody.
  const text = undelivered
    ? `SELECT * FROM ((${part(IS_OWED)}) UNION ALL (${part(IS_HELD)})) AS found
       ORDER BY "claimedMs" DESC, "id" DESC ${ordered}`
    : part();
  return { statement: { name: `list_${names.join("_")}`, text }, values };
}
