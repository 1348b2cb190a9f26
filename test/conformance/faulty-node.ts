/**
 * A JSON-RPC endpoint before a real node that stops being one when told to: what a facilitator sees of a
 * node that is down, overloaded, out of date or somebody else's.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text as readText } from "node:stream/consumers";
import { drain, listen } from "../../src/gateway/listener/listener.ts";

/** What is answered instead of the node's own answer: HTTP, JSON-RPC, or nothing at all. */
type Reply =
  | { readonly kind: "http"; readonly status: number; readonly text: string }
  | { readonly kind: "json"; readonly members: object }
  | { readonly kind: "broken connection" };

const BROKEN: Reply = { kind: "broken connection" };

/** By fault: the reply to a method, or undefined where the real node answers. */
const faults = {
  unreachable: () => BROKEN,
  "never reached": () => BROKEN,
  erring: () => error("header not found"),
  overloaded: () => ({ kind: "http", status: 429, text: "Too Many Requests" }),
  "a web page": () => ({ kind: "http", status: 200, text: "<h1>Welcome</h1>" }),
  /** Every call succeeds and returns nothing. */
  "empty-handed": () => result("0x"),
  "another chain": (method) => (method === "eth_chainId" ? result("0x1") : undefined),
  /** Every simulation runs out of gas. */
  "out of gas": (method) => (method === "eth_call" ? error("out of gas") : undefined),
  /** Simulates, and errs when asked for fees or account nonces. */
  "without fees": (method) => (method === "eth_call" ? undefined : error("not available")),
} satisfies Record<string, (method: string) => Reply | undefined>;

type NodeFault = keyof typeof faults;

export const NODE_FAULTS = Object.keys(faults) as NodeFault[];

export interface FaultyNode {
  readonly url: string;
  /** Undefined: the real node answers. */
  fault: NodeFault | undefined;
  close(): Promise<void>;
}

export async function startFaultyNode(rpcUrl: string): Promise<FaultyNode> {
  const server = createServer((request, response) => {
    // A facilitator that is closed meanwhile leaves calls behind that nobody waits for.
    answer(request, response).catch(() => response.destroy());
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  const node: FaultyNode = {
    url: `http://127.0.0.1:${port}`,
    fault: undefined,
    close: () => drain(server, AbortSignal.timeout(1_000)),
  };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readText(request);
    const { id, method }: { id: unknown; method: string } = JSON.parse(body);
    const reply = node.fault && faults[node.fault](method);
    switch (reply?.kind) {
      case "broken connection":
        response.destroy();
        return;
      case "http":
        response.writeHead(reply.status, { "content-type": "text/html" }).end(reply.text);
        return;
      case "json":
        response.end(JSON.stringify({ jsonrpc: "2.0", id, ...reply.members }));
        return;
      default: {
        const headers = { "content-type": "application/json" };
        const real = await fetch(rpcUrl, { method: "POST", headers, body });
        response.end(await real.text());
      }
    }
  }

  return node;
}

function error(message: string): Reply {
  return { kind: "json", members: { error: { code: -32_000, message } } };
}

function result(value: string): Reply {
  return { kind: "json", members: { result: value } };
}
