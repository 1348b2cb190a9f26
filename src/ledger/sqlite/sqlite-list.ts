/** The statement by which a list of payments is read: each filter by an index that has its order. */
import type { SQLInputValue } from "node:sqlite";
import type { PaymentFilter } from "../books.ts";
import type { PaymentState } from "../ledger.ts";
import { ROW_COLUMNS } from "./sqlite-rows.ts";

export const SUMMARY_COLUMNS = `${ROW_COLUMNS}, asset, amount_atomic AS "amount", pay_to AS "payTo",
  created_ms AS "claimedMs"`;

interface ListStatement {
  readonly sql: string;
  readonly values: Readonly<Record<string, SQLInputValue>>;
}

/** For a filter that leaves a state, where it names any. */
export function listStatement(filter: PaymentFilter): ListStatement {
  const { network, payer, sinceMs, untilMs, after, limit } = filter;
  const given = Object.entries({ network, payer, sinceMs, untilMs, after, limit });
  const values = Object.fromEntries(
    given.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const])),
  );
  const parts = partsOf(filter).map(
    ({ index, conditions }) => `SELECT * FROM (
       SELECT ${SUMMARY_COLUMNS}, rowid AS "place" FROM payments INDEXED BY ${index}
       WHERE ${[...conditions, ...sharedConditions(filter)].join(" AND ")}
       ORDER BY created_ms DESC, rowid DESC LIMIT :limit)`,
  );
  const sql = `${parts.join(" UNION ALL ")} ORDER BY "claimedMs" DESC, "place" DESC LIMIT :limit`;
  return { sql, values };
}

interface Part {
  readonly index: string;
  readonly conditions: readonly string[];
}

const IS_OWED = ["state = 'SETTLED'", "binding IS NOT NULL"];
const IS_FOR_OTHERS = ["state = 'SETTLED'", "binding IS NULL"];
const IS_UNREFUNDED = ["refund_state = 'FAILED'"];
const IS_HELD = ["state = 'SIGNED'", "held_transaction IS NOT NULL"];

function partsOf(filter: PaymentFilter): readonly Part[] {
  const { states, undelivered, held, unrefunded, network, payer } = filter;
  const isIn = states === undefined ? [] : [`state IN (${states.map(quoted).join(", ")})`];
  if (payer !== undefined) {
    const isUndelivered = undelivered === true ? [either(IS_OWED, IS_HELD)] : [];
    const conditions = ["lower(payer) = lower(:payer)", ...isIn, ...isUndelivered];
    return [{ index: "payments_by_payer", conditions }];
  }
  const owed = { index: "undelivered_payments", conditions: [...IS_OWED, ...isIn] };
  const waiting = { index: "payments_held", conditions: [...IS_HELD, ...isIn] };
  if (undelivered === true) return [owed, waiting];
  if (held === true) return [waiting];
  if (unrefunded === true) return [{ index: "open_refunds", conditions: isIn }];
  if (states !== undefined) return [...new Set(states)].flatMap((state) => BY_STATE[state]);
  const index = network === undefined ? "payments_by_time" : "payments_by_network";
  return [{ index, conditions: ["true"] }];
}

/** The condition of a partial index has to be said for it to be used; those of work hold few payments, which are sorted. */
const BY_STATE: Readonly<Record<PaymentState, readonly Part[]>> = {
  CLAIMED: [{ index: "claimed_payments", conditions: ["state = 'CLAIMED'"] }],
  SIGNED: [
    { index: "undecided_spends", conditions: ["state = 'SIGNED'", "submission IS NOT NULL"] },
    { index: "handed_over_payments", conditions: ["state = 'SIGNED'", "submission IS NULL"] },
  ],
  SETTLED: [
    { index: "undelivered_payments", conditions: IS_OWED },
    { index: "settled_for_others", conditions: IS_FOR_OTHERS },
  ],
  DELIVERING: [{ index: "delivering_payments", conditions: ["state = 'DELIVERING'"] }],
  DELIVERED: [{ index: "delivered_payments", conditions: ["state = 'DELIVERED'"] }],
  FAILED: [{ index: "failed_payments", conditions: ["state = 'FAILED'"] }],
};

function sharedConditions({
  held,
  unrefunded,
  network,
  sinceMs,
  untilMs,
  after,
}: PaymentFilter): readonly string[] {
  return [
    ...(held === true ? IS_HELD : []),
    ...(held === false ? [`NOT (${IS_HELD.join(" AND ")})`] : []),
    ...(unrefunded === true ? IS_UNREFUNDED : []),
    ...(network === undefined ? [] : ["network = :network"]),
    ...(sinceMs === undefined ? [] : ["created_ms >= :sinceMs"]),
    ...(untilMs === undefined ? [] : ["created_ms < :untilMs"]),
    ...(after === undefined
      ? []
      : [
          `(created_ms, rowid) <
             (SELECT created_ms, rowid FROM payments WHERE payment_key = :after)`,
        ]),
  ];
}

function either(...choices: readonly (readonly string[])[]): string {
  return `(${choices.map((each) => `(${each.join(" AND ")})`).join(" OR ")})`;
}

function quoted(state: PaymentState): string {
  return `'${state}'`;
}
