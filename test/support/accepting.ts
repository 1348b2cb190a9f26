/** Entries of `accept` for networks of which some are test networks and others are not: those say that they are meant. */
import { networkOf, type NetworkName } from "../../src/x402/network.ts";

export function accepting(names: readonly NetworkName[]): string {
  const entries = names.map((name) =>
    networkOf(name).testnet ? `{ network: ${name}, testnet: true }` : name,
  );
  return entries.join(", ");
}
