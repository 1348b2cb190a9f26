/** About prices that each request has of its own, and what decides them (H24). */
import type { Mutant } from "./mutant.ts";

const ANALYSIS = "src/pricing/analysis.ts";
const BODY = "src/pricing/json-body.ts";
const PRICE = "src/pricing/computed-price.ts";
const EXACT = "src/pricing/exact-price.ts";
const GATEWAY = "src/gateway/pricing-visit.ts";
const PRICED_BODY = "src/gateway/priced-body.ts";
const CHOICE = "src/payments/sale/choice.ts";
const SHOP = "src/payments/sale/cheaper-shop.ts";
const SERVICE = "src/payments/sale/payment-service.ts";

const EXPRESSION_TEST = "test/unit/pricing/expression.test.ts";
const BODY_TEST = "test/unit/pricing/json-body.test.ts";
const PRICE_TEST = "test/unit/pricing/computed-price.test.ts";
const EXACT_TEST = "test/unit/pricing/exact-price.test.ts";
const PLANS_TEST = "test/unit/gateway/computed-plans.test.ts";
const PAGE_TEST = "test/unit/gateway/offers/offer-page.test.ts";
const PRICED_BODY_TEST = "test/integration/gateway/priced-body.test.ts";
const REDIRECTED_TEST = "test/integration/redirected-ways.test.ts";
const SALE_TEST = "test/integration/computed-price.test.ts";

export const PRICE_MUTANTS: readonly Mutant[] = [
  caughtBy(BODY_TEST, "reads the last of two members of one name", {
    file: BODY,
    find: 'if (members.has(name)) throw new Unreadable("the body has a member twice");',
    put: "",
  }),
  caughtBy(BODY_TEST, "passes over a member that Go takes for the one that is asked for", {
    file: BODY,
    find: "if (!this.#members.has(name) && this.#folded.has(foldedName(name))) {",
    put: 'if (name === "") {',
  }),
  caughtBy(BODY_TEST, "cuts numbers that it cannot hold", {
    file: BODY,
    find: "if (whole > MAX_INT || whole < MIN_INT) throw new Unreadable(TOO_LARGE);",
    put: "",
  }),
  caughtBy(BODY_TEST, "takes for infinite what is only large", {
    file: BODY,
    find: "if (!Number.isFinite(number)) throw new Unreadable(TOO_LARGE);",
    put: "",
  }),
  caughtBy(BODY_TEST, "follows a body as deep as it nests", {
    file: BODY,
    find: "if (depth === MAX_BODY_DEPTH) {",
    put: "if (depth < 0) {",
  }),
  caughtBy(BODY_TEST, "reads as many values as a body has", {
    file: BODY,
    find: "if (this.#values > this.#maxValues) {",
    put: "if (this.#values < 0) {",
  }),
  caughtBy(BODY_TEST, "reads text that is no UTF-8 in its own way", {
    file: BODY,
    find: '"utf-8", { fatal: true, ignoreBOM: true }',
    put: '"utf-8", { fatal: false, ignoreBOM: true }',
  }),
  caughtBy(
    EXPRESSION_TEST,
    "takes any function that the library has, regular expressions among them",
    {
      file: ANALYSIS,
      find: "const steps = METHODS.get(name);",
      put: "const steps = METHODS.get(name) ?? 0;",
    },
  ),
  caughtBy(EXPRESSION_TEST, "looks for the client's text in the client's text", {
    file: ANALYSIS,
    find: 'if (isSought && (typeof sought !== "string" || sought.length > MAX_NEEDLE)) {',
    put: 'if (isSought && sought === "") {',
  }),
  caughtBy(EXPRESSION_TEST, "takes loops in loops for no more work than one", {
    file: ANALYSIS,
    find: "const within = { scope: inner, depth: depth + 1 };",
    put: "const within = { scope: inner, depth };",
  }),
  caughtBy(EXPRESSION_TEST, "loops over what has no known length", {
    file: ANALYSIS,
    find: "if (place === undefined) {",
    put: 'if (place === "") {',
  }),
  caughtBy(EXPRESSION_TEST, "takes an expression that is too much work", {
    file: ANALYSIS,
    find: "if (maxBodyValues < LEAST_BODY_VALUES) {",
    put: "if (maxBodyValues < 0) {",
  }),
  caughtBy(EXPRESSION_TEST, "reads payments, proofs and what the backend is told by others", {
    file: ANALYSIS,
    find: 'if (part === "headers" && !isReadableHeader(name)) {',
    put: 'if (part === "headers" && name === "") {',
  }),
  caughtBy(PRICE_TEST, "takes the last of two lines of a header", {
    file: PRICE,
    find: "if (found.has(name)) return err(`the header ${name} is there twice`);",
    put: "",
  }),
  caughtBy(PRICE_TEST, "takes the last of two values of the query", {
    file: PRICE,
    find: "if (found.has(name)) return err(`the query parameter ${name} is there twice`);",
    put: "",
  }),
  caughtBy(PRICE_TEST, "passes over what begins behind a semicolon of the query", {
    file: PRICE,
    find: 'if (!found.ok || !query.includes(";")) return found;',
    put: "if (query !== ``) return found;",
  }),
  caughtBy(PRICE_TEST, "passes over a parameter that PHP takes for the one that is asked for", {
    file: PRICE,
    find: "if (!folded.has(foldedParameter(name))) continue;",
    put: "if (!folded.has(foldedName(name))) continue;",
  }),
  caughtBy(PRICED_BODY_TEST, "goes by the first of two types of a body", {
    file: PRICED_BODY,
    find: 'valuesOf(rawHeaders, "content-type").join();',
    put: 'headers["content-type"] ?? "";',
  }),
  caughtBy(PRICED_BODY_TEST, "goes by the type of a body that its backend is not told", {
    file: PRICED_BODY,
    find: '!isForConnection(rawHeaders, "content-type");',
    put: "true;",
  }),
  caughtBy(SALE_TEST, "takes what other groups pay for the price of whoever signs in", {
    file: "src/gateway/delivery.ts",
    find: "signIn.ok ? offersOfAccount(plan.members, signIn.value) : [];",
    put: "plan.members.flatMap((each) => each.offers ?? []);",
  }),
  caughtBy(PRICE_TEST, "reads a header that Connection keeps from the backend", {
    file: PRICE,
    find: "for (const name of dropped) found.delete(name);",
    put: "",
  }),
  caughtBy(PRICE_TEST, "sells for less than the least", {
    file: PRICE,
    find: "if (exact < this.#from)",
    put: "if (exact < -this.#from)",
  }),
  caughtBy(PRICE_TEST, "sells for the most what costs more", {
    file: PRICE,
    find: "if (exact > this.#to)",
    put: "if (exact > 2n * this.#to)",
  }),
  caughtBy(EXACT_TEST, "takes what is no number for nothing", {
    file: EXACT,
    find: 'if (Number.isNaN(dollars)) return err("it comes to no number");',
    put: "if (Number.isNaN(dollars)) return ok(0n);",
  }),
  caughtBy(EXACT_TEST, "rounds down", {
    file: EXACT,
    find: "return value > quotient * by ? quotient + 1n : quotient;",
    put: "return quotient;",
  }),
  caughtBy(EXACT_TEST, "asks for what only arithmetic in binary has added", {
    file: EXACT,
    find: "const DIGITS = 15;",
    put: "const DIGITS = 17;",
  }),
  caughtBy(PLANS_TEST, "keeps what was prepared for every price", {
    file: "src/gateway/computed-plans.ts",
    find: "if (this.#kept.size > MAX_KEPT_PRICES) {",
    put: "if (this.#kept.size < 0) {",
  }),
  caughtBy(PAGE_TEST, "compresses a page for each price that somebody makes up", {
    file: "src/gateway/offers/offer-page.ts",
    find: "if (coding === null || written.asked <= this.#plainly) return answer;",
    put: "if (coding === null) return answer;",
  }),
  caughtBy(PRICE_TEST, "takes the other one for the larger of what is no number", {
    file: "src/pricing/expression.ts",
    find: "return one > other || Number.isNaN(one) ? one : other;",
    put: "return one > other ? one : other;",
  }),
  caughtBy(SALE_TEST, "sells by the most without the body that decides the price", {
    file: GATEWAY,
    find: 'return unpriced(decision, 400, "its body decides what it costs, and is missing");',
    put: "return decision;",
  }),
  caughtBy(SALE_TEST, "quotes the most for a price", {
    file: GATEWAY,
    find: "if (isAsked) return { ...decision, provisional: whyNot(read) };",
    put: "if (isAsked) return decision;",
  }),
  caughtBy(SALE_TEST, "reads a body of any length", {
    file: PRICED_BODY,
    find: "if (Number(length) > most) return 413;",
    put: "",
  }),
  caughtBy(SALE_TEST, "reads as JSON what its backend is told is something else", {
    file: PRICED_BODY,
    find: "return isPlain && isTold && JSON_TYPE.test(type) ? null : 415;",
    put: "return isPlain && isTold ? null : 415;",
  }),
  caughtBy(SALE_TEST, "charges more than the request costs", {
    file: CHOICE,
    find: "exactly === undefined ? matched : matched.filter((each) => !isMore(payment, each));",
    put: "exactly === undefined ? matched : matched;",
  }),
  caughtBy(SALE_TEST, "delivers something dear for what was paid for something cheap", {
    file: SERVICE,
    find: 'return isOfOtherPrice(stored, presented) ? err("repriced") : this.#claimedBefore(stored);',
    put: "return this.#claimedBefore(stored);",
  }),
  caughtBy(SALE_TEST, "collects something cheap that is owed in place of something dear", {
    file: SHOP,
    find: "if (exactly === undefined) return false;",
    put: "if (exactly === undefined || exactly.length > 0) return false;",
  }),
  caughtBy(REDIRECTED_TEST, "leads what was paid at one price on to a request of another", {
    file: "src/gateway/redirects.ts",
    find: "accepted.filter(({ maxAmountRequired }) => maxAmountRequired === paid),",
    put: "accepted.filter(({ maxAmountRequired }) => maxAmountRequired !== null && paid !== null),",
  }),
];

function caughtBy(unit: string, name: string, edit: Pick<Mutant, "file" | "find" | "put">): Mutant {
  return { name, cites: "H24", unit, ...edit };
}
