/** Node's HTTP/1.1 server, plain or behind TLS, with its strict parser and every timeout on. */
import type { HttpServer } from "./http-server.ts";
import {
  createServer,
  type IncomingMessage,
  type Server as PlainServer,
  type ServerResponse,
} from "node:http";
import type { Server as SecureServer } from "node:https";
import type { Socket } from "node:net";
import type { Gateway } from "../gateway.ts";
import { asksForWebSocket } from "../upstream/upgrade-engine.ts";
import { answerInTurn } from "./answers-in-turn.ts";
import type { ConnectionTable } from "./connection-table.ts";
import { MAX_HEADER_LINES } from "./http2-head.ts";

/** A request's head must be complete within this, milliseconds. */
export const HEAD_TIMEOUT_MS = 15_000;
/**
 * A whole request, body included, must be complete within this, milliseconds: no shorter than what a
 * configuration may allow for a body (`BodyWatch`), which is what ends those that stall or trickle.
 */
export const REQUEST_TIMEOUT_MS = 86_400_000;
/** Idle connections are kept longer than the usual load balancer's 60 s, so that it closes first. */
export const KEEP_ALIVE_MS = 75_000;
/** How often the timeouts above are looked at, milliseconds. */
export const SWEEP_MS = 5_000;

export type { SecureServer };

/** What all public servers have in common. */
export function serverOptions(headerBytes: number) {
  return {
    maxHeaderSize: headerBytes,
    headersTimeout: HEAD_TIMEOUT_MS,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_MS,
    connectionsCheckingInterval: SWEEP_MS,
    insecureHTTPParser: false,
    optimizeEmptyRequests: true,
    requireHostHeader: true,
    noDelay: true,
    // Other upgrades (h2c, which some HTTP clients offer with every request) are ignored, as RFC 9110
    // section 7.8 allows: the request is answered as if it had not asked.
    shouldUpgradeCallback: asksForWebSocket,
  };
}

export function createPlainServer(headerBytes: number): PlainServer {
  return createServer(serverOptions(headerBytes));
}

/** Connections that somebody has to end. */
export interface Connections {
  /** All of them. */
  readonly table: ConnectionTable;
  /** Node no longer counts them as connections of the server, though it waits for them. */
  readonly upgraded: Set<Socket>;
  /** An answer to HTTP/1.0 is under way. */
  readonly old: Set<Socket>;
}

/** Hands the server's requests to the gateway, and collects the connections that {@link Connections} names. */
export function serveHttp1(
  server: HttpServer,
  gateway: Pick<Gateway, "handleRequest" | "handleContinue" | "handleUpgrade">,
  connections: Connections,
): void {
  const { upgraded, table } = connections;
  const { handleRequest: serve, handleContinue: serveContinue } = gateway;
  server.maxHeadersCount = MAX_HEADER_LINES;
  answerInTurn(server, { serve, serveContinue }, connections);
  const upgrade = (request: IncomingMessage, socket: Socket, head: Buffer): void => {
    upgraded.add(socket);
    // It is over with its connection.
    table.of(socket)?.begin();
    socket.once("close", () => upgraded.delete(socket));
    gateway.handleUpgrade(request, socket, head);
  };
  server.on("upgrade", upgrade);
  server.on("connect", upgrade);
}

/** From here on each answer is the last one of its connection, and says so. */
export function retireHttp1(server: HttpServer): void {
  server.prependListener("request", retire);
  server.prependListener("checkContinue", retire);
  server.prependListener("checkExpectation", retire);
}

function retire(_request: IncomingMessage, response: ServerResponse): void {
  response.shouldKeepAlive = false;
}
