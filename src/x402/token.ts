/** Token addresses as they are compared, and amounts as people are told of them. */
import { sameAddress } from "./address.ts";
import { formatAmount } from "./amount.ts";
import { findNetwork, NETWORK_NAMES, networkOf, type Asset } from "./network.ts";

/** On EVM networks letter case says nothing, in base58 it does. */
export function isSameToken(network: string, left: string, right: string): boolean {
  return findNetwork(network)?.kind === "evm" ? sameAddress(left, right) : left === right;
}

/** Decimals of the networks' own stablecoins, by lower-case address. */
const DOLLARS: ReadonlyMap<string, number> = new Map(
  NETWORK_NAMES.map((name) => networkOf(name).asset).map(({ address, decimals }) => {
    return [address.toLowerCase(), decimals];
  }),
);

/** What is known of a token beside its address. */
type Told = Pick<Asset, "address"> & Partial<Pick<Asset, "symbol" | "decimals">>;

/**
 * `5000 of 10000 atomic units ($0.005 of $0.01)`, in brackets what they are in money: dollars of a network's own
 * stablecoin, `0.01 EURC` of a token with a symbol, and nothing of any other.
 */
export function unitsText(amounts: readonly bigint[], { address, symbol, decimals }: Told): string {
  const units = `${amounts.join(" of ")} atomic units`;
  const dollars = DOLLARS.get(address.toLowerCase());
  if (dollars !== undefined) {
    return `${units} (${amounts.map((each) => `$${formatAmount(each, dollars)}`).join(" of ")})`;
  }
  if (decimals === undefined || symbol === undefined || symbol === "") return units;
  return `${units} (${amounts.map((each) => formatAmount(each, decimals)).join(" of ")} ${symbol})`;
}
