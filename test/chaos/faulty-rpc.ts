/**
 * A JSON-RPC proxy that fails as bad nodes and bad networks do: errors, connections that break before or
 * after the node has acted, late answers, answers from some blocks ago, and receipts that are not true.
 */
import { createServer, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { setTimeout as pause } from "node:timers/promises";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import type { Random } from "../simulation/random.ts";

/** Shares of all calls; `lostBroadcasts` of the broadcasts, `lies` of the receipts. */
export interface RpcFaults {
  readonly errors: number;
  readonly drops: number;
  readonly lostBroadcasts: number;
  readonly stale: number;
  readonly lies: number;
  readonly late: number;
}

/** How late a late answer is at most, milliseconds. */
const LATE_MS = 2_000;
/** How many blocks ago a stale node lives at most. */
const STALE_BLOCKS = 3;

export interface FaultyRpc extends AsyncDisposable {
  readonly url: string;
  /** How often each fault happened. */
  readonly counts: Readonly<Record<string, number>>;
  /** From now on every call is passed on as it is. */
  calm(): void;
}

interface Call {
  readonly id: unknown;
  readonly method: string;
  readonly params: readonly unknown[];
}

export async function startFaultyRpc(
  nodeUrl: string,
  faults: RpcFaults,
  chance: Random,
): Promise<FaultyRpc> {
  const counts: Record<string, number> = { calls: 0 };
  let active = true;
  const hit = (name: string, share: number): boolean => {
    if (!active || !chance.chance(share)) return false;
    counts[name] = (counts[name] ?? 0) + 1;
    return true;
  };
  const ask = async (call: Call): Promise<Record<string, unknown>> => {
    const answer = await fetch(nodeUrl, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ jsonrpc: "2.0", ...call }),
    });
    return Object(await answer.json());
  };
  /** Faults before the node hears of it; false when the call is over. */
  const passes = async (call: Call, response: ServerResponse): Promise<boolean> => {
    if (hit("errors", faults.errors)) {
      const error = { code: -32000, message: "the node is overloaded" };
      send(response, { jsonrpc: "2.0", id: call.id, error });
    } else if (hit("drops before", faults.drops / 2)) {
      response.destroy();
    } else if (isRead(call) && hit("stale reads", faults.stale)) {
      send(response, await askThePast(call, ask, chance));
    } else {
      if (hit("late answers", faults.late)) await pause(chance.between(50, LATE_MS));
      return true;
    }
    return false;
  };
  /** Faults after it has acted: whether its answer is lost. */
  const isLost = (call: Call): boolean =>
    (!isRead(call) && hit("lost broadcasts", faults.lostBroadcasts)) ||
    hit("drops after", faults.drops / 2);
  const answer = async (call: Call, response: ServerResponse): Promise<void> => {
    counts.calls = (counts.calls ?? 0) + 1;
    if (!(await passes(call, response))) return;
    const body = await ask(call);
    const isReceipt = call.method === "eth_getTransactionReceipt" && body.result !== null;
    if (isLost(call)) response.destroy();
    else if (isReceipt && hit("lies", faults.lies)) {
      send(response, { ...body, result: { ...Object(body.result), status: "0x0", logs: [] } });
    } else send(response, body);
  };
  const server = createServer((request, response) => {
    text(request)
      .then((body) => {
        const { id, method, params } = Object(JSON.parse(body));
        return answer({ id, method: String(method), params }, response);
      })
      .catch(() => response.destroy());
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  return {
    url: `http://127.0.0.1:${port}`,
    counts,
    calm() {
      active = false;
    },
    [Symbol.asyncDispose]: () => drain(server, AbortSignal.abort()),
  };
}

function isRead({ method }: Call): boolean {
  return !method.startsWith("eth_sendRaw");
}

/** What a node answers that is some blocks behind the others. */
async function askThePast(
  call: Call,
  ask: (call: Call) => Promise<Record<string, unknown>>,
  chance: Random,
): Promise<Record<string, unknown>> {
  const head = await ask({ id: call.id, method: "eth_blockNumber", params: [] });
  const behind = BigInt(chance.between(1, STALE_BLOCKS));
  const number = BigInt(String(head.result));
  const past = number > behind ? number - behind : 0n;
  const pastTag = `0x${past.toString(16)}`;
  if (call.method === "eth_blockNumber") return { ...head, result: pastTag };
  if (call.method === "eth_getTransactionReceipt") {
    const body = await ask(call);
    const block = Object(body.result).blockNumber;
    const isNewer = typeof block === "string" && BigInt(block) > past;
    return isNewer ? { ...body, result: null } : body;
  }
  const asksAfter = call.params.some((each) => isBlockAfter(each, past));
  if (asksAfter) {
    const error = { code: -32001, message: "header not found" };
    return { jsonrpc: "2.0", id: call.id, error };
  }
  return ask({ ...call, params: call.params.map((each) => (isTag(each) ? pastTag : each)) });
}

function isTag(value: unknown): boolean {
  return value === "latest" || value === "pending";
}

function isBlockAfter(value: unknown, past: bigint): boolean {
  return typeof value === "string" && /^0x[0-9a-f]{1,10}$/.test(value) && BigInt(value) > past;
}

function send(response: ServerResponse, body: object): void {
  if (response.destroyed) return;
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(body));
}
