/** What is told of a payment that is charged by use, when its answer was given. */
import type { MeteredSale } from "../ledger/ledger.ts";
import type { Paid } from "../payments/sale/admission.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { formatAmount } from "../x402/amount.ts";
import { noteUsage, tokenOf } from "./access.ts";
import type { PricedPlan } from "./decision.ts";
import { MeteredAnswer, type MostCharged } from "./metered-answer.ts";
import type { Visitor } from "./visitor.ts";

/** Undefined: all that was paid is charged, or it was sold before. */
export function meteredOf(plan: PricedPlan, paid: Paid): MeteredAnswer | undefined {
  if (plan.metering === undefined || paid.isRepeat) return undefined;
  return new MeteredAnswer(plan.metering, mostOf(plan, paid));
}

/** Of a token that the route names no more nothing but the atomic units is known: all of it is charged. */
export function mostOf(
  { tokens }: Pick<PricedPlan, "tokens">,
  { terms }: Pick<Paid, "terms">,
): Charged {
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
