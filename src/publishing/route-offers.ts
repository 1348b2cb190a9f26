/** The ways to pay for a route, as they are offered and listed. */
import type { PricedAction, RouteSettings } from "../config/config.ts";
import { outputSchemaOf, pathOf } from "../discovery/discovery.ts";
import type { Offer } from "../payments/sale/offers.ts";
import { networkOf } from "../x402/network.ts";
import { EXACT_SCHEME } from "../x402/x402.ts";
import { isTemplate } from "./described.ts";

/** What is asked for, and by which method; default: the first one of the route. */
export interface AskedRoute {
  readonly route: RouteSettings;
  readonly action: PricedAction;
  readonly publicUrl: string | null;
  readonly method?: string;
}

/** The ways to pay for a route, in the order that buyers see. */
export function offersOf({ route, action, publicUrl, ...asked }: AskedRoute): Offer[] {
  const { description, mimeType, maxTimeoutSeconds } = action;
  const resource = `${publicUrl ?? ""}${route.pattern}`;
  const outputSchema = outputSchemaOf({
    method: asked.method ?? route.methods?.[0] ?? "GET",
    discoverable: action.discoverable,
    input: action.input,
    output: action.outputSchema,
    routeTemplate: isTemplate(route) ? pathOf(resource) : null,
  });
  return action.offers.map(({ network, asset, payTo, amountAtomic }) => ({
    scheme: EXACT_SCHEME,
    network: networkOf(network).name,
    maxAmountRequired: amountAtomic.toString(),
    asset: asset.address,
    payTo,
    description,
    mimeType,
    maxTimeoutSeconds,
    outputSchema,
    // Solana's names the account that pays the network fee, which is not the configuration's to know.
    ...("eip712" in asset
      ? { extra: { name: asset.eip712.name, version: asset.eip712.version } }
      : {}),
  }));
}
