/**
 * A JSON-RPC endpoint in a process of its own. It passes calls on to a real node, counts them and keeps
 * the answers; from then on it answers the same calls by itself: with two cores, the node would otherwise
 * be what limits every facilitator. What Multicall3 was asked is kept call by call, because concurrent
 * payments are put together differently each time.
 */
import { createServer, type ServerResponse } from "node:http";
import { answerOf, callsOf, resultsOf } from "./aggregate.ts";
import { serve } from "./process.ts";

export interface TapeState {
  /** HTTP requests since the last question, by JSON-RPC method. */
  readonly calls: Readonly<Record<string, number>>;
  /** Calls without a recorded answer while replaying. */
  readonly misses: number;
}

const [, , nodeUrl = ""] = process.argv;
/** What a verification asks. The chain's clock and the like are not replayed: a facilitator looks after them. */
const REPLAYED: ReadonlySet<string> = new Set([
  "eth_call",
  "getMultipleAccounts",
  "simulateTransaction",
]);
/** Results by what was asked: a whole call, or one call of an aggregate. */
const answers = new Map<string, string>();
let isReplaying = false;
let calls: Record<string, number> = {};
let misses = 0;

async function send(response: ServerResponse, text: string): Promise<void> {
  const { id, method, params } = JSON.parse(text);
  calls[method] = (calls[method] ?? 0) + 1;
  const parts = method === "eth_call" ? callsOf(params[0].data.slice(2)) : null;
  const isOnTape = isReplaying && REPLAYED.has(method);
  const outcome = isOnTape
    ? `"result":${replay(method, params, parts)}`
    : await record(text, parts);
  const body = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},${outcome}}`;
  const length = String(Buffer.byteLength(body));
  response.writeHead(200, ["Content-Type", "application/json", "Content-Length", length]);
  response.end(body);
}

function replay(method: string, params: unknown, parts: readonly string[] | null): string {
  if (parts === null) return recorded(JSON.stringify([method, params]));
  return `"0x${answerOf(parts.map(recorded))}"`;
}

function recorded(question: string): string {
  const answer = answers.get(question);
  if (answer === undefined) misses += 1;
  return answer ?? "null";
}

/** The member of the answer that says how the call went. A refusal is passed on and not kept. */
async function record(text: string, parts: readonly string[] | null): Promise<string> {
  const { method, params } = JSON.parse(text);
  const { result, error } = await ask(text);
  if (error !== undefined) return `"error":${JSON.stringify(error)}`;
  if (parts === null) answers.set(JSON.stringify([method, params]), JSON.stringify(result));
  else {
    const results = resultsOf(String(result).slice(2));
    for (const [index, part] of parts.entries()) answers.set(part, results[index] ?? "");
  }
  return `"result":${JSON.stringify(result)}`;
}

async function ask(text: string): Promise<{ readonly result?: unknown; readonly error?: unknown }> {
  const headers = { "content-type": "application/json" };
  const response = await fetch(nodeUrl, { method: "POST", headers, body: text });
  const body: unknown = await response.json();
  if (typeof body === "object" && body !== null && ("result" in body || "error" in body)) {
    return body;
  }
  throw new Error(`the node did not answer ${text}: ${JSON.stringify(body)}`);
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
