/**
 * A facilitator's REST interface that answers what a test tells it to, over real HTTP: for the answers of
 * other implementations, and for those that no part of ours can be made to give.
 */
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import { drain, listen } from "../../src/gateway/listener/listener.ts";

export interface FacilitatorCall {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A status with a body (an object is sent as JSON), or anything else by hand. */
export type FacilitatorReply =
  | { readonly status: number; readonly body?: object | string; readonly location?: string }
  | { readonly raw: (response: ServerResponse) => void };

export interface ScriptedFacilitator {
  /** `http://127.0.0.1:port` */
  readonly url: string;
  /** Every call so far. */
  readonly calls: readonly FacilitatorCall[];
  /** How often a path was called. */
  count(path: string): number;
  /** Whoever is connected loses the connection; whoever connects later is refused. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

/** One that is there, for shops in which nobody pays: where it is gone they ask for nothing. */
export function startIdleFacilitator(): Promise<ScriptedFacilitator> {
  return startScriptedFacilitator(() => ({ status: 200, body: { kinds: [] } }));
}

/** Opens it; `wantedPort` 0 takes a free one. */
export async function startScriptedFacilitator(
  answer: (call: FacilitatorCall) => FacilitatorReply,
  wantedPort = 0,
): Promise<ScriptedFacilitator> {
  const calls: FacilitatorCall[] = [];
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const { method = "", url = "", headers } = request;
      const call = { method, url, headers, body: Buffer.concat(parts).toString("utf8") };
      calls.push(call);
      send(response, answer(call));
    });
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: wantedPort });
  const close = (): Promise<void> =>
    server.listening ? drain(server, AbortSignal.abort()) : Promise.resolve();
  return {
    url: `http://127.0.0.1:${port}`,
    calls,
    count: (path) => calls.filter(({ url }) => url === path).length,
    close,
    [Symbol.asyncDispose]: close,
  };
}

function send(response: ServerResponse, reply: FacilitatorReply): void {
  if ("raw" in reply) {
    reply.raw(response);
    return;
  }
  const { status, body = "", location } = reply;
  response.writeHead(status, {
    "Content-Type": "application/json",
    ...(location === undefined ? {} : { Location: location }),
  });
  response.end(typeof body === "string" ? body : JSON.stringify(body));
}
