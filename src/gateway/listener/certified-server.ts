/**
 * Node's HTTP/1.1 server behind TLS, whose certificates come from files and change while connections live. It is
 * what the public listener shares HTTP/2 with (`secure-server.ts`), and all that the facilitator's needs.
 */
import { createServer, type Server, type ServerOptions } from "node:https";
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";
import type { HeldCertificates } from "./held-certificates.ts";
import { runsOn } from "../message/reset.ts";
import { FileCertificates, type FileOptions } from "./file-certificates.ts";
import { TicketKeys } from "./ticket-keys.ts";
import { secureContext, tlsOptions, type KeyPair } from "./tls.ts";

/** Its certificates: files, or what it is told. */
export type SecureOptions = TicketOptions & (FileOptions | { readonly held: HeldCertificates });

interface TicketOptions {
  /**
   * 48 bytes that processes on one address share, so that each takes up the sessions that another agreed on.
   * They are replaced by {@link CertifiedServer.tellTicketKeys}. None: those of this server alone, which it replaces.
   */
  readonly ticketKeys?: Buffer;
}

export class CertifiedServer {
  readonly server: Server;
  /** Null: it is told its certificates. */
  readonly #files: FileCertificates | null;
  readonly #tickets: TicketKeys;
  /** What is beneath TLS, by its two ends. */
  readonly #sockets = new Map<string, Socket>();

  /** @param http may name other protocols (`ALPNProtocols`) than HTTP/1 */
  constructor(http: ServerOptions, options: SecureOptions) {
    this.#tickets = new TicketKeys(options.ticketKeys, (keys) => this.server.setTicketKeys(keys));
    const use = (pair: KeyPair): void => {
      this.server.setSecureContext(secureContext(pair, this.#tickets.now));
    };
    const held = "held" in options ? options.held : null;
    this.#files = "held" in options ? null : new FileCertificates(options, use);
    const named = held ?? (this.#files?.isOne === false ? this.#files : null);
    const byName = named === null ? {} : { SNICallback: namedBy(named) };
    this.server = createServer({ ...tlsOptions(this.#tickets.now), ...http, ...byName });
    if (held !== null) {
      divertConnections(this.server, held);
      held.onFirst(use);
    }
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

  /** Reads the certificates; rejects with a sentence for the operator where one cannot be served. */
  async open(): Promise<void> {
    await this.#files?.open();
  }

  /** Reads the certificates again. False: one cannot be served, and the one before it is still in use. */
  async reload(): Promise<boolean> {
    return (await this.#files?.reload()) ?? true;
  }

  /** New sessions are sealed with these, and those before are not taken up again. */
  tellTicketKeys(keys: Buffer): void {
    this.#tickets.replace(keys);
  }

  /** The socket that a TLS one runs on; undefined once that is closed. */
  beneath(secure: TLSSocket): Socket | undefined {
    return this.#sockets.get(nameOf(secure));
  }

  /** Looks after the certificates no more. */
  close(): void {
    this.#tickets.close();
    this.#files?.close();
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

type SniCallback = NonNullable<ServerOptions["SNICallback"]>;

function namedBy(certificates: Pick<HeldCertificates, "of">): SniCallback {
  return (name, done) => done(null, certificates.of(name));
}

/** Node's server begins the handshake as soon as it hears of a connection. */
function divertConnections(server: Server, held: HeldCertificates): void {
  const handlers = server.listeners("connection");
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    held.divert(socket, () => {
      for (const handle of handlers) Reflect.apply(handle, server, [socket]);
    });
  });
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
