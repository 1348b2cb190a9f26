/** On which networks anything is sold, in the order in which the routes name them; worked out once for each list. */
import type { NetworkName } from "../../x402/network.ts";
import type { RouteSettings } from "./routes.ts";

const known = new WeakMap<readonly RouteSettings[], readonly NetworkName[]>();

export function soldNetworks(routes: readonly RouteSettings[]): readonly NetworkName[] {
  const found = known.get(routes);
  if (found !== undefined) return found;
  const networks = new Set<NetworkName>();
  for (const { action } of routes) {
    if (action.kind !== "priced") continue;
    for (const { network } of action.offers) networks.add(network);
  }
  const listed = [...networks];
  known.set(routes, listed);
  return listed;
}
