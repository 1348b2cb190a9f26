/** About who may not pay, and how much of everything is sold in an hour (H20). */
import type { Mutant } from "./mutant.ts";

const GUARD = "src/payments/sale/sale-guard.ts";
const SERVICE = "src/payments/sale/payment-service.ts";
const SETTLEMENT = "src/payments/sale/sale-settlement.ts";
const BUDGETS = "src/ledger/budgets.ts";
const SCHEMA = "src/ledger/sqlite/sqlite-schema.ts";
const LIST = "src/x402/payer-list.ts";
const FACILITATOR = "src/facilitator/guarded-facilitator.ts";

const GUARD_TEST = "test/unit/payments/sale/sale-guard.test.ts";
const LIST_TEST = "test/unit/x402/payer-list.test.ts";
const FACILITATOR_TEST = "test/unit/facilitator/guarded-facilitator.test.ts";
const CONTRACT = "test/unit/ledger/memory-ledger.test.ts";
const SQLITE = "test/unit/ledger/sqlite/sqlite-contract.test.ts";

export const SALE_MUTANTS: readonly Mutant[] = [
  caughtBy(LIST_TEST, "sells to a payer in another letter case than the list's", {
    file: LIST,
    find: "return isEvmAddress(address) ? address.toLowerCase() : address;",
    put: "return address;",
  }),
  caughtBy(LIST_TEST, "denies a payer on the chain of the entry alone", {
    file: LIST,
    find: "this.#names.add(this.#isForAnyChain ? name : `${namespace}:${reference}:${name}`);",
    put: "this.#names.add(`${namespace}:${reference}:${name}`);",
  }),
  caughtBy(LIST_TEST, "passes over a line that is no entry", {
    file: LIST,
    find: "if (isHeader || this.#add(entry)) continue;",
    put: "if (isHeader || this.#add(entry) || !isHeader) continue;",
  }),
  caughtBy(GUARD_TEST, "sells to whom is not on the list of those who alone may", {
    file: GUARD,
    find: "return deny.has(network, payer) || allow?.has(network, payer) === false;",
    put: "return deny.has(network, payer) || allow?.has(network, payer) === null;",
  }),
  caughtBy(GUARD_TEST, "lets a payer on the list sign in", {
    file: GUARD,
    find: "return this.isDenied(network, address) ? this.#denied(network) : undefined;",
    put: 'return address === "" ? this.#denied(network) : undefined;',
  }),
  caughtBy(GUARD_TEST, "claims and looks at what it will not take", {
    file: SERVICE,
    find: "const bar = debts.owed.length > 0 ? undefined : this.#barOf(presented);",
    put: "const bar = debts.owed.length >= 0 ? undefined : this.#barOf(presented);",
  }),
  caughtBy(GUARD_TEST, "charges whom it has denied since it looked", {
    file: SETTLEMENT,
    find: "if (bar !== undefined) return (await this.#release(key, terms)) ?? bar;",
    put: "if (bar?.seconds === -1) return (await this.#release(key, terms)) ?? bar;",
  }),
  caughtBy(GUARD_TEST, "keeps the claim of whom it does not sell to", {
    file: SETTLEMENT,
    find: "if (refused !== undefined) return (await this.#release(key, terms)) ?? refused;",
    put: "if (refused !== undefined) return refused;",
  }),
  caughtBy(GUARD_TEST, "sells a route that is paused", {
    file: GUARD,
    find: "const stop = (route === undefined ? undefined : stopOf(stops, route)) ?? stopOn(stops, network);",
    put: "const stop = stopOn(stops, network);",
  }),
  caughtBy(GUARD_TEST, "takes payments on a network that is paused", {
    file: GUARD,
    find: "const stop = (route === undefined ? undefined : stopOf(stops, route)) ?? stopOn(stops, network);",
    put: "const stop = route === undefined ? undefined : stopOf(stops, route);",
  }),
  caughtBy(GUARD_TEST, "sells what cannot be counted", {
    file: SETTLEMENT,
    find: '      return unavailable("unexpected_settle_error");\n    }\n  }\n\n  /**\n   * Whether a payment that stays',
    put: "      return undefined;\n    }\n  }\n\n  /**\n   * Whether a payment that stays",
  }),
  caughtBy(GUARD_TEST, "counts payments that are worth nothing", {
    file: SETTLEMENT,
    find: "    const verdict = await this.#verify(payment, terms.claimant, signal);\n    if (!(verdict instanceof Error) && verdict.ok) {\n",
    put: "    await this.#reserve(payment);\n    const verdict = await this.#verify(payment, terms.claimant, signal);\n    if (!(verdict instanceof Error) && verdict.ok) {\n",
  }),
  caughtBy(GUARD_TEST, "burns gas beyond the hour's", {
    file: GUARD,
    find: "const isOver = (this.#counted.get(gasBudget(network)) ?? 0) >= most;",
    put: "const isOver = (this.#counted.get(network) ?? 0) >= most;",
  }),
  caughtBy(CONTRACT, "lets one payer buy beyond his hour", {
    file: BUDGETS,
    find: 'if (!fits(payerBudget(payer), perPayer)) return { kind: "over", whose: "payer", untilMs };',
    put: 'if (!fits(payer, perPayer)) return { kind: "over", whose: "payer", untilMs };',
  }),
  caughtBy(CONTRACT, "sells beyond the hour's", {
    file: BUDGETS,
    find: 'if (!fits(SALES, sales)) return { kind: "over", whose: "sales", untilMs };',
    put: 'if (!fits("", sales)) return { kind: "over", whose: "sales", untilMs };',
  }),
  caughtBy(CONTRACT, "counts a payer under two names", {
    file: BUDGETS,
    find: "return `payer ${payer.toLowerCase()}`;",
    put: "return `payer ${payer}`;",
  }),
  caughtBy(SQLITE, "never gives back what a dropped claim has taken of the hour", {
    file: SCHEMA,
    find: "DELETE FROM reservations WHERE payment_key = OLD.payment_key;",
    put: "DELETE FROM reservations WHERE payment_key = '';",
  }),
  caughtBy(SQLITE, "never gives back what a failed payment has taken of the hour", {
    file: SCHEMA,
    find: "WHEN NEW.state = 'FAILED' BEGIN",
    put: "WHEN NEW.state = '' BEGIN",
  }),
  caughtBy(FACILITATOR_TEST, "settles for others what a payer on the list has signed", {
    file: FACILITATOR,
    find: "if (bar === undefined || (await isBegun(request))) return open.settle(request, options);",
    put: "if (bar === undefined || request !== undefined) return open.settle(request, options);",
  }),
  caughtBy(FACILITATOR_TEST, "settles for others what has failed, anew", {
    file: FACILITATOR,
    find: 'return kind !== "gone" && kind !== "failed";',
    put: 'return kind !== "gone";',
  }),
];

function caughtBy(unit: string, name: string, edit: Pick<Mutant, "file" | "find" | "put">): Mutant {
  return { name, cites: "H20", unit, ...edit };
}
