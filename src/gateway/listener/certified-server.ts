/**
 * Node's HTTP/1.1 server behind TLS, whose certificate comes from files and changes while connections live. It is
 * what the public listener shares HTTP/2 with (`secure-server.ts`), and all that the facilitator's needs.
 */
import { createServer, type Server, type ServerOptions } from "node:https";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import { runsOn } from "../message/reset.ts";
import { CertificateFiles, type CertificateOptions } from "./certificate-files.ts";
import { TicketKeys } from "./ticket-keys.ts";
import { secureContext, tlsOptions } from "./tls.ts";

export interface SecureOptions extends CertificateOptions {
  /**
   * 48 bytes that processes on one address share, so that each takes up the sessions that another agreed on.
   * They are replaced by {@link CertifiedServer.tellTicketKeys}. None: those of this server alone, which it replaces.
   */
  readonly ticketKeys?: Buffer;
}

export class CertifiedServer {
  readonly server: Server;
  readonly #certificate: CertificateFiles;
  readonly #tickets: TicketKeys;
  /** What is beneath TLS, by its two ends. */
  readonly #sockets = new Map<string, Socket>();

  /** @param http may name other protocols (`ALPNProtocols`) than HTTP/1 */
  constructor(http: ServerOptions, options: SecureOptions) {
    this.#tickets = new TicketKeys(options.ticketKeys, (keys) => this.server.setTicketKeys(keys));
    this.server = createServer({ ...tlsOptions(this.#tickets.now), ...http });
    this.#certificate = new CertificateFiles(options, (pair) => {
      this.server.setSecureContext(secureContext(pair, this.#tickets.now));
    });
    // Node would answer a failed handshake with HTTP in the clear; there is no request to answer.
    this.server.removeAllListeners("tlsClientError");
    this.server.on("tlsClientError", (_error, socket) => socket.destroy());
    this.server.on("connection", (socket: Socket) => this.#note(socket));
    this.server.prependListener("secureConnection", (socket: TLSSocket) => {
      const beneath = this.beneath(socket);
      makeResettable(socket, beneath);
      if (beneath !== undefined) runsOn(socket, beneath);
    });
  }

  /** Reads the certificate; rejects with a sentence for the operator where it cannot be served. */
  open(): Promise<void> {
    return this.#certificate.open();
  }

  /** Reads the certificate again. False: it cannot be served, and the one before is still in use. */
  reload(): Promise<boolean> {
    return this.#certificate.reload();
  }

  /** New sessions are sealed with these, and those before are not taken up again. */
  tellTicketKeys(keys: Buffer): void {
    this.#tickets.replace(keys);
  }

  /** The socket that a TLS one runs on; undefined once that is closed. */
  beneath(secure: TLSSocket): Socket | undefined {
    return this.#sockets.get(nameOf(secure));
  }

  /** Looks after the certificate no more. */
  close(): void {
    this.#tickets.close();
    this.#certificate.close();
  }

  /** Cuts whatever is left, handshakes among it. */
  destroy(): void {
    this.close();
    for (const socket of this.#sockets.values()) socket.destroy();
  }

  #note(socket: Socket): void {
    const name = nameOf(socket);
    this.#sockets.set(name, socket);
    socket.once("close", () => {
      if (this.#sockets.get(name) === socket) this.#sockets.delete(name);
    });
  }
}

/** One connection at a time has these two ends. */
function nameOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}

/**
 * Node resets no TLS connection. To destroy one is to end it without `close_notify`, which many clients take for
 * an end like any other.
 */
function makeResettable(secure: TLSSocket, beneath: Socket | undefined): void {
  secure.resetAndDestroy = () => {
    beneath?.resetAndDestroy();
    return secure.destroy();
  };
}
