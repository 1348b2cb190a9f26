/**
 * The connections of one listener: how many may be open at a time, and which of them make room for new ones where
 * all are taken. Who only holds connections keeps nobody out: those on which nothing is under way go first, of an
 * address that has more than its share before those of others, and of them those that have been idle longest.
 */
import type { Socket } from "node:net";
import { networkOf } from "../client/ip-address.ts";

/** Of all connections, the part that one address (of IPv6: one /64) keeps where all are taken. */
const SHARE = 1 / 8;
/** Of all connections, the part that goes at once: to look for the longest idle costs as much as to end them. */
const ENDED_TOGETHER = 1 / 64;

export class Connection {
  readonly socket: Socket;
  /** Of the address at the other end; not that of a client behind a proxy. */
  readonly network: string;
  /** Of a listener no two connections have the same at a time. A socket forgets it when it is closed. */
  readonly peer: string;
  #underWay = 0;
  #idleSince = performance.now();

  constructor(socket: Socket) {
    this.socket = socket;
    this.network = networkOf(socket.remoteAddress ?? "");
    this.peer = peerOf(socket);
  }

  /** A request has come. */
  begin(): void {
    this.#underWay += 1;
  }

  /** Its answer is over, whole or not. */
  end(): void {
    this.#underWay -= 1;
    if (this.#underWay === 0) this.#idleSince = performance.now();
  }

  /** `performance.now()` of the end of the last answer, or of the beginning; undefined while something is under way. */
  get idleSince(): number | undefined {
    return this.#underWay === 0 ? this.#idleSince : undefined;
  }
}

export class ConnectionTable {
  readonly #most: number;
  readonly #open = new Map<Socket, Connection>();
  readonly #byNetwork = new Map<string, number>();
  /** Where TLS runs on them, by the sockets of TLS, too. */
  readonly #found = new WeakMap<Socket, Connection>();
  readonly #byPeer = new Map<string, Connection>();

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#open.size;
  }

  /** How many had to go for it; undefined where it could not be taken in, and is ended. */
  add(socket: Socket): number | undefined {
    const connection = new Connection(socket);
    const ended = this.#open.size < this.#most ? 0 : this.#makeRoom(connection.network);
    if (this.#open.size >= this.#most) {
      socket.destroy();
      return undefined;
    }
    this.#open.set(socket, connection);
    this.#found.set(socket, connection);
    this.#byPeer.set(connection.peer, connection);
    this.#count(connection.network, 1);
    socket.once("close", () => this.#remove(connection));
    return ended;
  }

  /** TLS runs on the connection of this socket. */
  secured(socket: Socket): void {
    const connection = this.#byPeer.get(peerOf(socket));
    if (connection !== undefined) this.#found.set(socket, connection);
  }

  /** By its own socket or that of TLS; undefined once it was ended. */
  of(socket: Socket): Connection | undefined {
    return this.#found.get(socket);
  }

  /** How many were ended. */
  #makeRoom(newcomer: string): number {
    const share = Math.max(1, Math.floor(this.#most * SHARE));
    const isOver = ({ network }: Connection): boolean => {
      const count = (this.#byNetwork.get(network) ?? 0) + (network === newcomer ? 1 : 0);
      return count > share;
    };
    const idle = [...this.#open.values()].flatMap((connection) => {
      const since = connection.idleSince;
      return since === undefined ? [] : [{ connection, since, isOver: isOver(connection) }];
    });
    idle.sort((a, b) => Number(b.isOver) - Number(a.isOver) || a.since - b.since);
    const leaving = idle.slice(0, Math.ceil(this.#most * ENDED_TOGETHER));
    for (const { connection } of leaving) {
      this.#remove(connection);
      connection.socket.destroy();
    }
    return leaving.length;
  }

  #remove(connection: Connection): void {
    if (!this.#open.delete(connection.socket)) return;
    if (this.#byPeer.get(connection.peer) === connection) this.#byPeer.delete(connection.peer);
    this.#count(connection.network, -1);
  }

  #count(network: string, change: 1 | -1): void {
    const count = (this.#byNetwork.get(network) ?? 0) + change;
    if (count > 0) this.#byNetwork.set(network, count);
    else this.#byNetwork.delete(network);
  }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}
