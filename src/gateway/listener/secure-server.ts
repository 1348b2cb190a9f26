/**
 * The TLS side of a public listener: one server that agrees on the protocol (ALPN) with each client, and hands
 * HTTP/1.1 connections to node's own handling and HTTP/2 ones to `http2-sessions.ts`.
 */
import type { TLSSocket } from "node:tls";
import type { Gateway } from "../gateway.ts";
import type { ConnectionTable } from "./connection-table.ts";
import { CertifiedServer, type SecureOptions } from "./certified-server.ts";
import {
  HEAD_TIMEOUT_MS,
  KEEP_ALIVE_MS,
  REQUEST_TIMEOUT_MS,
  serverOptions,
  SWEEP_MS,
  type SecureServer as Server,
} from "./http1-server.ts";
import { Http2Sessions } from "./http2-sessions.ts";
import { BOTH_PROTOCOLS } from "./tls.ts";

export class SecureServer {
  readonly server: Server;
  readonly #certified: CertifiedServer;
  readonly #sessions: Http2Sessions;

  constructor(
    gateway: Gateway,
    headerBytes: number,
    { table, ...options }: SecureOptions & { readonly table: ConnectionTable },
  ) {
    const http = { ...serverOptions(headerBytes), ALPNProtocols: BOTH_PROTOCOLS };
    this.#certified = new CertifiedServer(http, options);
    this.server = this.#certified.server;
    this.#sessions = new Http2Sessions(gateway, {
      headerBytes,
      headMs: HEAD_TIMEOUT_MS,
      requestMs: REQUEST_TIMEOUT_MS,
      idleMs: KEEP_ALIVE_MS,
      sweepMs: SWEEP_MS,
    });
    this.#shareConnections(table);
  }

  /** Reads the certificates; rejects with a sentence for the operator where one cannot be served. */
  open(): Promise<void> {
    return this.#certified.open();
  }

  /** Reads the certificates again. False: one cannot be served, and the one before it is still in use. */
  reload(): Promise<boolean> {
    return this.#certified.reload();
  }

  /** See {@link CertifiedServer.tellTicketKeys}. */
  tellTicketKeys(keys: Buffer): void {
    this.#certified.tellTicketKeys(keys);
  }

  retire(): void {
    this.#sessions.retire();
  }

  /** Ends each HTTP/2 connection once its requests are answered. */
  close(): void {
    this.#certified.close();
    this.#sessions.close();
  }

  /** Cuts whatever is left. */
  destroy(): void {
    this.#sessions.destroy();
    this.#certified.destroy();
  }

  /** Node's listener takes every connection for HTTP/1.1. */
  #shareConnections(table: ConnectionTable): void {
    const { server } = this;
    const handlers = server.listeners("secureConnection");
    server.removeAllListeners("secureConnection");
    server.on("secureConnection", (socket: TLSSocket) => {
      table.secured(socket, this.#certified.beneath(socket));
      if (socket.alpnProtocol === "h2") this.#sessions.accept(socket, table.of(socket));
      else for (const handle of handlers) Reflect.apply(handle, server, [socket]);
    });
  }
}
