/**
 * What is allowed about balances and most likely a mistake: that one payee gets what is spent where another one sells, and that
 * requests wait for one another since each may cost nearly all that may be at risk.
 */
import { networkOf, type NetworkName } from "../x402/network.ts";
import { isSameToken } from "../x402/token.ts";
import type { Config } from "./document.ts";
import type { Context } from "./reading/context.ts";
import { fault } from "./reading/reading.ts";

/**
 * A balance is its buyer's at the whole gateway: whoever is paid for it where it is bought is not paid again where it is spent. A
 * payee who sells to himself so has what others sell for nothing.
 */
export function reviewCreditPayees(
  { credits, routes }: Pick<Config, "credits" | "routes">,
  { problems, tree }: Context,
): void {
  if (credits === null || !tree.intact(["credits"])) return;
  const bought = new Map<NetworkName, Set<string>>();
  for (const { action } of routes) {
    if (action.kind !== "priced" || action.own?.kind !== "credits") continue;
    for (const { network, payTo } of action.offers) {
      bought.set(network, (bought.get(network) ?? new Set()).add(payTo));
    }
  }
  for (const { key, action } of routes) {
    if (action.kind !== "priced" || !action.credits) continue;
    const other = action.offers
      .flatMap(({ network, payTo }) =>
        [...(bought.get(network) ?? [])].map((prepaid) => ({ network, payTo, prepaid })),
      )
      .find(({ payTo, prepaid }) => payTo !== prepaid);
    if (other === undefined) continue;
    const { network, payTo, prepaid } = other;
    const message = `are paid to ${prepaid} on ${network}, and spent at ${key} too, where ${payTo} is paid otherwise`;
    const hint =
      "leave credits out of routes of others: whoever is paid for packs could buy from himself";
    problems.add("warning", ["credits"], fault("split-credits", message, hint), "key");
    return;
  }
}

/** One request that is under way has what it may cost of what is at risk; what does not fit beside it waits. */
export function reviewRisk(
  { credits, routes }: Pick<Config, "credits" | "routes">,
  { problems, tree }: Context,
): void {
  if (credits === null || !tree.intact(["credits"])) return;
  for (const { key, action } of routes) {
    if (action.kind !== "priced" || !action.credits) continue;
    const isDear = action.offers.some(({ network, asset, amountAtomic }) => {
      const isPrepaid = isSameToken(network, networkOf(network).asset.address, asset.address);
      return isPrepaid && 2n * BigInt(amountAtomic) > credits.atRisk;
    });
    if (!isDear) continue;
    const message = `have only one request of ${key} under way at a time: two may cost more than atRisk`;
    const hint = "raise atRisk to what the requests that are under way at once may cost";
    problems.add("warning", ["credits"], fault("narrow-risk", message, hint), "key");
    return;
  }
}
