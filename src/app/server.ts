/** The listeners beside the gateway's: small requests, with as many connections at a time as the gateway's may have. */
import type { HttpServer } from "../gateway/listener/http-server.ts";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Config, ListenAddress, ListenerTls } from "../config/config.ts";
import { keyPairFault } from "../config/facilitator/key-pair.ts";
import { answerInTurn } from "../gateway/listener/answers-in-turn.ts";
import { CertifiedServer } from "../gateway/listener/certified-server.ts";
import { boundConnections } from "../gateway/listener/bounded-connections.ts";
import { ConnectionTable } from "../gateway/listener/connection-table.ts";

import { drain, listen } from "../gateway/listener/listener.ts";
import { UNREAD_MS } from "../gateway/message/unread.ts";
import type { Logger } from "../telemetry/logger.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Time } from "../time/time.ts";

const TIMEOUTS = {
  headersTimeout: 15_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 5_000,
};

/** What all parts of one start share. */
export interface Parts {
  readonly config: Config;
  readonly telemetry: Telemetry;
  readonly time: Time;
  /** Closed last to first. */
  readonly closing: AsyncDisposableStack;
  /** Aborts when the time for a shutdown is up. */
  readonly patience: AbortSignal;
  /** Of the listeners that are opened here: what bounds their connections. */
  readonly tables: Set<ConnectionTable>;
}

/** Resolves with the address once it listens; with null where none is configured. */
export async function openServer(
  { closing, patience, config, telemetry, tables }: Parts,
  address: (ListenAddress & { readonly tls?: ListenerTls | null }) | null,
  handler: RequestListener,
): Promise<AddressInfo | null> {
  if (address === null) return null;
  const http = { maxHeaderSize: config.limits.headerBytes, ...TIMEOUTS };
  const { tls = null } = address;
  const told = { ...address, logger: telemetry.logger, tables };
  const bound = boundTo(config.limits.connections, told);
  if (tls === null) {
    const server = createServer(http);
    bound(server, handler);
    const opened = await listen(server, address);
    closing.defer(() => drain(server, patience));
    return opened;
  }
  const { logger, metrics } = telemetry;
  const onUsed = (file: string, ms: number): void => metrics.configuration.certificate(file, ms);
  const secure = new CertifiedServer(http, { ...tls, judge: keyPairFault, logger, onUsed });
  const { server } = secure;
  const table = bound(server, handler);
  server.prependListener("secureConnection", (socket) => {
    table.secured(socket, secure.beneath(socket));
  });
  const cut = (): void => secure.destroy();
  closing.defer(cut);
  await secure.open();
  const opened = await listen(server, address);
  closing.defer(async () => {
    patience.addEventListener("abort", cut, { once: true });
    if (patience.aborted) cut();
    await drain(server, patience);
    patience.removeEventListener("abort", cut);
  });
  return opened;
}

/** What hands requests to their handler, on so many connections at a time. Those stay on which one is to be answered. */
function boundTo(
  maxConnections: number,
  {
    host,
    port,
    logger,
    tables,
  }: Pick<ListenAddress, "host" | "port"> & Pick<Parts, "tables"> & { readonly logger: Logger },
): (server: HttpServer, handler: RequestListener) => ConnectionTable {
  return (server, handler) => {
    const underWay = new Set<ServerResponse>();
    const table = new ConnectionTable(maxConnections, () => {
      return [...underWay].flatMap(({ req, writableEnded }) => (writableEnded ? [] : req.socket));
    });
    tables.add(table);
    const serve: RequestListener = (request, response) => {
      underWay.add(response);
      response.once("close", () => underWay.delete(response));
      handler(request, response);
    };
    answerInTurn(server, { serve }, { table });
    server.timeout = UNREAD_MS;
    boundConnections(server, { table, logger, facts: { host, port, maxConnections } });
    return table;
  };
}
