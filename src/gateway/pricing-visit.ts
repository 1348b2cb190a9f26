/** What becomes of a request whose body decides what it costs, once that body is there. */
import { atPlan, type PricedDecision } from "./decision.ts";
import { readPricedBody, type PricedBody } from "./priced-body.ts";
import type { Visitor } from "./visitor.ts";

type Priced = PricedDecision | { readonly kind: "abandoned" };

/**
 * The decision with the price of the request, read with its body; one without a payment and without such a body is told
 * the most that it may cost.
 */
export function priceByBody(
  visitor: Pick<Visitor, "request" | "replaying">,
  decision: PricedDecision,
): Priced | Promise<Priced> {
  const read = readPricedBody(visitor);
  return read instanceof Promise
    ? read.then((body) => pricedBy(body, decision))
    : pricedBy(read, decision);
}

function pricedBy(read: PricedBody, decision: PricedDecision): Priced {
  if (read.kind === "gone") return { kind: "abandoned" };
  const { computed } = decision.plan;
  const { priced } = decision;
  if (priced === undefined) return decision;
  const body = read.kind === "whole" ? read.body : undefined;
  const whole = { ...decision, priced: { ...priced, body } };
  // Only what was asked for a short while ago depends on the body.
  if (computed?.readsBody !== true) return whole;
  if (read.kind === "whole") {
    const own = computed.planFor(whole.priced);
    if (!own.ok) return unpriced(decision, 400, own.error);
    return { ...whole, ...atPlan(own.value) };
  }
  const isAsked = decision.kind === "challenge" || decision.kind === "malformed";
  if (isAsked) return { ...decision, provisional: whyNot(read) };
  if (read.kind === "refused") return unpriced(decision, read.status, read.detail);
  return unpriced(decision, 400, "its body decides what it costs, and is missing");
}

function whyNot(read: Extract<PricedBody, { kind: "absent" | "refused" }>): string {
  return read.kind === "absent"
    ? "that depends on the body, which was not sent"
    : `${read.detail}, and is refused when it is paid for`;
}

function unpriced(
  { plan, offers, page, resource, soldMethod, site, target, path }: PricedDecision,
  status: 400 | 411 | 413 | 415,
  detail: string,
): PricedDecision {
  const place = { plan, offers, page, resource, soldMethod, site, target, path };
  return { kind: "unpriced", status, detail, ...place };
}
