/**
 * How a connection of HTTP/1.1 ends whose client still sends. To close on bytes that nobody has read is a reset, which
 * overtakes the answer (RFC 9112 section 9.6): the client learns nothing but that its connection broke. So only our side
 * ends at first, and what still comes is thrown away, for a while and up to a bound. A stranger may send as much as he
 * likes: it is read in turns, a piece each, those of addresses that send most behind the others, and where too many do
 * they make room. To whoever has to make room for connections (`connection-table.ts`) such a one is idle.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Server, Socket } from "node:net";
import { Counts } from "../../fairness/counts.ts";
import { networkOf } from "../../http/ip-address.ts";
import type { Bagged } from "../message/bag.ts";
import { Sweep } from "../message/sweep.ts";
import { Turns } from "../turns.ts";

/** Of one connection, bytes: many clients read no answer before they have sent all, and uploads of 40 MiB are sold. */
export const MOST_BYTES = 64 * 1024 * 1024;
/** The longest, milliseconds, and the longest in which nothing comes. */
export const MOST_MS = 120_000;
export const SILENT_MS = 5_000;
/** The longest once the server is closed and waits for its connections to end, milliseconds. */
export const MOST_CLOSED_MS = 1_000;
/** Connections at the same time: each may have two pieces of 64 KiB in memory. */
export const MOST = 256;

const NOTHING = new Uint8Array();

interface Lingerer extends Bagged {
  readonly socket: Socket;
  readonly network: string;
  readonly since: number;
  heardAt: number;
}

export class Lingering {
  readonly #sweep = new Sweep<Lingerer>((lingerer, now) => this.#look(lingerer, now));
  readonly #turns = new Turns();
  readonly #counts = new Counts();
  readonly #server: Server;

  constructor(server: Server) {
    this.#server = server;
  }

  /** For a request with a body, before it is answered. */
  await({ socket, complete }: IncomingMessage, response: ServerResponse): void {
    if (complete) return;
    // Ahead of node's own listener, which closes the connection.
    response.prependListener("finish", () => {
      const isLast = Reflect.get(response, "_last") === true;
      if (isLast && !response.req.complete && !socket.destroyed) this.#begin(socket);
    });
  }

  #begin(socket: Socket): void {
    if (this.#sweep.size >= MOST) this.#makeRoom();
    const network = networkOf(socket.remoteAddress ?? "");
    const { now } = this.#sweep;
    const lingerer: Lingerer = { socket, network, since: now, heardAt: now, at: -1 };
    this.#sweep.add(lingerer);
    this.#counts.change(network, 1);
    socket.once("close", () => {
      this.#sweep.delete(lingerer);
      this.#counts.change(network, -1);
    });
    // Node closes by this, and again where the client ends its side in the middle of what it sends.
    socket.destroySoon = () => {
      socket.destroySoon = () => socket.destroy();
      socket.end();
    };
    // What comes is no request any more: nobody reads it as one.
    socket.removeAllListeners("data");
    const { bytesRead } = socket;
    socket.on("data", () => {
      lingerer.heardAt = this.#sweep.now;
      if (socket.bytesRead - bytesRead > MOST_BYTES) socket.destroy();
      socket.pause();
      this.#turns.take(this.#counts.of(network) - 1, () => void socket.resume());
    });
    // What node had stopped reading for the request's sake waits for no read of its own: nothing is what came of that.
    socket.push(NOTHING);
    socket.resume();
  }

  /** Of those of whom there are most the one that has lingered longest goes. */
  #makeRoom(): void {
    const [first] = this.#sweep.all.toSorted((one, other) => {
      const more = this.#counts.of(other.network) - this.#counts.of(one.network);
      return more || one.since - other.since;
    });
    first?.socket.destroy();
  }

  #look({ socket, since, heardAt }: Lingerer, now: number): boolean {
    const mostMs = this.#server.listening ? MOST_MS : MOST_CLOSED_MS;
    const isOver = now - since > mostMs || now - heardAt > SILENT_MS;
    if (isOver) socket.destroy();
    return !isOver;
  }
}
