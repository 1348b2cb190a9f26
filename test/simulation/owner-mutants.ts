/** The money path with one promise broken about whose a payment is. */
import type { Mutant } from "./mutant.ts";

const MACHINE = "src/ledger/machine.ts";
const DELIVERIES = "src/ledger/deliveries.ts";
const JUDGEMENT = "src/ledger/payment-judgement.ts";
const PAYWALL = "src/payments/sale/paywall.ts";

export const OWNER_MUTANTS: readonly Mutant[] = [
  {
    name: "takes what is signed from the request that waits for it",
    changes: [
      {
        file: MACHINE,
        find: `if (row.state === "DELIVERING" || !isFree(row, moment.life)) return busy;`,
        put: `const isSigned = row.state === "SIGNED";
  if (row.state === "DELIVERING" || (!isSigned && !isFree(row, moment.life))) return busy;`,
      },
    ],
  },
  {
    name: "takes what is settled from the request that waits for it",
    changes: [
      {
        file: MACHINE,
        find: `if (row.state === "DELIVERING" || !isFree(row, moment.life)) return busy;`,
        put: `const isSettled = row.state === "SETTLED";
  if (row.state === "DELIVERING" || (!isSettled && !isFree(row, moment.life))) return busy;`,
      },
      {
        file: DELIVERIES,
        find: `if (row?.state !== "SETTLED" || !isFree(row, life)) return { outcome: false };`,
        put: `if (row?.state !== "SETTLED") return { outcome: false };`,
      },
    ],
  },
  {
    name: "delivers to whoever shows a payment",
    changes: [
      {
        file: JUDGEMENT,
        find: `return claimant !== null && claimant === by.claimant;`,
        put: `return claimant !== null;`,
      },
    ],
  },
  {
    name: "does not hear that a buyer has left",
    changes: [
      {
        file: PAYWALL,
        find: "() => void leave(course.isUncharged ? terms.idempotencyKey : undefined),",
        put: "() => undefined,",
      },
    ],
  },
  {
    name: "keeps for a request that is over what it had in its hands",
    changes: [
      {
        file: "src/payments/sale/admission.ts",
        find: `return kind === "unknown" || kind === "abandoned" || kind === "unavailable";`,
        put: `return kind === "sold";`,
      },
    ],
  },
  {
    name: "keeps what an uncertain delivery had in its hands",
    changes: [
      {
        file: PAYWALL,
        find: 'await this.#payments.step(key, { kind: "leave" });\n      };',
        put: "};",
      },
    ],
  },
  {
    name: "charges a payer again whose payment is not decided",
    changes: [
      {
        file: JUDGEMENT,
        find: `return row.state !== "FAILED" && isForTarget(row, target);`,
        put: `return row.state === "SETTLED" && isForTarget(row, target);`,
      },
    ],
  },
  {
    name: "gives no attempts again",
    changes: [
      {
        file: JUDGEMENT,
        find: "if (proof === undefined || !isRenewable(row, nowMs)) return undefined;",
        put: "if (proof !== null) return undefined;",
      },
    ],
  },
  {
    name: "counts an attempt that died with us",
    changes: [
      {
        file: MACHINE,
        find: `const given = { state: "SETTLED", isLeft, attempts: row.attempts - 1 } as const;`,
        put: `const given = { state: "SETTLED", isLeft, attempts: row.attempts } as const;`,
      },
    ],
  },
];
