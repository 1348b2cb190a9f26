/** What is allowed about balances and most likely a mistake: that one payee gets what is spent where another one sells. */
import type { NetworkName } from "../x402/network.ts";
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
