/** A handler of web requests (fetch) behind node's HTTP server: what the official adapters do, as far as the stage needs it. */
import type { IncomingMessage, RequestListener, ServerResponse } from "node:http";

/** Answers 500 where the handler throws; the request's signal aborts as its client leaves. */
export function webListener(handle: (request: Request) => Promise<Response>): RequestListener {
  return (request, response) => {
    void answer(handle, request, response).catch(() => {
      if (response.headersSent) response.destroy();
      else response.writeHead(500).end();
    });
  };
}

async function answer(
  handle: (request: Request) => Promise<Response>,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const left = new AbortController();
  response.on("close", () => left.abort());
  const body: Buffer[] = [];
  for await (const part of request) body.push(part);
  const { method = "GET", url = "/", headers } = request;
  const lines = Object.entries(headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, String(value)]],
  );
  const answered = await handle(
    new Request(new URL(url, `http://${headers.host ?? "localhost"}`), {
      method,
      headers: lines,
      signal: left.signal,
      ...(body.length > 0 && { body: Buffer.concat(body) }),
    }),
  );
  response.writeHead(answered.status, Object.fromEntries(answered.headers));
  response.flushHeaders();
  if (answered.body === null) {
    response.end();
    return;
  }
  const reader = answered.body.getReader();
  left.signal.addEventListener("abort", () => void reader.cancel().catch(() => undefined));
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    response.write(value);
  }
  response.end();
}
