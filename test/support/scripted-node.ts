/**
 * A JSON-RPC endpoint that answers what a test tells it to, over real HTTP: for the answers that a real
 * node gives too rarely to wait for.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

export interface RpcQuestion {
  readonly id: unknown;
  readonly method: string;
  readonly params: readonly unknown[];
}

/** What to answer: a result, a JSON-RPC error, or anything else by hand. */
export type RpcReply =
  | { readonly result: unknown }
  | { readonly error: { readonly code: number; readonly message: string; readonly data?: unknown } }
  | { readonly raw: (response: ServerResponse, request: IncomingMessage) => void };

export interface ScriptedNode {
  /** `http://127.0.0.1:port` */
  readonly url: string;
  /** Every question asked so far. */
  readonly questions: readonly RpcQuestion[];
  /** Connections accepted so far. */
  readonly connections: () => number;
  close(): Promise<void>;
}

export async function startScriptedNode(
  answer: (question: RpcQuestion, request: IncomingMessage) => RpcReply,
): Promise<ScriptedNode> {
  const questions: RpcQuestion[] = [];
  let connections = 0;
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const question = JSON.parse(Buffer.concat(chunks).toString("utf8")) as RpcQuestion;
      questions.push(question);
      const reply = answer(question, request);
      if ("raw" in reply) return reply.raw(response, request);
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ jsonrpc: "2.0", id: question.id, ...reply }));
    });
  });
  server.on("connection", () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    questions,
    connections: () => connections,
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => {
        server.close(() => resolve());
      });
    },
  };
}
