/** The RPC endpoints of a Solana network: how each shows its cluster and its head. */
import type { SolanaNetwork } from "../../x402/network.ts";
import type { Time } from "../../time/time.ts";
import { ChainError } from "../mechanism.ts";
import { RpcEndpoints, type HealthObserver } from "../rpc-endpoints.ts";
import { openRpc, type Rpc, type RpcObserver, type RpcRefusal } from "../rpc.ts";
import { isSlot } from "./statuses.ts";

/** The longest wait for one call where another endpoint could be asked instead, milliseconds. */
const SHARED_TIMEOUT_MS = 4_000;
/** Slots that an endpoint may be behind the best one, about 20 s: a blockhash is valid for 150 of them. */
const MAX_LAG_SLOTS = 50n;
/** Payments that are judged at a time, each by a simulation: what we have signed always finds another connection. */
export const MAX_JUDGED = 48;

/**
 * JSON-RPC errors that are about the call, in the numbers of Agave's `rpc_custom_error.rs`: any other node
 * would answer the same. Not among them are what a node says of its own state: that it is behind or
 * unhealthy (-32005, -32016), or keeps no history (-32011).
 */
const ABOUT_THE_CALL: ReadonlySet<number> = new Set([
  // The transaction fails in simulation.
  -32_002,
  // A signature of the transaction is wrong.
  -32_003,
  // The transaction has not as many signatures as it should.
  -32_013,
  // The transaction is of a version that the caller did not ask for.
  -32_015,
  // Invalid parameters; also a transaction that cannot be read, or breaks the runtime's rules.
  -32_602,
]);

export interface EndpointsOptions {
  readonly network: SolanaNetwork;
  /** In order of preference, at least one. */
  readonly rpcUrls: readonly string[];
  readonly time: Pick<Time, "now">;
  readonly observer?: RpcObserver | undefined;
  readonly onHealth?: HealthObserver | undefined;
  readonly onDoubt?: (() => void) | undefined;
}

export interface SolanaEndpoints {
  readonly endpoints: RpcEndpoints;
  /** The whole HTTP URL of each endpoint; it may hold a key. */
  readonly urls: ReadonlyMap<Rpc, string>;
}

/** Opens no connection. @throws {TypeError} on a URL that is not HTTP, or without one */
export function openEndpoints(options: EndpointsOptions): SolanaEndpoints {
  const { network, rpcUrls, time, observer, onHealth, onDoubt } = options;
  if (rpcUrls.length === 0) throw new TypeError(`${network.name} needs an RPC endpoint`);
  const limits = rpcUrls.length > 1 ? { timeoutMs: SHARED_TIMEOUT_MS } : {};
  const opened = rpcUrls.map((url) => ({ url, rpc: openRpc(url, { observer, ...limits }) }));
  const endpoints = new RpcEndpoints({
    rpcs: opened.map(({ rpc }) => rpc),
    identify: (rpc, signal) => identify(rpc, network, signal),
    readHead,
    maxLagBlocks: MAX_LAG_SLOTS,
    isAboutTheCall,
    clock: () => Math.floor(time.now() / 1000),
    onHealth,
    onDoubt,
  });
  return { endpoints, urls: new Map(opened.map(({ url, rpc }) => [rpc, url])) };
}

function isAboutTheCall({ rpcCode }: RpcRefusal): boolean {
  return ABOUT_THE_CALL.has(rpcCode);
}

/** What the endpoint serves instead of the network, in words. @throws {ChainError} when it cannot be asked */
export async function identify(
  rpc: Rpc,
  network: SolanaNetwork,
  signal: AbortSignal,
): Promise<string | undefined> {
  const genesisHash = await rpc.call("getGenesisHash", [], signal);
  if (typeof genesisHash !== "string") {
    throw new ChainError("CHAIN_ANSWER", `getGenesisHash at ${rpc.host}: not a hash`);
  }
  if (genesisHash === network.genesisHash) return undefined;
  const served = `the cluster with genesis hash ${JSON.stringify(genesisHash.slice(0, MAX_SHOWN))}`;
  return `${rpc.host} serves ${served}, but ${network.name} has ${network.genesisHash}`;
}

/** Characters of a node's own words that are shown: more than a hash in base58 has. */
const MAX_SHOWN = 64;

/** The newest slot, confirmed or not. */
export async function readHead(rpc: Rpc, signal: AbortSignal): Promise<bigint> {
  const slot = await rpc.call("getSlot", [{ commitment: "processed" }], signal);
  if (isSlot(slot)) return BigInt(slot);
  throw new ChainError("CHAIN_ANSWER", `getSlot at ${rpc.host}: not a slot`);
}

/** Time of the newest confirmed slot as its validators tell it, Unix seconds. */
export async function readHeadTime(rpc: Rpc, signal: AbortSignal): Promise<number> {
  const slot = await rpc.call("getSlot", [{ commitment: "confirmed" }], signal);
  const time = await rpc.call("getBlockTime", [slot], signal);
  if (typeof time === "number" && Number.isSafeInteger(time)) return time;
  throw new ChainError("CHAIN_ANSWER", `getBlockTime at ${rpc.host}: not a time`);
}
