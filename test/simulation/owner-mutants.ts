/** The money path with one promise broken about whose a payment is. */
import type { Mutant } from "./mutant.ts";

const MACHINE = "src/ledger/machine.ts";
const JUDGEMENT = "src/ledger/payment-judgement.ts";
const PAYWALL = "src/gateway/payment/paywall.ts";
const SETTLING = "src/gateway/payment/settling.ts";

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
        file: MACHINE,
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
        find: `return by.proof === "valid" || (claimant !== null && claimant === by.claimant);`,
        put: `return by.proof === "valid" || claimant !== null;`,
      },
    ],
  },
  {
    name: "takes anybody who names a payer for the payer",
    changes: [
      {
        file: SETTLING,
        find: `if (verdict.isValid) return "valid";`,
        put: `if (verdict.isValid || verdict.invalidReason !== "insufficient_funds") return "valid";`,
      },
    ],
  },
  {
    name: "does not hear that a buyer has left",
    changes: [
      {
        file: PAYWALL,
        find: "const stay = presented.onGone(() => void leave());",
        put: "const stay = presented.onGone(() => undefined);",
      },
    ],
  },
  {
    name: "keeps for a request that is over what it had in its hands",
    changes: [
      {
        file: PAYWALL,
        find: `return kind === "unknown" || kind === "abandoned" || kind === "unavailable";`,
        put: `return kind === "replayable";`,
      },
    ],
  },
  {
    name: "keeps what an uncertain delivery had in its hands",
    changes: [{ file: PAYWALL, find: "await this.#till.leave(key);\n      };", put: "};" }],
  },
  {
    name: "charges who has left",
    changes: [
      {
        file: PAYWALL,
        find: `if (flight.presented.isGone()) return claim.kind === "granted" ? this.#drop(key) : ABANDONED;`,
        put: "",
      },
      {
        file: PAYWALL,
        find: "if (flight.presented.isGone()) return ABANDONED;\n    let claim: ClaimOutcome;",
        put: "let claim: ClaimOutcome;",
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
    name: "charges a payer again who has not fetched his answer",
    changes: [
      {
        file: JUDGEMENT,
        find: `if (row.state === "DELIVERED") return isReplayable(row, nowMs) && row.servedTarget === target;`,
        put: `if (row.state === "DELIVERED") return false;`,
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
  {
    name: "leaves with a dead worker what its settlement did not decide",
    changes: [
      {
        file: MACHINE,
        find: "if (!isClaim && (row.holder !== life || row.isLeft)) return DONE;",
        put: "if (row.holder !== life || row.isLeft) return DONE;",
      },
    ],
  },
];
