/** A backend of HTTP/2 over TLS, and the engine before it; all closed when the test ends. */
import {
  createSecureServer,
  type Http2SecureServer,
  type IncomingHttpHeaders,
  type ServerHttp2Session,
  type ServerHttp2Stream,
} from "node:http2";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { AUTHORITY, BACKEND_CERTIFICATE, BACKEND_KEY } from "../../support/upstream-tls.ts";
import { stage, type Stage } from "./stage.ts";

export const identity = { cert: BACKEND_CERTIFICATE, key: BACKEND_KEY };
export const tls = { ca: AUTHORITY, serverName: "api.internal" };

export type OnStream = (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => void;

export interface Target {
  readonly origin: string;
  readonly sessions: ServerHttp2Session[];
  readonly server: Http2SecureServer;
}

export async function target(onStream: OnStream): Promise<Target> {
  const server = createSecureServer(identity);
  const sessions: ServerHttp2Session[] = [];
  server.on("session", (session) => {
    sessions.push(session);
    session.on("error", () => {});
  });
  server.on("stream", (stream, headers) => {
    stream.on("error", () => {});
    onStream(stream, headers);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    for (const session of sessions) session.destroy();
    server.close();
  });
  return { origin: originOf(server), sessions, server };
}

export function originOf(server: { address(): AddressInfo | string | null }): string {
  const address = server.address();
  return `https://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
}

export function front(origin: string, passage: Parameters<typeof stage>[2] = {}): Promise<Stage> {
  return stage(origin, { protocol: "h2", tls }, passage);
}
