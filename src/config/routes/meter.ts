/** `meter` of a route: what its answers are charged by, each for itself, and what one costs at most. */
import { z } from "zod";
import {
  METER_KINDS,
  readEach,
  readMeterSource,
  sourceText,
  unitText,
  type MeterTerms,
} from "../../metering/meter.ts";
import { err, ok } from "../../x402/result.ts";
import type { Context } from "../reading/context.ts";
import { bad, fault } from "../reading/reading.ts";
import { listOf, map, matching, optional, reader } from "../reading/shapes.ts";
import type { Path } from "../reading/tree.ts";
import { barePrice, dollars } from "./price.ts";
import { dollarAmount, type OfferSettings, type Pricing, type Wanted } from "./pricing.ts";

const SOURCE_FORM = 'must be json("path"), sse("path") or header("Name")';

const source = reader(
  z.string(SOURCE_FORM),
  (text) => {
    const read = readMeterSource(text);
    if (read.ok) return ok(read.value);
    const { message, hint } = read.error;
    return message === SOURCE_FORM ? bad(message, hint) : err(fault("bad-meter", message, hint));
  },
  matching(
    /^ *[a-zA-Z]+ *\(.*\) *$/,
    SOURCE_FORM,
    'json("usage.total_tokens")',
    'sse("usage.total_tokens")',
    'header("X-Usage")',
  ),
);

/** Smaller than any token's unit, since millions of them are used. */
const each = z.union([dollars, barePrice], "must be a price such as $0.000002");

export const meter = map({
  of: optional(
    z.union([source, listOf(source)], `${SOURCE_FORM}, or a list of them`),
    'What is counted: a number in the answer\'s JSON, `json("usage.total_tokens")`; in the JSON of its events, of which the last ' +
      'one counts that has it, `sse("usage.total_tokens")`; or in a header, `header("X-Usage")`. A list where a backend answers now ' +
      "so and now so, each kind once: what there is of them counts.",
  ),
  each: optional(
    each,
    "What each unit of that costs, in dollars, however little: $0.000002. The sum is rounded up to the token's smallest unit.",
  ),
  max: optional(
    z.union([dollars, barePrice], "must be a price such as $0.50"),
    "The most that an answer costs. It is what a payment pays before the backend is asked; what is left of it is in the buyer's " +
      "balance then (`credits`). An answer that does not say what it has used costs this.",
  ),
});

type Written = z.output<typeof meter>;

/** What has no meaning for what is charged by use, and why. */
const UNFITTING: Readonly<Record<string, string>> = {
  price: "meter.max is what a payment pays",
  prices: "members pay for what they use as anybody does",
  grants: "it would give for nothing what is charged by use",
  repeat: "each answer is charged by what it has used",
};

/** Null where something of it is wrong. */
export interface ResolvedMeter {
  readonly terms: MeterTerms;
  /** The ways to pay the most that an answer costs. */
  readonly offers: readonly OfferSettings[];
}

export function resolveMeter(
  written: Written,
  wanted: Omit<Wanted, "price" | "pricePath">,
  {
    context,
    pricing,
    path,
  }: { readonly context: Context; readonly pricing: Pricing; readonly path: Path },
): ResolvedMeter | null {
  const { tree, problems } = context;
  const place = [...path, "meter"];
  for (const [key, why] of Object.entries(UNFITTING)) {
    if (!tree.has([...path, key])) continue;
    problems.errorAtKey([...path, key], fault("unused-key", `has no meaning beside meter: ${why}`));
  }
  if (tree.has(["sidecar"])) {
    const message =
      "cannot be beside sidecar: your own proxy has the answer, and nobody counts in it";
    problems.errorAtKey(place, fault("unused-key", message));
  }
  if (!tree.has(["credits"])) {
    const message =
      "what is charged by use needs balances: what a payment has paid and not used is its buyer's";
    const hint = "add credits: { packs: [$1] } to the top of the file";
    context.errorOnce(place, fault("no-credits", message, hint));
  }
  for (const key of ["of", "each", "max"] as const) {
    if (written[key] !== undefined || tree.has([...place, key])) continue;
    problems.error(place, fault("missing-key", `needs ${key}`, EXAMPLE));
  }
  const { of, each: unit, max } = written;
  if (of === undefined || unit === undefined || max === undefined) return null;
  const sources = Array.isArray(of) ? of : [of];
  const kinds = METER_KINDS.filter((kind) => sources.filter((one) => one.kind === kind).length > 1);
  if (kinds.length > 0 || sources.length === 0) {
    const message = kinds.length > 0 ? `reads ${kinds.join(" and ")} twice` : "is empty";
    problems.error([...place, "of"], fault("bad-meter", message, "write each kind once"));
  }
  const terms = { of: sources, each: unit.dollars, max: max.dollars };
  return checkedAmounts(terms, wanted, { context, pricing, path });
}

const EXAMPLE = 'write meter: { of: json("usage.total_tokens"), each: $0.000002, max: $0.50 }';

function checkedAmounts(
  terms: MeterTerms,
  wanted: Omit<Wanted, "price" | "pricePath">,
  {
    context,
    pricing,
    path,
  }: { readonly context: Context; readonly pricing: Pricing; readonly path: Path },
): ResolvedMeter | null {
  const { problems } = context;
  const [eachPath, maxPath] = [
    [...path, "meter", "each"],
    [...path, "meter", "max"],
  ];
  const unit = readEach(terms.each);
  if (unit === undefined || unit.units === 0n) {
    problems.error(eachPath, fault("bad-price", "is nothing: a route that costs nothing is free"));
  }
  const price = { kind: "dollars", dollars: terms.max } as const;
  const offers = pricing.offers(path, { ...wanted, price, pricePath: maxPath });
  if (offers.some(({ dollars: own }) => own === null)) {
    const message = "is charged by use, and a token that is accepted here has an amount of its own";
    const hint = "give the route an accept of its own, without amounts";
    problems.errorAtKey([...path, "meter"], fault("fixed-amount", message, hint));
    return null;
  }
  const most = dollarAmount(price, MOST_DECIMALS);
  if (unit !== undefined && most.ok) {
    const one = unit.units * 10n ** BigInt(MOST_DECIMALS);
    if (one > most.value * 10n ** BigInt(unit.decimals)) {
      const message = "is more than max: whatever is used costs max";
      problems.error(eachPath, fault("bad-price", message, "write the price of one unit"));
    }
  }
  const told = offers.map((offer) => ({ ...offer, dollars: `up to ${terms.max}` }));
  return told.length === 0 ? null : { terms, offers: told };
}

/** Of a comparison alone. */
const MOST_DECIMALS = 77;

/** What is sold, as it is written, and by what it is charged: whoever reads the one of it has read the other. */
export function meteredDescription(description: string, terms: MeterTerms): string {
  const { each: unit, max } = terms;
  const sold = description === "" ? "" : `${description.replace(/[.!?]?$/, (end) => end || ".")} `;
  return (
    sold +
    `Charged by use, at most ${max}: ${unit} for each of ${unitText(terms)} of the answer. ${max} is paid first, and what is left ` +
    `is credited to the payer; an answer that does not say what it has used costs ${max}.`
  );
}

/** As it is told in documents for programs. */
export function toldMeter({ of, each: unit, max }: MeterTerms): {
  readonly of: readonly string[];
  readonly each: string;
  readonly max: string;
} {
  return { of: of.map(sourceText), each: unit, max };
}
