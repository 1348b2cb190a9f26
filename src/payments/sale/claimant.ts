/** By whom something is claimed. */
import { hash } from "node:crypto";
import { networkOf } from "../../http/ip-address.ts";

/** One for each client, as far as its address tells: of IPv6 the network of 64 bits, within which it may move. */
export function claimantOf(client: string): string {
  return hash("sha256", `coinslot claimant ${networkOf(client)}`);
}
