/**
 * The TLS side of a listener: one server that agrees on the protocol (ALPN) with each client, hands HTTP/1.1
 * connections to node's own handling and HTTP/2 ones to `http2-sessions.ts`, and changes its certificate while
 * connections live.
 */
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { Gateway } from "../gateway.ts";
import { CertificateFiles, type CertificateOptions } from "./certificate-files.ts";
import {
  createTlsServer,
  HEAD_TIMEOUT_MS,
  KEEP_ALIVE_MS,
  REQUEST_TIMEOUT_MS,
  SWEEP_MS,
  type SecureServer as Server,
} from "./http1-server.ts";
import { Http2Sessions } from "./http2-sessions.ts";
import { secureContext, tlsOptions } from "./tls.ts";

export interface SecureOptions extends CertificateOptions {
  /**
   * 48 bytes that processes on one address share, so that each takes up the sessions that another agreed on.
   * None: those of this process alone.
   */
  readonly ticketKeys?: Buffer;
}

export class SecureServer {
  readonly server: Server;
  readonly #sessions: Http2Sessions;
  readonly #certificate: CertificateFiles;
  /** What is beneath TLS, by its two ends. */
  readonly #sockets = new Map<string, Socket>();

  constructor(gateway: Gateway, headerBytes: number, options: SecureOptions) {
    const { ticketKeys } = options;
    const tickets = ticketKeys === undefined ? {} : { ticketKeys };
    this.server = createTlsServer(headerBytes, tlsOptions(tickets));
    this.#certificate = new CertificateFiles(options, (pair) => {
      this.server.setSecureContext(secureContext(pair, tickets));
    });
    this.#sessions = new Http2Sessions(gateway, {
      headerBytes,
      headMs: HEAD_TIMEOUT_MS,
      requestMs: REQUEST_TIMEOUT_MS,
      idleMs: KEEP_ALIVE_MS,
      sweepMs: SWEEP_MS,
    });
    this.server.on("connection", (socket: Socket) => {
      const name = nameOf(socket);
      this.#sockets.set(name, socket);
      socket.once("close", () => {
        if (this.#sockets.get(name) === socket) this.#sockets.delete(name);
      });
    });
    this.#shareConnections();
  }

  /** Reads the certificate; rejects with a sentence for the operator where it cannot be served. */
  open(): Promise<void> {
    return this.#certificate.open();
  }

  /** Reads the certificate again. False: it cannot be served, and the one before is still in use. */
  reload(): Promise<boolean> {
    return this.#certificate.reload();
  }

  retire(): void {
    this.#sessions.retire();
  }

  /** Ends each HTTP/2 connection once its requests are answered. */
  close(): void {
    this.#certificate.close();
    this.#sessions.close();
  }

  /** Cuts whatever is left. */
  destroy(): void {
    this.#certificate.close();
    this.#sessions.destroy();
    for (const socket of this.#sockets.values()) socket.destroy();
  }

  /** Node's listener takes every connection for HTTP/1.1. */
  #shareConnections(): void {
    const { server } = this;
    const handlers = server.listeners("secureConnection");
    server.removeAllListeners("secureConnection");
    server.on("secureConnection", (socket: TLSSocket) => {
      makeResettable(socket, this.#sockets.get(nameOf(socket)));
      if (socket.alpnProtocol === "h2") this.#sessions.accept(socket);
      else for (const handle of handlers) Reflect.apply(handle, server, [socket]);
    });
  }
}

/** One connection at a time has these two ends. */
function nameOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}

/**
 * Node resets no TLS connection. To destroy one is to end it without `close_notify`, which many clients
 * take for an end like any other.
 */
function makeResettable(secure: TLSSocket, beneath: Socket | undefined): void {
  secure.resetAndDestroy = () => {
    beneath?.resetAndDestroy();
    return secure.destroy();
  };
}
