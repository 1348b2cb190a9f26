/**
 * Bounds the connections of a server: as many as its table takes, new ones in turns, and the operator is told where
 * all are taken.
 */
import type { Server, Socket } from "node:net";
import { Server as SecureServer } from "node:tls";
import type { Logger } from "../../telemetry/logger.ts";
import { Turns } from "../turns.ts";
import type { ConnectionTable } from "./connection-table.ts";

/** Pause before an operator is told again that all connections are taken, milliseconds. */
const FULL_PAUSE_MS = 60_000;

/**
 * Node takes one connection from the system in each turn of its event loop, the oldest first: who comes behind a
 * thousand others would wait for what each of them asks for. So they are taken, until no more come or for so long,
 * before the next few begin; milliseconds.
 */
const GATHER_MS = 10;

export interface BoundedOptions {
  readonly table: ConnectionTable;
  readonly logger?: Logger | undefined;
  /** For the log: where it listens, and how many connections it takes. */
  readonly facts: Readonly<Record<string, unknown>>;
}

/**
 * What node does with a new connection waits for its turn; until then nothing is read of it, since an end that is read
 * before anybody listens is never told. To be called when all else listens for connections.
 */
export function boundConnections(server: Server, options: BoundedOptions): void {
  const { table } = options;
  const tellFull = fullTeller(options);
  const turns = new Turns(GATHER_MS);
  const pause = (pauseOnConnect: boolean): void => {
    // Node's own option, which `http.createServer` takes for no option of its own.
    Object.assign(server, { pauseOnConnect });
  };
  pause(true);
  const listeners = server.listeners("connection");
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    const ended = table.add(socket);
    if (ended !== 0) tellFull(ended);
    const connection = table.of(socket);
    if (connection === undefined) return;
    // Nobody else listens yet.
    socket.on("error", ignore);
    turns.take(connection.others, () => {
      if (socket.destroyed) return;
      // TLS, which reads the socket itself, takes the same for what it reads.
      pause(false);
      for (const listener of listeners) listener.call(server, socket);
      pause(true);
      if (!(server instanceof SecureServer)) socket.resume();
      socket.off("error", ignore);
    });
  });
}

/** `ended`: idle ones that made room; undefined where there were none. */
function fullTeller({ logger, facts }: BoundedOptions): (ended: number | undefined) => void {
  let saysFullAt = Number.NEGATIVE_INFINITY;
  return (ended) => {
    const now = performance.now();
    if (now < saysFullAt) return;
    saysFullAt = now + FULL_PAUSE_MS;
    const said =
      ended === undefined
        ? "connections are turned away: as many as are allowed are open, with a request on each"
        : "as many connections as are allowed are open: the longest idle make room for new ones";
    logger?.warn({ ...facts, ended }, said);
  };
}

function ignore(): void {
  // The connection is destroyed, which is all that is to be done.
}
