/** `price: { by, from, to }`: the expression is checked before any request is there, and what it may come to. */
import { ComputedPrice } from "../../pricing/computed-price.ts";
import type { ExpressionFault } from "../../pricing/analysis.ts";
import type { Context } from "../reading/context.ts";
import { fault } from "../reading/reading.ts";
import type { Path } from "../reading/tree.ts";
import type { ComputedPriceText } from "./price.ts";
import { dollarAmount, type OfferSettings, type Pricing, type Wanted } from "./pricing.ts";
import type { RouteKey } from "./route-key.ts";

/** Dearest request, dollars: what is computed has to be exact in millionths of it. */
const MAX_DOLLARS = 1_000_000;

/** Where it stands, and which requests it is for. */
interface Place {
  readonly context: Context;
  readonly pricing: Pricing;
  /** Of the route. */
  readonly path: Path;
  /** Null where it was refused. */
  readonly key: RouteKey | null;
}

/** The ways to pay the most that a request costs. */
export function computedOffers(
  price: ComputedPriceText,
  wanted: Omit<Wanted, "price" | "pricePath">,
  place: Place,
): readonly OfferSettings[] {
  const { context, pricing, path } = place;
  const { problems } = context;
  const [by, from, to] = (["by", "from", "to"] as const).map((key) => [...path, "price", key]);
  if (by === undefined || from === undefined || to === undefined) return [];
  const most = { kind: "dollars", dollars: price.to } as const;
  const offers = pricing.offers(path, { ...wanted, price: most, pricePath: to });
  if (offers.some(({ dollars }) => dollars === null)) {
    const message = "is computed, and a token that is accepted here has an amount of its own";
    const hint = "give the route an accept of its own, without amounts";
    problems.errorAtKey([...path, "price"], fault("fixed-amount", message, hint));
    return [];
  }
  const range = price.from === price.to ? price.to : `${price.from} to ${price.to}`;
  const ranged = offers.flatMap((offer) => {
    const least = dollarAmount({ dollars: price.from }, offer.asset.decimals);
    if (!least.ok) problems.error(from, least.error);
    else if (least.value > offer.amountAtomic) {
      problems.error(from, fault("bad-price", "is more than to", "write the smaller one first"));
    } else return [{ ...offer, dollars: range, leastAtomic: least.value }];
    return [];
  });
  if (dollarsIn(price.to) > MAX_DOLLARS) {
    problems.error(
      to,
      fault("bad-price", `is more than $${MAX_DOLLARS}, the most that is computed`),
    );
  }
  // Between bounds that are none nothing can be judged.
  if (ranged.length === 0 || ranged.length < offers.length) return [];
  checkExpression(price, by, place, Math.max(0, ...ranged.map(({ asset }) => asset.decimals)));
  return ranged;
}

function checkExpression(
  price: ComputedPriceText,
  by: Path,
  { context, key }: Place,
  decimals: number,
): void {
  const { problems, tree } = context;
  if (key === null || !tree.intact(by)) return;
  const compiled = ComputedPrice.of(price, { ...key, decimals });
  if (!compiled.ok) {
    reportFault(compiled.error, price.by, by, context);
    return;
  }
  const { readsBody, bounds } = compiled.value;
  if (readsBody && tree.has(["sidecar"])) {
    const message = "reads the body, which your own proxy does not show beside a sidecar";
    problems.error(by, fault("bad-expression", message, "read path, query or headers"));
  }
  if (bounds === undefined) return;
  const [least, most] = [bounds.least, bounds.most];
  if (most < dollarsIn(price.from) || least > dollarsIn(price.to)) {
    const message = `never comes to what is sold: ${price.from} to ${price.to}`;
    const hint = "whole numbers are millionths of a dollar, others dollars";
    problems.error(by, fault("bad-expression", message, hint));
  } else if (least < 0) {
    const message = "may come to less than nothing; such a request is refused";
    const hint = `write max(…, usd("${price.from.slice(1)}")) around it`;
    problems.add("note", by, fault("odd-expression", message, hint));
  }
}

/** For comparing alone. */
function dollarsIn(price: string): number {
  const written = price.slice(1);
  return Number(written);
}

function reportFault(
  { message, hint, offset, length }: ExpressionFault,
  text: string,
  path: Path,
  context: Context,
): void {
  const { problems, tree } = context;
  const span = tree.span(path, "value");
  const at = offsetIn(context.written(path), text, offset);
  const found = fault(
    "bad-expression",
    /^(?:is|has|may|needs|comes|must) /.test(message) ? `by ${message}` : message,
    hint,
  );
  if (at === undefined) problems.error(path, found);
  else problems.addAt("error", { offset: span.offset + at, length }, found, path);
}

/**
 * Where in a scalar of YAML as it is written a place of its value stands: by what is no space, since lines may be folded
 * and indented. Undefined where other characters stand for those of the value.
 */
function offsetIn(written: string, value: string, offset: number): number | undefined {
  const [head = ""] = /^(?:[|>][^\n]*\n|["'])?/.exec(written) ?? [];
  const body = written.slice(head.length);
  const quote = /^["']$/.test(head) ? head : "";
  if (body.replace(/\s/g, "") !== value.replace(/\s/g, "") + quote) return undefined;
  let left = value.slice(0, offset).replace(/\s/g, "").length;
  let at = 0;
  while (at < body.length && (left > 0 || /\s/.test(body[at] ?? ""))) {
    if (!/\s/.test(body[at] ?? "")) left -= 1;
    at += 1;
  }
  return head.length + at;
}
