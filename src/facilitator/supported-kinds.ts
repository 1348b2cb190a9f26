/** What several facilitators support, as one list. */
import { compareSupported, isNetworkName } from "../x402/network.ts";
import { nameOfCaip2 } from "../x402/version-2.ts";
import type { SupportedKind } from "../x402/x402.ts";

export function nameOfKind({ x402Version, network }: SupportedKind): string {
  return `${x402Version} ${network}`;
}

/** Of each version the networks that are not the protocol's come last, in the order in which they were told. */
export function inProtocolOrder(left: SupportedKind, right: SupportedKind): number {
  if (left.x402Version !== right.x402Version) return left.x402Version - right.x402Version;
  const [one, other] = [nameOfCaip2(left.network), nameOfCaip2(right.network)];
  if (!isNetworkName(one)) return isNetworkName(other) ? 1 : 0;
  return isNetworkName(other) ? compareSupported(one, other) : -1;
}
