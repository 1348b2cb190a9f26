/** A gateway as a process, before a backend and a chain that note which trace they are asked for. */
import { createServer, type IncomingHttpHeaders } from "node:http";
import { buffer } from "node:stream/consumers";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import type { Chain } from "../../support/chain.ts";

export interface Noted extends AsyncDisposable {
  readonly url: string;
  /** Headers of each request, in their order. */
  readonly asked: readonly IncomingHttpHeaders[];
}

/** Answers everything with 200. */
export async function startBackend(): Promise<Noted> {
  return startNoting(async () => "fine");
}

/** A way to the chain. */
export async function startRpc(chain: Chain): Promise<Noted> {
  return startNoting(async (body) => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(chain.rpcUrl, {
      method: "POST",
      headers,
      body: new Uint8Array(body),
    });
    return answer.text();
  });
}

async function startNoting(answer: (body: Buffer) => Promise<string>): Promise<Noted> {
  const asked: IncomingHttpHeaders[] = [];
  const server = createServer((request, response) => {
    const take = async (): Promise<void> => {
      const body = await buffer(request);
      asked.push(request.headers);
      response.end(await answer(body));
    };
    void take();
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    [Symbol.asyncDispose]: () => drain(server, AbortSignal.timeout(1_000)),
  };
}

export interface Setting {
  readonly backend: Noted;
  readonly rpc: Noted;
  readonly payee: string;
  readonly workers?: number;
}

/** Wants the environment variable SIGNER. */
export function configOf({ backend, rpc, payee, workers = 1 }: Setting): string {
  return `
upstream: ${backend.url}
payTo: "${payee}"
accept: [base-sepolia]
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ["${rpc.url}"], signers: [env:SIGNER] }
unmatched: deny
workers: ${workers}
shutdown: 5s
logging: { level: debug }
routes:
  GET /weather: { price: $0.01, description: Weather }
  GET /health: free
`;
}

export const TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
export const CLIENT_SPAN_ID = "b7ad6b7169203331";
export const TRACE_PARENT = `00-${TRACE_ID}-${CLIENT_SPAN_ID}-01`;
