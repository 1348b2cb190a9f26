/** Prices as a route writes them. Dollars and atomic units must never be confused, so one has a `$`. */
import { z } from "zod";
import { parseDollars, type AtomicAmount } from "../../x402/amount.ts";
import { err, ok, type Result } from "../../x402/result.ts";
import { AMOUNT } from "../reading/forms.ts";
import type { Fault } from "../reading/problem.ts";
import type { ProblemCode } from "../reading/problem-codes.ts";
import { bad, fault, readAmount } from "../reading/reading.ts";
import {
  described,
  map,
  matching,
  optional,
  plainText,
  reader,
  REFUSED,
  text,
} from "../reading/shapes.ts";
import { didYouMean } from "../reading/suggestion.ts";

/** `$0.01`: its form is right; whether a token can express it depends on the token. */
export interface DollarPrice {
  readonly kind: "dollars";
  readonly dollars: string;
}

/** `{ amount, asset }`: atomic units. */
export interface AmountPrice {
  readonly amount: AtomicAmount;
  /** Symbol; undefined: that of the network's USDC. */
  readonly asset?: string | undefined;
}

/** `{ by, from, to }`: another one for each request. */
export interface ComputedPriceText {
  readonly kind: "computed";
  /** The expression, as written. */
  readonly by: string;
  /** `$0.001` */
  readonly from: string;
  readonly to: string;
}

export type Price = DollarPrice | { readonly kind: "free" };

const DOLLARS = /^\$(?:0|[1-9][0-9]{0,76})(?:\.[0-9]{1,77})?$/;
const BARE_NUMBER = /^(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,6})?$/;
/** Dollars per unit of a currency are kept with so many decimals. */
const NATIVE_PRICE_DECIMALS = 18;
/** What most stablecoins have; only used to phrase a hint. */
const USUAL_DECIMALS = 6;

const PRICE_FORM = "must be a price such as $0.01";
export const DOLLARS_FORM = matching(DOLLARS, PRICE_FORM, "$0.01");

/** A number of YAML is refused as a price, whatever it is, with what to write instead. */
export const barePrice = reader(
  z.number(),
  (number): Result<never, Fault> => ambiguous(String(number)),
  REFUSED,
);

/** `$0.01` */
export const dollars = text((written) => readDollars(written, []), DOLLARS_FORM);

/** `free` or dollars. */
const worded = text(readPrice, { anyOf: [{ enum: ["free"] }, DOLLARS_FORM] });
const asset = optional(plainText, "Symbol of the token. Without it: the network's USDC.");

/** What a pass costs. */
export const passPrice = z.union([dollars, barePrice], PRICE_FORM);

/** What a group of members pays: the same for each request. */
export const memberPrice = z.union(
  [
    worded,
    barePrice,
    map({
      amount: described(
        text(readAmount, AMOUNT),
        "Amount in atomic units of the token, in quotes.",
      ),
      asset,
    }),
  ],
  PRICE_FORM,
);

/** `price` of a route. */
export const price = z.union(
  [
    worded,
    barePrice,
    map({
      amount: optional(
        text(readAmount, AMOUNT),
        'Amount in atomic units of the token, in quotes: one cent of USDC is "10000". This or `by`.',
      ),
      asset,
      by: optional(
        plainText,
        "The price of each request, as an expression (CEL) of its method, path, query, headers and JSON body: whole numbers " +
          'are millionths of a dollar, others dollars. `usd("0.001") + 20 * size(body.prompt)`.',
      ),
      from: optional(
        dollars,
        "With `by`: the least that a request costs; what comes to less is refused.",
      ),
      to: optional(
        dollars,
        "With `by`: the most that a request costs; what comes to more is refused, and a request whose body is not there is " +
          "quoted this.",
      ),
    }).transform((written, context): AmountPrice | ComputedPriceText => {
      const { amount, asset, by, from, to } = written;
      const refuse = (key: string, message: string, code: ProblemCode): never => {
        const params = fault(code, message);
        context.issues.push({ code: "custom", message, params, input: written, path: [key] });
        return z.NEVER;
      };
      if (by === undefined && from === undefined && to === undefined) {
        return amount === undefined
          ? refuse("amount", "is required", "missing-key")
          : { amount, asset };
      }
      if (by === undefined) return refuse("by", "is required", "missing-key");
      if (from === undefined) return refuse("from", "is required", "missing-key");
      if (to === undefined) return refuse("to", "is required", "missing-key");
      for (const key of ["amount", "asset"] as const) {
        if (written[key] === undefined) continue;
        return refuse(
          key,
          "has no meaning beside by: the expression says what it costs",
          "unused-key",
        );
      }
      return { kind: "computed", by, from: from.dollars, to: to.dollars };
    }),
  ],
  PRICE_FORM,
);

/** `free` or `$0.01`. */
export function readPrice(text: string): Result<Price, Fault> {
  if (text === "free") return ok({ kind: "free" });
  return readDollars(text, ["free"]);
}

/** What stands for a whole route in one word: `free`, `deny` or `$0.01`. */
export function readAction(text: string): Result<Price | { readonly kind: "deny" }, Fault> {
  if (text === "free" || text === "deny") return ok({ kind: text });
  return readDollars(text, ["free", "deny"]);
}

function readDollars(text: string, words: readonly string[]): Result<DollarPrice, Fault> {
  if (DOLLARS.test(text)) return ok({ kind: "dollars", dollars: text });
  if (BARE_NUMBER.test(text)) return ambiguous(text);
  const wanted =
    words.length === 0 ? PRICE_FORM : `must be ${words.join(", ")} or a price such as $0.01`;
  return bad(wanted, didYouMean(text, words) ?? dollarHint(text));
}

/** Only where there is no doubt: a wrong hint about a price costs money. */
function dollarHint(text: string): string | undefined {
  if (/^\$?-/.test(text)) return "a price is above zero; what costs nothing is free";
  // Behind a nought no comma stands between thousands.
  const pointed = text.replace(/^(\$? ?0),/, "$1.");
  const near = /^\$? ?([0-9]*)(\.[0-9]+)? ?(?:\$|usdc?|dollars?)?$/i.exec(pointed);
  if (near === null) return undefined;
  const [, whole = "", fraction = ""] = near;
  const dollars = `$${whole === "" ? "0" : whole}${fraction}`;
  return DOLLARS.test(dollars) && whole + fraction !== "" ? `write ${dollars}` : undefined;
}

export const NATIVE_PRICE_FORM = "must be a price in dollars such as $3000";

/** What one whole unit of a network's currency costs, in {@link NATIVE_PRICE_DECIMALS}. */
export function readNativePrice(written: string | number): Result<AtomicAmount, Fault> {
  const text = String(written);
  const price = parseDollars(text, NATIVE_PRICE_DECIMALS);
  if (price.ok) return price;
  const near = dollarHint(text);
  return bad(NATIVE_PRICE_FORM, near === `write ${text}` ? undefined : near);
}

function ambiguous(digits: string): Result<never, Fault> {
  const message = "a bare number as a price could mean dollars or atomic units";
  const converted = parseDollars(`$${digits}`, USUAL_DECIMALS);
  if (!converted.ok) return err(fault("ambiguous-price", message, "write $0.01 for one cent"));
  const atomic = digits.includes(".") ? converted.value.toString() : digits;
  const hint = `write $${digits}, or price: { amount: "${atomic}", asset: USDC } in atomic units`;
  return err(fault("ambiguous-price", message, hint));
}
