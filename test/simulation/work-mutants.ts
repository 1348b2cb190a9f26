/** What a backend has answered before it is settled, with one guard of it taken away. */
import { caughtBy, type Mutant } from "./mutant.ts";

const CONTRACT = "test/unit/ledger/memory-ledger.test.ts";
const DELIVERIES = "src/ledger/deliveries.ts";
const MACHINE = "src/ledger/machine.ts";

export const WORK_MUTANTS: readonly Mutant[] = [
  caughtBy(CONTRACT, "keeps an answer with somebody else's claim", {
    file: DELIVERIES,
    find: "if (!isOurs || row.offered || row.idempotencyKey !== idempotencyKey) return { outcome: false };",
    put: "if (!isOurs || row.offered) return { outcome: false };",
  }),
  caughtBy(CONTRACT, "keeps an answer with another life's claim", {
    file: DELIVERIES,
    find: 'row?.state === "CLAIMED" && row.claimedBy === life && row.binding !== null;',
    put: 'row?.state === "CLAIMED" && row.binding !== null;',
  }),
  caughtBy(CONTRACT, "keeps an answer with what is signed", {
    file: DELIVERIES,
    find: 'row?.state === "CLAIMED" && row.claimedBy === life && row.binding !== null;',
    put: "row !== undefined && row.claimedBy === life && row.binding !== null;",
  }),
  caughtBy(CONTRACT, "forgets for which target something was made", {
    file: DELIVERIES,
    find: "const next = { ...after(row), servedTarget: digestedTarget(kept.target) };",
    put: "const next = after(row);",
  }),
  caughtBy(CONTRACT, "settles what was made for another request", {
    file: MACHINE,
    find: "if (isOpen(row) && !isForTarget(row, terms.target)) return busy;",
    put: "",
  }),
  {
    name: "charges for work that nobody has done",
    changes: [
      {
        file: "src/payments/sale/paywall.ts",
        find: "() => void leave(course.isUncharged ? terms.idempotencyKey : undefined),",
        put: "() => void leave(),",
      },
      {
        file: "src/payments/sale/paywall.ts",
        find: "const known = course.isUncharged ? terms.idempotencyKey : undefined;",
        put: "const known = undefined;",
      },
    ],
  },
  {
    name: "settles before the backend has answered",
    changes: [
      {
        file: "src/payments/sale/work-first.ts",
        find: "    if (presented.isGone()) return drop(ABANDONED);\n    if (!course.isWorked) {",
        put: "    if (presented.isGone()) return drop(ABANDONED);\n    const early = await this.#payments.charge(payment, terms, settleBy());\n    if (early.kind !== 'settled') return early;\n    if (!course.isWorked) {",
      },
    ],
  },
];
