/** What an operator is told about RPC endpoints that do not serve their network. */
import { ChainError, type Finding } from "./mechanism.ts";
import type { Identification, RpcEndpoints } from "./rpc-endpoints.ts";

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

/** Whether any endpoint serves the network. @throws {ChainError} when none could be asked */
export async function probeEndpoints(
  endpoints: Pick<RpcEndpoints, "identifyAll">,
  signal: AbortSignal,
): Promise<readonly Finding[]> {
  const identified = await endpoints.identifyAll(signal);
  const isOneRight = identified.some(({ kind }) => kind === "right");
  return isOneRight ? describeUnused(identified) : describeWrong(identified);
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
