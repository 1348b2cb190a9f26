/**
 * A JSON-RPC endpoint in a process of its own. It passes calls on to a real node, counts them and keeps
 * the answers; from then on it answers the same calls by itself: with two cores, the node would otherwise
 * be what limits every facilitator. What Multicall3 was asked is kept call by call, because concurrent
 * payments are put together differently each time.
 */
import { createServer, type ServerResponse } from "node:http";
import {
  decodeFunctionData,
  decodeFunctionResult,
  encodeFunctionResult,
  multicall3Abi,
  type Hex,
} from "viem";
import { serve } from "./process.ts";

export interface TapeState {
  /** HTTP requests since the last question, by JSON-RPC method. */
  readonly calls: Readonly<Record<string, number>>;
  /** Calls without a recorded answer while replaying. */
  readonly misses: number;
}

const [, , nodeUrl = ""] = process.argv;
const answers = new Map<string, string>();
/** Results of single calls inside a Multicall3 `aggregate3`, by target and call data. */
const inner = new Map<string, InnerResult>();
let isReplaying = false;
let calls: Record<string, number> = {};
let misses = 0;

async function send(response: ServerResponse, text: string): Promise<void> {
  const body = await answer(text);
  const length = String(Buffer.byteLength(body));
  response.writeHead(200, ["Content-Type", "application/json", "Content-Length", length]);
  response.end(body);
}

async function answer(text: string): Promise<string> {
  const { id, method, params } = JSON.parse(text);
  calls[method] = (calls[method] ?? 0) + 1;
  const call = JSON.stringify([method, params]);
  let result = answers.get(call);
  if (isReplaying) {
    result ??= recompose(method, params);
    if (result === undefined) misses += 1;
  } else {
    const told = await ask(text);
    result = JSON.stringify(told);
    answers.set(call, result);
    takeApart(method, params, told);
  }
  return `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result ?? "null"}}`;
}

interface InnerResult {
  readonly success: boolean;
  readonly returnData: Hex;
}

/** The single calls of an `aggregate3`; undefined for any other call. */
function singleCalls(method: string, params: readonly unknown[]): string[] | undefined {
  const { data } = Object(params[0]);
  if (method !== "eth_call" || typeof data !== "string" || !data.startsWith("0x82ad56cb")) {
    return undefined;
  }
  const { args } = decodeFunctionData({ abi: multicall3Abi, data: data as Hex });
  const calls: readonly { target: string; callData: string }[] = Object(args)[0];
  return calls.map(({ target, callData }) => target + callData);
}

function takeApart(method: string, params: readonly unknown[], told: unknown): void {
  const singles = singleCalls(method, params);
  if (singles === undefined || typeof told !== "string") return;
  const functionName = "aggregate3";
  const data = told as Hex;
  const results = decodeFunctionResult({ abi: multicall3Abi, functionName, data });
  for (const [index, single] of singles.entries()) {
    const result = results[index];
    if (result !== undefined) inner.set(single, result);
  }
}

function recompose(method: string, params: readonly unknown[]): string | undefined {
  const results = singleCalls(method, params)?.map((single) => inner.get(single));
  if (results === undefined || !results.every((result) => result !== undefined)) return undefined;
  const functionName = "aggregate3";
  return JSON.stringify(
    encodeFunctionResult({ abi: multicall3Abi, functionName, result: results }),
  );
}

async function ask(text: string): Promise<unknown> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(nodeUrl, { method: "POST", headers, body: text });
  const body: unknown = await response.json();
  if (typeof body !== "object" || body === null || !("result" in body))
    throw new Error(`the node refused ${text}: ${JSON.stringify(body)}`);
  return body.result;
}

const server = createServer((request, response) => {
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => {
    void send(response, Buffer.concat(parts).toString());
  });
});
serve(server);
process.on("message", (asked: { readonly replay: boolean }) => {
  const state: TapeState = { calls, misses };
  isReplaying = asked.replay;
  calls = {};
  misses = 0;
  process.send?.(state);
});
