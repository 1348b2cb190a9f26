/** Token addresses as they are compared: on EVM networks letter case says nothing, in base58 it does. */
import { sameAddress } from "./address.ts";
import { findNetwork } from "./network.ts";

export function isSameToken(network: string, left: string, right: string): boolean {
  return findNetwork(network)?.kind === "evm" ? sameAddress(left, right) : left === right;
}
