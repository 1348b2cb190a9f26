/**
 * Gateways that are paid to one address share a ledger, whatever each of them sells: what was paid at one for a path
 * is no payment for the same path at another that asks more for it. At one gateway a price may rise between the
 * payment and its delivery.
 */
import { sameAddress } from "../../x402/address.ts";
import { parseUint256 } from "../../x402/amount.ts";
import { refuse } from "../../x402/result.ts";
import type { FacilitatorRequest, PaymentRequirements } from "../../x402/x402.ts";
import type { Presented } from "./admission.ts";

export const PAID_ELSEWHERE = refuse(
  "invalid_payload",
  "this payment was used for another resource",
);

/**
 * Whether a payment was first used under another public URL, and is less than is asked for here: for the same path, or
 * for one from which a redirect may have led it to this path there.
 */
export function isOfCheaperShop(
  { paymentRequirements: paid }: FacilitatorRequest,
  { accepts, binding, target }: Pick<Presented, "accepts" | "binding" | "target">,
): boolean {
  const url = withoutQuery(paid.resource);
  // Behind the name of its site, which a URL may have in another form.
  const path = binding.slice(binding.indexOf("/"));
  const here = target.slice(target.indexOf("/"));
  const isHere = accepts.some(({ resource }) => {
    if (url.endsWith(path)) return withoutQuery(resource) === url;
    return url.startsWith(`${resource.slice(0, -here.length)}/`);
  });
  if (isHere || accepts.length === 0) return false;
  return !accepts.some((asked) => isNoMore(asked, paid));
}

/**
 * Whether it was for a request of another price than this one, where each has its own: else what is owed of a cheap
 * request would buy a dear one.
 */
export function isOfOtherPrice(
  { paymentRequirements: paid }: FacilitatorRequest,
  { exactly }: Pick<Presented, "exactly">,
): boolean {
  if (exactly === undefined) return false;
  return !exactly.some((asked) => {
    return isNoMore(asked, paid) && asked.maxAmountRequired === paid.maxAmountRequired;
  });
}

/** Whether what is asked for is that money, and no more of it. */
function isNoMore(asked: PaymentRequirements, paid: PaymentRequirements): boolean {
  const isSameMoney = asked.network === paid.network && sameAddress(asked.asset, paid.asset);
  const amount = parseUint256(paid.maxAmountRequired) ?? 0n;
  return isSameMoney && amount >= BigInt(asked.maxAmountRequired);
}

/** Whether what was paid is enough for what is asked for elsewhere at the same gateway, and went to whom that is for. */
export function isPaidWith(
  accepts: readonly PaymentRequirements[],
  paid: PaymentRequirements,
): boolean {
  return accepts.some((asked) => isNoMore(asked, paid) && sameAddress(asked.payTo, paid.payTo));
}

function withoutQuery(resource: string): string {
  return resource.split("?", 1).join("");
}
