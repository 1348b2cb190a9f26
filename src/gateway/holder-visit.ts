/** Before it is said what anything costs somebody, it is known what he holds where that is to be asked. */
import { payerOf } from "../x402/payment-key.ts";
import { withoutUse } from "./counted.ts";
import type { PresentedDecision, SignedInDecision } from "./decision.ts";
import type { PricedVisit } from "./delivery.ts";
import { isKnown, learnHoldings, unaskedOf, UNHELD } from "./holders.ts";

/** The visit of whoever shows who he is, or pays, once it is known what he holds: else with a word on that. */
export async function knowingHolders(
  visit: PricedVisit,
  decision: PresentedDecision | SignedInDecision,
): Promise<PricedVisit> {
  const { members } = decision.plan;
  const { address } = visit.client;
  let isAsked = true;
  if (decision.kind === "presented") isAsked = await learnPayer(decision, address);
  else if (decision.signIn.ok) {
    isAsked = await learnHoldings(members, decision.signIn.value, address);
  }
  return isAsked ? visit : withoutUse(visit, { kind: "none", lines: [], said: UNHELD });
}

/** Of who has signed a payment at what a group of holders pays; who pays what anybody does is not asked about. */
async function learnPayer(decision: PresentedDecision, client: string): Promise<boolean> {
  const { plan, payment, resource, version } = decision;
  const account = { network: payment.network, address: payerOf(payment) };
  for (const group of plan.members) {
    const [list] = unaskedOf([group], account);
    const asked = group.offers?.requirements(resource, version) ?? [];
    const own = asked.find(({ network }) => network === payment.network);
    if (list === undefined || own === undefined) continue;
    const shown = { paymentPayload: payment, paymentRequirements: own };
    // Of which payment that is, is proven there: by its key, and at that price.
    await list.holders.learn([list], account.address, { shown, client });
  }
  const priced = plan.members.filter(({ offers }) => offers !== null);
  return isKnown(priced, account);
}
