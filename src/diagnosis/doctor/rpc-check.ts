/** One RPC endpoint: whether it answers, for the right chain, and how old the newest block is that it knows. */
import type { EmbeddedNetwork, ObservedNetwork } from "../../config/config.ts";
import { identify as identifyEvm } from "../../mechanism/evm/probe.ts";
import { blocksOf } from "../../mechanism/evm/network-blocks.ts";
import { ChainError } from "../../mechanism/mechanism.ts";
import { openRpc, type Rpc } from "../../mechanism/rpc.ts";
import { networkOf, type NetworkName } from "../../x402/network.ts";
import { describeFailure, fail, ok, warn, type DoctorFinding } from "./finding.ts";
import { isRecord } from "../../x402/json.ts";
import { messageOf } from "../../x402/result.ts";

/** An older head is warned of, seconds: no network here pauses so long between two blocks. */
const OLD_HEAD_SECONDS = 60;
/** How far nodes of Solana may be behind each other, slots: about 20 s. */
const MAX_LAG_SLOTS = 50n;

export type RpcEndpoint = ObservedNetwork["rpc"][number];

export interface CheckedEndpoint {
  readonly endpoint: RpcEndpoint;
  /** It answers, and serves the network. */
  readonly isRight: boolean;
  readonly head: Head | null;
  readonly finding: DoctorFinding;
}

interface Head {
  readonly number: bigint;
  /** Null where the node does not tell when it was. */
  readonly ageSeconds: number | null;
}

/** All of one network, at the same time, with whoever is behind the others. */
export async function checkEndpoints(
  { network, rpc }: Pick<EmbeddedNetwork | ObservedNetwork, "network" | "rpc">,
  signal: AbortSignal,
): Promise<readonly CheckedEndpoint[]> {
  const checked = await Promise.all(rpc.map((each) => checkEndpoint(network, each, signal)));
  const isOneRight = checked.some(({ isRight }) => isRight);
  const best = checked.reduce(
    (most, { head }) => (head && head.number > most ? head.number : most),
    0n,
  );
  return checked.map((each) => {
    const { finding, head } = each;
    if (finding.status === "fail" && isOneRight) {
      return { ...each, finding: { ...finding, status: "warn" } };
    }
    if (head === null || best - head.number <= maxLag(network)) return each;
    const message = `is ${best - head.number} blocks behind another endpoint`;
    const fix = "it is asked last until it has caught up; see to it, or replace it";
    return { ...each, finding: warn(finding.subject, message, fix) };
  });
}

async function checkEndpoint(
  name: NetworkName,
  endpoint: RpcEndpoint,
  signal: AbortSignal,
): Promise<CheckedEndpoint> {
  const subject = `${name} rpc ${endpoint.host}`;
  const network = networkOf(name);
  const rpc = openRpc(endpoint.url.reveal());
  const started = performance.now();
  const fix = "correct or replace this endpoint under rpc; several are tried in turn";
  try {
    const wrong =
      network.kind === "evm"
        ? await identifyEvm(rpc, network, signal)
        : await (
            await import("../../mechanism/solana/endpoints.ts")
          ).identify(rpc, network, signal);
    const ms = Math.round(performance.now() - started);
    if (wrong !== undefined) {
      return { endpoint, isRight: false, head: null, finding: fail(subject, wrong, fix) };
    }
    const head = await (network.kind === "evm" ? readEvmHead(rpc, signal) : readSlot(rpc, signal));
    const chain = network.kind === "evm" ? `chain ${network.chainId}` : "the right genesis hash";
    const finding = judgeHead(subject, `answers in ${ms} ms, ${chain}`, head);
    return { endpoint, isRight: true, head, finding };
  } catch (cause) {
    return { endpoint, isRight: false, head: null, finding: fail(subject, reasonOf(cause), fix) };
  } finally {
    await rpc.close();
  }
}

/** A broken connection in plain words; what a node said for itself as it is. */
function reasonOf(cause: unknown): string {
  const isUnreachable = cause instanceof ChainError && cause.code === "CHAIN_UNREACHABLE";
  return isUnreachable ? describeFailure(cause.cause) : messageOf(cause);
}

function judgeHead(subject: string, title: string, { number, ageSeconds }: Head): DoctorFinding {
  if (ageSeconds === null) return ok(subject, `${title}, head ${number}`);
  const message = `${title}, head ${number} is ${ageSeconds} s old`;
  if (ageSeconds <= OLD_HEAD_SECONDS) return ok(subject, message);
  const fix = "the node may have stopped following its chain; see to it, or use another endpoint";
  return warn(subject, message, fix);
}

async function readEvmHead(rpc: Rpc, signal: AbortSignal): Promise<Head> {
  const block = await rpc.call("eth_getBlockByNumber", ["latest", false], signal);
  const { number, timestamp } = isRecord(block) ? block : {};
  if (typeof number !== "string" || typeof timestamp !== "string") {
    throw new Error(`${rpc.host} answers something else than a block`);
  }
  return { number: BigInt(number), ageSeconds: age(Number(BigInt(timestamp))) };
}

async function readSlot(rpc: Rpc, signal: AbortSignal): Promise<Head> {
  const slot = await rpc.call("getSlot", [{ commitment: "confirmed" }], signal);
  if (typeof slot !== "number") throw new Error(`${rpc.host} answers something else than a slot`);
  // Not every node keeps the times of its blocks, and a slot may be without one.
  const time = await rpc.call("getBlockTime", [slot], signal).catch(() => null);
  return { number: BigInt(slot), ageSeconds: typeof time === "number" ? age(time) : null };
}

function age(unixSeconds: number): number {
  return Math.max(0, Math.floor(Date.now() / 1000) - unixSeconds);
}

function maxLag(name: NetworkName): bigint {
  return networkOf(name).kind === "evm" ? blocksOf(name).maxLag : MAX_LAG_SLOTS;
}
