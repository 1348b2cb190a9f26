/**
 * A JSON-RPC endpoint before a real node that stops being one when told to: what a facilitator sees of a
 * node that is down, overloaded, out of date or somebody else's.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { drain, listen } from "../../src/gateway/listener.ts";

export const NODE_FAULTS = [
  /** Connections break. */
  "unreachable",
  /** Answers every call with a JSON-RPC error. */
  "erring",
  /** HTTP status 429. */
  "overloaded",
  /** HTTP status 200 and a web page. */
  "a web page",
  /** Every call succeeds and returns nothing. */
  "empty-handed",
  /** Every simulation runs out of gas. */
  "out of gas",
  /** Simulates, and errs when asked for fees or account nonces. */
  "without fees",
  /** Another chain than the configured one, from the start. */
  "another chain",
  /** Connections break, from the start. */
  "never reached",
] as const;

export type NodeFault = (typeof NODE_FAULTS)[number];

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
    const parts: Buffer[] = [];
    for await (const part of request) if (Buffer.isBuffer(part)) parts.push(part);
    const body = Buffer.concat(parts).toString();
    const { id, method }: { id: unknown; method: string } = JSON.parse(body);
    const reply = (members: object): void => {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ jsonrpc: "2.0", id, ...members }));
    };
    const error = (message: string): void => reply({ error: { code: -32_000, message } });
    switch (node.fault) {
      case "unreachable":
      case "never reached":
        response.destroy();
        return;
      case "erring":
        return error("header not found");
      case "overloaded":
        response.writeHead(429).end("Too Many Requests");
        return;
      case "a web page":
        response.writeHead(200, { "content-type": "text/html" }).end("<h1>Welcome</h1>");
        return;
      case "empty-handed":
        return reply({ result: "0x" });
      case "out of gas":
        if (method === "eth_call") return error("out of gas");
        break;
      case "without fees":
        if (method !== "eth_call") return error("method not available");
        break;
      case "another chain":
        if (method === "eth_chainId") return reply({ result: "0x1" });
        break;
      default:
    }
    const real = await fetch(rpcUrl, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    response.setHeader("content-type", "application/json");
    response.end(await real.text());
  }

  return node;
}
