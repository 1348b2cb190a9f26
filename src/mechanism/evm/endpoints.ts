/** The RPC endpoints of an EVM network: how each shows its chain and its head. */
import type { EvmNetwork } from "../../x402/network.ts";
import { RpcEndpoints, type HealthObserver } from "../rpc-endpoints.ts";
import { openRpc, type Rpc, type RpcObserver } from "../rpc.ts";
import { MAX_UNPROVEN_CALLS } from "../judging-lane.ts";
import { MAX_SYNC_CALLS, SYNC_TIMEOUT_MS } from "./broadcast.ts";
import { blocksOf } from "./network-blocks.ts";
import { identify } from "./probe.ts";
import { readHead } from "./usage.ts";

/** The longest wait for one call where another endpoint could be asked instead, milliseconds. */
const SHARED_TIMEOUT_MS = 4_000;

export interface EvmEndpointsOptions {
  readonly network: EvmNetwork;
  /** In order of preference, at least one. */
  readonly rpcUrls: readonly string[];
  /** Unix seconds. */
  readonly clock: () => number;
  /** The longest wait for one call to the chain, milliseconds. */
  readonly rpcTimeoutMs?: number | undefined;
  readonly observer?: RpcObserver | undefined;
  readonly onHealth?: HealthObserver | undefined;
  readonly onDoubt?: (() => void) | undefined;
}

export interface EvmEndpoints {
  readonly endpoints: RpcEndpoints;
  /**
   * The same ones for questions that anybody can make us ask: with connections of their own, and whatever goes
   * wrong with them says nothing about the others.
   */
  readonly openUnproven: () => RpcEndpoints;
  /** A second client of one of them, for calls that wait for a block. */
  readonly openWaiting: (rpc: Rpc) => Rpc;
}

/** Opens no connection. @throws {TypeError} on a URL that is not HTTP, or without one */
export function openEndpoints(options: EvmEndpointsOptions): EvmEndpoints {
  const { network, rpcUrls, clock, observer, onHealth, onDoubt } = options;
  if (rpcUrls.length === 0) throw new TypeError(`${network.name} needs an RPC endpoint`);
  const shared = rpcUrls.length > 1 ? SHARED_TIMEOUT_MS : undefined;
  const timeoutMs = options.rpcTimeoutMs ?? shared;
  const usual = { observer, ...(timeoutMs === undefined ? {} : { timeoutMs }) };
  const urls = new Map(rpcUrls.map((url) => [openRpc(url, usual), url]));
  const terms = {
    identify: (rpc: Rpc, signal: AbortSignal) => identify(rpc, network, signal),
    readHead,
    maxLagBlocks: blocksOf(network.name).maxLag,
    clock,
  };
  return {
    endpoints: new RpcEndpoints({ ...terms, rpcs: [...urls.keys()], onHealth, onDoubt }),
    openUnproven() {
      const few = { ...usual, maxConnections: MAX_UNPROVEN_CALLS };
      return new RpcEndpoints({ ...terms, rpcs: rpcUrls.map((url) => openRpc(url, few)) });
    },
    openWaiting(rpc) {
      const limits = { timeoutMs: SYNC_TIMEOUT_MS, maxConnections: MAX_SYNC_CALLS };
      return openRpc(urls.get(rpc) ?? "", { observer, ...limits });
    },
  };
}
