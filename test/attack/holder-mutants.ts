/** About who is a member for what he holds (H19). */
import type { Mutant } from "./mutant.ts";

const KNOWN = "src/gateway/holders.ts";
const ASKED = "src/payments/sale/holdings.ts";

const KNOWN_TEST = "test/unit/gateway/holders.test.ts";
const ASKED_TEST = "test/unit/payments/sale/holdings.test.ts";
const SHOP_TEST = "test/integration/holders.test.ts";
const LANE_TEST = "test/unit/mechanism/evm/holding.test.ts";

export const HOLDER_MUTANTS: readonly Mutant[] = [
  caughtBy(KNOWN_TEST, "takes for a member of whom nothing is known", {
    file: KNOWN,
    find: "return this.canHave(network) && this.holders.of(this.terms, address) === true;",
    put: "return this.canHave(network) && this.holders.of(this.terms, address) !== false;",
  }),
  caughtBy(KNOWN_TEST, "takes code on another chain for the account that holds it", {
    file: KNOWN,
    find: "return network === this.terms.network && this.holders",
    put: "return this.canHave(network) && this.holders",
  }),
  caughtBy(KNOWN_TEST, "never asks again", {
    file: KNOWN,
    find: "known.untilMs <= this.#now()",
    put: "known.untilMs <= 0",
  }),
  caughtBy(KNOWN_TEST, "counts the time from the answer", {
    file: KNOWN,
    find: "const untilMs = nowMs + Math.min(ms, each.forMs);",
    put: "const untilMs = this.#now() + Math.min(ms, each.forMs) + nowMs * 0;",
  }),
  caughtBy(KNOWN_TEST, "keeps who holds too little out for as long as others are in", {
    file: KNOWN,
    find: "holding ? each.forMs : LACKING_MS",
    put: "each.forMs",
  }),
  caughtBy(SHOP_TEST, "debits a balance before it is known what its owner holds", {
    file: "src/gateway/spending.ts",
    find: "  if (shown.ok && isUnasked(plan.members, shown.value)) return false;\n",
    put: "  if (shown.ok && isUnasked([], shown.value)) return false;\n",
  }),
  caughtBy(SHOP_TEST, "does not say that it could not be asked", {
    file: "src/gateway/holder-visit.ts",
    find: "return isAsked ? visit : withoutUse(",
    put: "return isAsked || !isAsked ? visit : withoutUse(",
  }),
  caughtBy(ASKED_TEST, "asks of accounts that are not proven", {
    file: ASKED,
    find: 'if (!hasKey && !("kind" in shown)) return null;',
    put: "",
  }),
  caughtBy(ASKED_TEST, "asks for whoever is denied", {
    file: ASKED,
    find: "return guard.barOfAccount(network, address) === undefined ? { address, network, hasKey } : null;",
    put: "guard.barOfAccount(network, address);\n    return { address, network, hasKey };",
  }),
  caughtBy(ASKED_TEST, "asks of one account as often as it is shown at once", {
    file: ASKED,
    find: "if (asked !== undefined) return asked;",
    put: "if (asked !== undefined) this.#asking.delete(key);",
  }),
  caughtBy(ASKED_TEST, "asks another chain about code", {
    file: ASKED,
    find: "!isAccountOn(terms.network, account)",
    put: "!isAccountOn(terms.network, { ...account, hasKey: true })",
  }),
  caughtBy(ASKED_TEST, "takes for a member of whom its chain could not be asked", {
    file: ASKED,
    find: '"it could not be asked who holds a token");\n      return null;',
    put: '"it could not be asked who holds a token");\n      return true;',
  }),
  caughtBy(ASKED_TEST, "waits for a chain for as long as it likes", {
    file: ASKED,
    find: "time.timeout(HOLDING_MS)",
    put: "time.timeout(HOLDING_MS * 100)",
  }),
  caughtBy(ASKED_TEST, "takes who holds something for one who holds enough", {
    file: ASKED,
    find: "return held >= least;",
    put: "return held > 0n;",
  }),
  caughtBy(SHOP_TEST, "asks of whomever a payment names", {
    file: "src/payments/sale/payment-service.ts",
    find: "const provenPayer = read.ok ? read.value.provenPayer : undefined;",
    put: "const provenPayer = read.ok ? read.value.payer : undefined;",
  }),
  caughtBy(LANE_TEST, "asks the chain for whoever comes, at once", {
    file: "src/mechanism/evm/holding.ts",
    find: "export const MAX_HOLDING_CALLS = 8;",
    put: "export const MAX_HOLDING_CALLS = 800;",
  }),
];

function caughtBy(unit: string, name: string, edit: Pick<Mutant, "file" | "find" | "put">): Mutant {
  return { name, cites: "H19", unit, ...edit };
}
