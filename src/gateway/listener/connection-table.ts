/**
 * The connections of one listener: how many may be open at a time, and which of them make room for new ones where
 * all are taken. Who only holds connections keeps nobody out: those on which nothing is under way go first, then those
 * where what is under way has no place (`room.ts`) and ought to be over, in each case of an address that has more than
 * its share before those of others, and of them those for which it has been so longest.
 */
import type { Socket } from "node:net";
import { Counts } from "../../fairness/counts.ts";
import { networkOf } from "../../http/ip-address.ts";
import type { InboundSocket } from "../message/inbound.ts";

/** Of all connections, the part that one address (of IPv6: one /64) keeps where all are taken. */
const SHARE = 1 / 8;
/** Of all connections, the part that goes at once: to look for the longest idle costs as much as to end them. */
const ENDED_TOGETHER = 1 / 64;

/** What needs no place is answered at once: a client may take so long to read that, milliseconds. */
export const UNPLACED_MS = 3_000;

/** Connections that one address has before further ones count as many. */
export const MANY = 16;

export class HeldConnection {
  readonly socket: Socket;
  /** Of the address at the other end; not that of a client behind a proxy. */
  readonly network: string;
  /** Those that its address had when it came. */
  readonly others: number;
  /** Since when each request is under way, the oldest first. */
  readonly #underWay: number[] = [];
  #idleSince = performance.now();

  constructor(socket: Socket, network: string, others: number) {
    this.socket = socket;
    this.network = network;
    this.others = others;
  }

  get isOneOfMany(): boolean {
    return this.others >= MANY;
  }

  /** A request has come: when; for {@link end}. */
  begin(): number {
    const since = performance.now();
    this.#underWay.push(since);
    return since;
  }

  /** The answer to the request that came then is over, whole or not. */
  end(since: number): void {
    const at = this.#underWay.indexOf(since);
    if (at === 0) this.#underWay.shift();
    else if (at !== -1) this.#underWay.splice(at, 1);
    if (this.isIdle) this.#idleSince = performance.now();
  }

  get isIdle(): boolean {
    return this.#underWay.length === 0;
  }

  /** Since when it is idle, or its oldest request is under way; `performance.now()`. */
  get since(): number {
    return this.#underWay[0] ?? this.#idleSince;
  }
}

export class ConnectionTable {
  #most: number;
  readonly #open = new Map<Socket, HeldConnection>();
  readonly #byNetwork = new Counts();
  /** Where TLS runs on them, by the sockets of TLS, too. */
  readonly #found = new WeakMap<object, HeldConnection>();
  readonly #placed: (() => readonly InboundSocket[]) | undefined;

  /** @param placed where requests have a place; default: each has one */
  constructor(most: number, placed?: () => readonly InboundSocket[]) {
    this.#most = most;
    this.#placed = placed;
  }

  /** So many from now on; those that are open beyond them stay. */
  limit(most: number): void {
    this.#most = most;
  }

  /** How many had to go for it; undefined where it could not be taken in, and is ended. */
  add(socket: Socket): number | undefined {
    const network = networkOf(socket.remoteAddress ?? "");
    const connection = new HeldConnection(socket, network, this.#byNetwork.of(network));
    const ended = this.#open.size < this.#most ? 0 : this.#makeRoom(connection.network);
    if (this.#open.size >= this.#most) {
      socket.destroy();
      return undefined;
    }
    this.#open.set(socket, connection);
    this.#found.set(socket, connection);
    this.#byNetwork.change(connection.network, 1);
    socket.once("close", () => this.#remove(connection));
    return ended;
  }

  /** TLS runs on the connection of that socket. */
  secured(secure: Socket, beneath: Socket | undefined): void {
    const connection = beneath && this.#found.get(beneath);
    if (connection !== undefined) this.#found.set(secure, connection);
  }

  /** By its own socket or that of TLS; undefined once it was ended. */
  of(socket: Socket): HeldConnection | undefined {
    return this.#found.get(socket);
  }

  /**
   * Ends those on which nothing has been under way for so long, milliseconds, one that was never asked anything among
   * them: some clients open one more as soon as another has ended, and wait with it.
   */
  endIdle(ms: number): void {
    const before = performance.now() - ms;
    for (const { isIdle, since, socket } of this.#open.values()) {
      if (isIdle && since < before) socket.destroy();
    }
  }

  /** How many were ended. */
  #makeRoom(newcomer: string): number {
    const share = Math.max(1, Math.floor(this.#most * SHARE));
    const isOver = ({ network }: HeldConnection): boolean => {
      return this.#byNetwork.of(network) + (network === newcomer ? 1 : 0) > share;
    };
    const leaving = this.#holding()
      .map((connection) => ({ connection, isOver: isOver(connection) }))
      .sort(
        (a, b) =>
          Number(b.connection.isIdle) - Number(a.connection.isIdle) ||
          Number(b.isOver) - Number(a.isOver) ||
          a.connection.since - b.connection.since,
      )
      .slice(0, Math.ceil(this.#most * ENDED_TOGETHER));
    for (const { connection } of leaving) {
      this.#remove(connection);
      connection.socket.destroy();
    }
    return leaving.length;
  }

  /** Those that are only held. */
  #holding(): readonly HeldConnection[] {
    const sockets = this.#placed?.();
    const placed = new Set(sockets?.map((socket) => this.#found.get(socket.beneath ?? socket)));
    const before = performance.now() - UNPLACED_MS;
    return [...this.#open.values()].filter((connection) => {
      if (connection.isIdle || sockets === undefined) return connection.isIdle;
      return connection.since < before && !placed.has(connection);
    });
  }

  #remove({ socket, network }: HeldConnection): void {
    if (this.#open.delete(socket)) this.#byNetwork.change(network, -1);
  }
}
