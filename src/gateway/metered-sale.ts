/** What is told of a payment that is charged by use, when its answer was given. */
import { NOT_METERED, type MeteredSale } from "../ledger/ledger.ts";
import type { Paid } from "../payments/sale/admission.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { systemTime } from "../time/time.ts";
import { sameAddress } from "../x402/address.ts";
import { formatAmount } from "../x402/amount.ts";
import type { PaymentRequirements } from "../x402/x402.ts";
import { noteUsage, tokenOf } from "./access.ts";
import type { PricedDecision, PricedPlan } from "./decision.ts";
import { MeteredAnswer, type MostCharged } from "./metered-answer.ts";
import { isMeteredEarlier } from "./offers/earlier-quotes.ts";
import type { Visitor } from "./visitor.ts";

/** Undefined: all that was paid is charged, or it was sold before. */
export function meteredOf(plan: PricedPlan, paid: Paid): MeteredAnswer | undefined {
  if (plan.metering === undefined || paid.isRepeat) return undefined;
  return new MeteredAnswer(plan.metering, mostOf(plan, paid));
}

/** Whether it was asked for a short while ago as the most that an answer costs, where all cost the same by now. */
export function wasMetered(decision: PricedDecision, paid: PaymentRequirements): boolean {
  if (decision.kind !== "presented" || decision.earlier.length === 0) return false;
  return isMeteredEarlier(decision.earlier, decision, paid, systemTime.now());
}

/**
 * What an answer costs by a route that is not charged by use, for which more was paid: should it have been paid as the most that one
 * costs, the rest is its buyer's. Undefined: there is no rest.
 */
export function unmeteredUse(decision: PricedDecision, paid: Paid): MeteredSale | undefined {
  const { plan, offers, resource } = decision;
  if (plan.metering !== undefined || paid.isRepeat) return undefined;
  const { network, asset, maxAmountRequired } = paid.terms;
  const asked = offers
    .requirements(resource)
    .find((each) => each.network === network && sameAddress(each.asset, asset));
  const charged = asked && BigInt(asked.maxAmountRequired);
  if (charged === undefined || charged >= BigInt(maxAmountRequired)) return undefined;
  return { charged, usage: null, reason: NOT_METERED };
}

/** What of a payment its answer has cost; undefined: all that was paid. */
export function usedOf(
  { visitor, decision }: { readonly visitor: Visitor; readonly decision: PricedDecision },
  paid: Paid,
  metered: MeteredAnswer | undefined,
  telemetry: Telemetry,
): MeteredSale | undefined {
  const { plan } = decision;
  if (metered === undefined) return unmeteredUse(decision, paid);
  return noteUse({ visitor, plan }, mostOf(plan, paid), metered.sale, telemetry);
}

/** Of a token that the route names no more nothing but the atomic units is known: all of it is charged. */
function mostOf({ tokens }: Pick<PricedPlan, "tokens">, { terms }: Pick<Paid, "terms">): Charged {
  const { network, asset, maxAmountRequired } = terms;
  const { symbol = asset, decimals = 0 } = tokenOf(tokens, terms) ?? {};
  return { network, symbol, decimals, amount: BigInt(maxAmountRequired) };
}

/** What of it was not charged came back to a balance, or was never taken out of one. */
interface Charged extends MostCharged {
  readonly network: string;
}

/** Tells the log, the access log and the metrics; returns it. */
export function noteUse(
  { visitor, plan }: { readonly visitor: Visitor; readonly plan: PricedPlan },
  { network, symbol: asset, decimals, amount }: Charged,
  sale: MeteredSale,
  { metrics, logger }: Telemetry,
): MeteredSale {
  const { charged, usage, reason } = sale;
  const { label: route } = plan;
  const used = formatAmount(charged, decimals);
  const left = formatAmount(amount - charged, decimals);
  noteUsage(visitor, { charged: used, usage });
  const units = usage === null ? null : Number(usage);
  const amounts = { charged: Number(used), change: Number(left) };
  metrics.use.count({ route, network, asset, ...amounts, units, reason });
  if (reason !== null) {
    const facts = { requestId: visitor.id, route, reason, usage, charged: used };
    logger.warn(facts, "an answer is charged as a whole, and not by what it has used");
  }
  return sale;
}

/** For people. */
export function meteredNote({ sale: { usage, reason } }: MeteredAnswer): string {
  const why = reason === null ? "" : ` (${reason})`;
  return usage === null ? `what it has used is not known${why}` : `${usage} used${why}`;
}
