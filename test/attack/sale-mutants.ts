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
    find: "debts.owed.length > 0 ? undefined : this.#barOf(presented, found.provenPayer);",
    put: "debts.owed.length >= 0 ? undefined : this.#barOf(presented, found.provenPayer);",
  }),
  caughtBy(GUARD_TEST, "charges whom it has denied since it looked", {
    file: SETTLEMENT,
    find: "if (bar !== undefined) return (await this.#release(key, terms)) ?? bar;",
    put: "if (bar?.seconds === -1) return (await this.#release(key, terms)) ?? bar;",
  }),
  caughtBy(GUARD_TEST, "keeps the claim of whom it does not sell to", {
    file: SETTLEMENT,
    find: 'if (reserved.kind !== "reserved") return (await this.#release(key, terms)) ?? reserved;',
    put: 'if (reserved.kind !== "reserved") return reserved;',
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
    put: '      return { kind: "reserved", decided: () => undefined };\n    }\n  }\n\n  /**\n   * Whether a payment that stays',
  }),
  caughtBy(GUARD_TEST, "counts payments that are worth nothing", {
    file: SETTLEMENT,
    find: "    const verdict = await this.#verify(payment, terms.claimant, signal);\n    if (!(verdict instanceof Error) && verdict.ok) {\n",
    put: "    await this.#reserve(payment, {}, signal);\n    const verdict = await this.#verify(payment, terms.claimant, signal);\n    if (!(verdict instanceof Error) && verdict.ok) {\n",
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
    find: "WHEN NEW.state = 'FAILED' AND NEW.held_transaction IS NULL BEGIN",
    put: "WHEN NEW.state = '' BEGIN",
  }),
  caughtBy(FACILITATOR_TEST, "settles for others what a payer on the list has signed", {
    file: FACILITATOR,
    find: "if (isOpen || (await isBegun(request))) return open.settle(request, options);",
    put: "if (isOpen || request !== undefined) return open.settle(request, options);",
  }),
  caughtBy(FACILITATOR_TEST, "tells those for whom it settles who is on a list", {
    file: FACILITATOR,
    find: "const refusal = answer.isValid ? refusalOf(request) : undefined;",
    put: "const refusal = refusalOf(request);",
  }),
  caughtBy(FACILITATOR_TEST, "tells at a settlement who is on a list", {
    file: FACILITATOR,
    find: "if (!answer.isValid) {",
    put: "if (!answer.isValid && refusalOf(request) === undefined) {",
  }),
  caughtBy(GUARD_TEST, "tells whoever names somebody whether he is on a list", {
    file: SERVICE,
    find: "const bar = this.#barOf(presented, undefined);",
    put: "const bar = this.#barOf(presented, payerOf(presented.payment));",
  }),
  caughtBy(GUARD_TEST, "tells before anybody has judged the signature who is on a list", {
    file: "src/payments/payment.ts",
    find: "return isProven ? checked.value.payer : undefined;",
    put: "return isProven ? checked.value.payer : payerOf(this.request.paymentPayload);",
  }),
  caughtBy(GUARD_TEST, "sells to whom is on a list where others have to judge his signature", {
    file: SETTLEMENT,
    find: "guard?.barOf({ network, payer, route }) ??",
    put: "guard?.barOf({ network, payer: undefined, route }) ??",
  }),
  caughtBy(GUARD_TEST, "tells who is on a list by a sign-in that nobody has signed", {
    file: "src/payments/sale/recognition.ts",
    find: "const bar = isProven ? barOf() : undefined;",
    put: "const bar = barOf();",
  }),
  caughtBy(GUARD_TEST, "lets the code of an account on a list sign in", {
    file: "src/payments/sale/recognition.ts",
    find: "const barred = isSigned ? barOf() : undefined;",
    put: "const barred = undefined;",
  }),
  caughtBy(
    "test/unit/mechanism/solana/inspection.test.ts",
    "lets a delegate pay with tokens of somebody on a list",
    {
      file: "src/mechanism/solana/inspection.ts",
      find: "if (tokens.owner !== payer && this.#options.rules.isDenied(tokens.owner)) {",
      put: "if (tokens.owner === payer && this.#options.rules.isDenied(tokens.owner)) {",
    },
  ),
  caughtBy(GUARD_TEST, "reserves more of the hour for a purse than it has", {
    file: "src/payments/sale/reserved-purses.ts",
    find: "taken.sum + amountAtomic <= meansAtomic",
    put: "amountAtomic <= meansAtomic",
  }),
  caughtBy(GUARD_TEST, "never gives a purse back what was decided", {
    file: "src/payments/sale/reserved-purses.ts",
    find: "taken.sum -= amountAtomic;",
    put: "",
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
