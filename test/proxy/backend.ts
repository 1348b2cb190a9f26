/**
 * A backend of bytes: each path answers with exactly what its case says, and what arrives is kept as it
 * came. It can listen on several ports at once, as the targets of one upstream do.
 */
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { MessageReader, valueOf, type Head, type Message } from "./wire.ts";

/** One request, and the connection that it came on. */
export interface Turn {
  readonly head: Head;
  readonly socket: Socket;
  /** Resolves with the whole request; rejects when the connection ends before it is one. */
  readonly whole: Promise<Message>;
  /** Latin-1 text or bytes; false when the socket's buffer is full. */
  readonly write: (bytes: string | Buffer) => boolean;
  /** What arrives from here on is no HTTP: nobody but the script reads it. */
  readonly takeOver: () => Socket;
}

/** Called with the head of a request: most wait for the whole of it. */
export type Script = (turn: Turn) => void | Promise<void>;

export interface Seen {
  readonly requests: readonly Message[];
  /** Resolves when so many whole requests have come for this path. */
  until(count: number): Promise<readonly Message[]>;
}

interface Play {
  readonly script: Script;
  readonly requests: Message[];
  readonly waiting: { readonly count: number; readonly resolve: () => void }[];
}

export class Backend implements AsyncDisposable {
  readonly ports: readonly number[];
  readonly #servers: readonly Server[];
  readonly #plays: Map<string, Play>;
  readonly #sockets: Set<Socket>;
  readonly #faults: string[];

  private constructor(
    servers: readonly Server[],
    state: { plays: Map<string, Play>; sockets: Set<Socket>; faults: string[] },
  ) {
    this.#servers = servers;
    this.ports = servers.map((server) => portOf(server));
    this.#plays = state.plays;
    this.#sockets = state.sockets;
    this.#faults = state.faults;
  }

  static async open(count = 1): Promise<Backend> {
    const state = { plays: new Map<string, Play>(), sockets: new Set<Socket>(), faults: [] };
    const servers: Server[] = [];
    for (let index = 0; index < count; index += 1) {
      const server = createServer({ allowHalfOpen: true, noDelay: true });
      server.on("connection", (socket: Socket) => {
        state.sockets.add(socket);
        socket.once("close", () => state.sockets.delete(socket));
        void new Connection(socket, state.plays, state.faults);
      });
      await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
      servers.push(server);
    }
    return new Backend(servers, state);
  }

  /** Bytes that were no request, and requests that no case had announced. */
  get faults(): readonly string[] {
    return this.#faults;
  }

  get connections(): number {
    return this.#sockets.size;
  }

  /** From here on, requests for this path (its query aside) are answered by the script. */
  play(path: string, script: Script): Seen {
    const play: Play = { script, requests: [], waiting: [] };
    this.#plays.set(path, play);
    return {
      requests: play.requests,
      until: async (count) => {
        if (play.requests.length < count) {
          await new Promise<void>((resolve) => {
            play.waiting.push({ count, resolve });
          });
        }
        return play.requests;
      },
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    for (const server of this.#servers) {
      await new Promise<void>((resolve) => void server.close(() => resolve()));
    }
  }
}

function portOf(server: Server): number {
  const address = server.address() as AddressInfo;
  return address.port;
}

/** One connection: requests are read one after another and answered by their scripts. */
class Connection {
  readonly #socket: Socket;
  readonly #plays: ReadonlyMap<string, Play>;
  readonly #faults: string[];
  readonly #reader: MessageReader;
  #arriving: { readonly play: Play; readonly whole: PromiseWithResolvers<Message> } | undefined;
  /** Scripts that are not done: a client that sends no more may still get its answer. */
  #active = 0;
  #isHalfClosed = false;

  constructor(socket: Socket, plays: ReadonlyMap<string, Play>, faults: string[]) {
    this.#socket = socket;
    this.#plays = plays;
    this.#faults = faults;
    this.#reader = new MessageReader({
      kind: "request",
      onHead: (head) => this.#begin(head),
      onMessage: (message) => this.#finish(message),
    });
    socket.on("data", this.#onData);
    socket.on("error", () => socket.destroy());
    socket.on("end", () => {
      this.#isHalfClosed = true;
      this.#endWhenIdle();
    });
    socket.on("close", () => {
      this.#arriving?.whole.reject(new Error("the connection has ended"));
    });
  }

  readonly #onData = (chunk: Buffer): void => {
    try {
      this.#reader.push(chunk);
    } catch (error) {
      this.#faults.push(String(error));
      this.#socket.destroy();
    }
  };

  #begin(head: Head): void {
    const play = this.#plays.get(pathOf(head));
    if (play === undefined) {
      this.#faults.push(`nobody asked for ${head.startLine}`);
      this.#socket.destroy();
      return;
    }
    const socket = this.#socket;
    const whole = Promise.withResolvers<Message>();
    whole.promise.catch(() => undefined);
    this.#arriving = { play, whole };
    const write = (bytes: string | Buffer): boolean =>
      typeof bytes === "string" ? socket.write(bytes, "latin1") : socket.write(bytes);
    if (/^100-continue$/i.test(valueOf(head.lines, "expect") ?? "")) {
      write("HTTP/1.1 100 Continue\r\n\r\n");
    }
    const takeOver = (): Socket => socket.off("data", this.#onData);
    void this.#run(play.script, { head, socket, whole: whole.promise, write, takeOver });
  }

  async #run(script: Script, turn: Turn): Promise<void> {
    this.#active += 1;
    try {
      await script(turn);
    } catch {
      // A script that waits for a whole request ends so when there is none.
    }
    this.#active -= 1;
    if (this.#isHalfClosed) this.#endWhenIdle();
  }

  #endWhenIdle(): void {
    if (this.#active === 0) this.#socket.end();
  }

  #finish(message: Message): void {
    const done = this.#arriving;
    if (done === undefined) return;
    this.#arriving = undefined;
    const { requests, waiting } = done.play;
    requests.push(message);
    for (const { count, resolve } of waiting) if (count <= requests.length) resolve();
    done.whole.resolve(message);
  }
}

/** Resolves when the other side has ended or broken the connection. */
export function gone(socket: Socket): Promise<void> {
  return new Promise((resolve) => {
    if (socket.destroyed || socket.readableEnded) resolve();
    socket.once("end", resolve);
    socket.once("close", () => resolve());
  });
}

function pathOf({ startLine }: Head): string {
  return (startLine.split(" ")[1] ?? "").split("?")[0] ?? "";
}

/** Answers with these bytes once the whole request has come; `close` ends the connection behind them. */
export function answering(bytes: string | Buffer, end: "keep" | "close" = "keep"): Script {
  return async ({ whole, socket, write }) => {
    await whole;
    write(bytes);
    if (end === "close") socket.end();
  };
}
