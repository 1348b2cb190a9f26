/** What an operator is told about RPC endpoints that do not serve their network. */
import { ChainError, type Finding } from "./mechanism.ts";
import type { Identification } from "./rpc-endpoints.ts";

/**
 * Where no endpoint serves the network: whatever else is asked would be about another chain.
 * @throws {ChainError} when none could be asked
 */
export function describeWrong(identified: readonly Identification[]): readonly Finding[] {
  const wrong = identified.filter((each) => each.kind === "wrong");
  if (wrong.length > 0) return wrong.map(({ detail }) => ({ level: "error", message: detail }));
  for (const each of identified) if (each.kind === "unreachable") throw each.error;
  throw new ChainError("CHAIN_UNREACHABLE", "no RPC endpoint answered");
}

/** The endpoints that are left out while another one serves the network. */
export function describeUnused(identified: readonly Identification[]): readonly Finding[] {
  return identified.flatMap((each): Finding[] => {
    switch (each.kind) {
      case "right":
        return [];
      case "wrong":
        return [{ level: "warning", message: `${each.detail}; that endpoint is not used` }];
      case "unreachable": {
        const message = `${each.error.message}; that endpoint is not used until it answers`;
        return [{ level: "warning", message }];
      }
    }
  });
}
