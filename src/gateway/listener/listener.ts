/**
 * A public listener: HTTP/1.1, and behind TLS HTTP/2 as well, with every timeout on, a limit on connections, and
 * a drain that ends by itself (protocol-independent limits of the front door).
 */
import type { HttpServer } from "./http-server.ts";
import type { AddressInfo, Socket } from "node:net";
import type { Logger } from "../../telemetry/logger.ts";
import type { Gateway } from "../gateway.ts";
import { isTunnel } from "../upstream/tunnels.ts";
import { boundConnections } from "./bounded-connections.ts";
import { ConnectionTable } from "./connection-table.ts";
import { breakOff } from "./answers-in-turn.ts";
import { createPlainServer, retireHttp1, serveHttp1, type Connections } from "./http1-server.ts";
import type { SecureOptions } from "./certified-server.ts";
import type { Redirect } from "./redirect.ts";
import { SecureServer } from "./secure-server.ts";

/**
 * Connections that the system has taken for us and that we have not yet, at the most; it takes no more than its own
 * limit (Linux: `net.core.somaxconn`, 4,096). Where a stranger opens more at once than fit, everybody's are dropped, and
 * tried again after 1 s, then 3 s; node's own is 511.
 */
const BACKLOG = 65_535;
/** While draining, connections that became idle are closed this often, milliseconds. */
const DRAIN_SWEEP_MS = 100;
/** Node does not close those on which nothing was ever asked: while draining, a client may be silent for so long, milliseconds. */
const SILENT_MS = 1_000;

export interface ListenerOptions {
  /** Null: every interface. */
  readonly host: string | null;
  readonly port: number;
  /** Largest request head, bytes. */
  readonly headerBytes: number;
  /**
   * From here on each answer is the last one of its connection, and says so: a client that is told to come
   * back elsewhere never sends into a connection that is just being closed.
   */
  readonly retiring?: AbortSignal;
  /** Other processes listen on the same address, and the system spreads the connections over all. */
  readonly reusePort?: boolean;
  /** Speaks TLS, with HTTP/2 for who knows it; null or none: HTTP/1.1 in the clear. */
  readonly tls?: SecureOptions | null;
  /** Answers whoever comes without TLS, in place of the gateway. */
  readonly redirect?: Redirect | undefined;
  /** At the same time; default: as many as the system allows. For a new one the longest idle are ended. */
  readonly maxConnections?: number;
  readonly logger?: Logger;
}

export class Listener {
  readonly #server: HttpServer;
  readonly #secure: SecureServer | null;
  readonly #options: ListenerOptions;
  readonly #connections: Connections;

  constructor(gateway: Gateway, options: ListenerOptions) {
    this.#options = options;
    const { headerBytes, retiring, tls = null, maxConnections = Infinity } = options;
    const upgraded = new Set<Socket>();
    const table = new ConnectionTable(maxConnections, () => {
      return [...gateway.work.placedSockets, ...[...upgraded].filter(isTunnel)];
    });
    this.#connections = { table, upgraded, old: new Set() };
    this.#secure = tls === null ? null : new SecureServer(gateway, headerBytes, { ...tls, table });
    this.#server = this.#secure?.server ?? createPlainServer(headerBytes);
    const { logger, host, port } = options;
    serveHttp1(this.#server, options.redirect ?? gateway, this.#connections);
    boundConnections(this.#server, { table, logger, facts: { host, port, maxConnections } });
    retiring?.addEventListener("abort", () => {
      retireHttp1(this.#server);
      this.#secure?.retire();
    });
  }

  /**
   * Resolves with the address once connections are accepted; rejects when it cannot be had. `taken`: the
   * {@link socket} of another process' listener, which goes on here with all that waits in it.
   */
  async open(taken?: object): Promise<AddressInfo> {
    await this.#secure?.open();
    return listen(this.#server, taken === undefined ? this.#options : { taken });
  }

  /** So many connections at the same time from now on. */
  limit(maxConnections: number): void {
    this.#connections.table.limit(maxConnections);
  }

  /** What listens, as node passes it to another process. */
  get socket(): unknown {
    return Reflect.get(this.#server, "_handle");
  }

  /**
   * Reads the files of the certificates now, rather than when their change is seen. False: some cannot be
   * served, which is logged with its reason, and the certificate before is still in use.
   */
  async reloadCertificate(): Promise<boolean> {
    return (await this.#secure?.reload()) ?? true;
  }

  /** See `CertifiedServer.tellTicketKeys`; nothing in the clear. */
  tellTicketKeys(keys: Buffer): void {
    this.#secure?.tellTicketKeys(keys);
  }

  /** Accepts nothing new and resolves when the last request is answered, or when the signal ends. */
  async drain(signal: AbortSignal): Promise<void> {
    const cut = (): void => {
      const { upgraded, old } = this.#connections;
      for (const socket of upgraded) socket.destroy();
      for (const socket of old) breakOff(socket);
      this.#secure?.destroy();
    };
    this.#secure?.close();
    signal.addEventListener("abort", cut, { once: true });
    if (signal.aborted) cut();
    const { table } = this.#connections;
    const sweep = setInterval(() => table.endIdle(SILENT_MS), DRAIN_SWEEP_MS);
    await drain(this.#server, signal);
    clearInterval(sweep);
    signal.removeEventListener("abort", cut);
    this.#secure?.destroy();
  }
}

/** Where a server listens; `host` null: on every interface. */
type Place =
  | { readonly host: string | null; readonly port: number; readonly reusePort?: boolean }
  | { readonly taken: object };

/** Opens any HTTP server of this process. */
export async function listen(server: HttpServer, place: Place): Promise<AddressInfo> {
  const opened = Promise.withResolvers<void>();
  server.once("error", opened.reject);
  if ("taken" in place) server.listen(place.taken, BACKLOG, opened.resolve);
  else {
    const { host, port, reusePort = false } = place;
    const where = { port, reusePort, backlog: BACKLOG, ...(host === null ? {} : { host }) };
    server.listen(where, opened.resolve);
  }
  await opened.promise;
  server.off("error", opened.reject);
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("not a TCP listener");
  return address;
}

/** Closes any HTTP server of this process: requests in flight may finish until the signal ends. */
export async function drain(server: HttpServer, signal: AbortSignal): Promise<void> {
  const closed = Promise.withResolvers<void>();
  server.close(() => closed.resolve());
  server.closeIdleConnections();
  const sweep = setInterval(() => server.closeIdleConnections(), DRAIN_SWEEP_MS);
  const giveUp = (): void => server.closeAllConnections();
  signal.addEventListener("abort", giveUp, { once: true });
  if (signal.aborted) giveUp();
  await closed.promise;
  clearInterval(sweep);
  signal.removeEventListener("abort", giveUp);
}
