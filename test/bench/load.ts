/**
 * The load generator, as a process of its own: keep-alive connections over bare sockets that send
 * prepared requests, each the next one as soon as its answer is complete, or all of them so many a second
 * whatever comes back. It costs a few microseconds a request, so that two cores are left to what is measured.
 */
import { connect, type Socket } from "node:net";
import { ready } from "./process.ts";

export interface LoadJob {
  readonly url: string;
  readonly connections: number;
  readonly durationMs: number;
  /** Complete requests as they go over the wire, sent in turn. */
  readonly requests: readonly Uint8Array[];
  /** `text` is looked for in what came first of the answer, 64 KiB at least. */
  readonly expect: { readonly status: number; readonly text?: string };
  /** Stops after every request was sent once, whatever time that takes. */
  readonly once?: boolean;
  /**
   * Requests that are begun in each second. One that finds every connection busy waits, and its time
   * counts from when it was to begin. Default: as many as are answered.
   */
  readonly perSecond?: number;
}

export interface LoadResult {
  readonly answers: number;
  readonly seconds: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** An answer that was not the expected one; there must be none. */
  readonly fault: string | null;
}

const HEAD_END = Buffer.from("\r\n\r\n");
const LAST_CHUNK = Buffer.from("0\r\n\r\n");
/** Of an answer whose length is known, bytes beyond these are only counted. */
const LOOKED_AT_BYTES = 64 * 1024;

class Load {
  readonly #job: LoadJob;
  readonly #expected: Buffer | null;
  readonly #latencies: number[] = [];
  readonly #deadline: number;
  readonly #idle: Connection[] = [];
  /** When the requests that wait for a connection were to begin. */
  readonly #waiting: number[] = [];
  #next = 0;
  #open: number;
  #fault: string | null = null;
  readonly #started = performance.now();
  readonly #done = Promise.withResolvers<LoadResult>();

  constructor(job: LoadJob) {
    this.#job = job;
    this.#open = job.connections;
    this.#deadline = job.once === true ? Infinity : this.#started + job.durationMs;
    this.#expected = job.expect.text === undefined ? null : Buffer.from(job.expect.text);
  }

  run(): Promise<LoadResult> {
    const { hostname, port } = new URL(this.#job.url);
    for (let index = 0; index < this.#job.connections; index += 1) {
      const socket = connect({ host: hostname, port: Number(port), noDelay: true });
      new Connection(this, socket).listen();
    }
    if (this.#job.perSecond !== undefined) this.#keepPace(this.#job.perSecond);
    return this.#done.promise;
  }

  /** A connection has nothing to do. */
  onIdle(connection: Connection): void {
    const now = performance.now();
    if (this.#job.perSecond !== undefined) {
      const begun = this.#waiting.shift();
      if (begun !== undefined) connection.send(this.#take(), begun);
      else if (now > this.#deadline) connection.close();
      else this.#idle.push(connection);
    } else if (this.#hasMore(now)) {
      connection.send(this.#take(), now);
    } else {
      connection.close();
    }
  }

  onAnswer(beginning: Buffer, latencyMs: number): void {
    this.#latencies.push(latencyMs);
    const status = Number(beginning.toString("latin1", 9, 12));
    const isExpected = this.#expected === null || beginning.includes(this.#expected);
    if (status === this.#job.expect.status && isExpected) return;
    this.#fault ??= beginning.toString().slice(0, 1_000);
  }

  onFault(fault: string): void {
    this.#fault ??= fault;
  }

  onClose(): void {
    this.#open -= 1;
    if (this.#open > 0) return;
    const sorted = this.#latencies.sort((left, right) => left - right);
    this.#done.resolve({
      answers: sorted.length,
      seconds: (performance.now() - this.#started) / 1000,
      p50Ms: sorted[Math.floor(sorted.length * 0.5)] ?? 0,
      p99Ms: sorted[Math.floor(sorted.length * 0.99)] ?? 0,
      fault: this.#fault,
    });
  }

  #keepPace(perSecond: number): void {
    let begun = 0;
    const timer = setInterval(() => {
      const now = performance.now();
      const due = Math.floor(((Math.min(now, this.#deadline) - this.#started) / 1000) * perSecond);
      for (; begun < due; begun += 1) {
        // In turn: one that never asks for anything is closed.
        const connection = this.#idle.shift();
        if (connection === undefined) this.#waiting.push(now);
        else connection.send(this.#take(), now);
      }
      if (now <= this.#deadline) return;
      clearInterval(timer);
      for (const connection of this.#idle.splice(0)) connection.close();
    }, 1);
  }

  #hasMore(now: number): boolean {
    const { requests, once } = this.#job;
    return now <= this.#deadline && !(once === true && this.#next >= requests.length);
  }

  #take(): Uint8Array {
    const { requests } = this.#job;
    const request = requests[this.#next % requests.length];
    this.#next += 1;
    return request ?? HEAD_END;
  }
}

/** One answer after another, each from its first byte to its last. */
class Connection {
  readonly #load: Load;
  readonly #socket: Socket;
  #begun = 0;
  #isOver = false;
  #parts: Buffer[] = [];
  #kept = 0;
  #received = 0;
  /** Bytes of the whole answer; -1 as long as that is not known. */
  #expected = -1;

  constructor(load: Load, socket: Socket) {
    this.#load = load;
    this.#socket = socket;
  }

  listen(): void {
    const [load, socket] = [this.#load, this.#socket];
    socket.on("connect", () => load.onIdle(this));
    socket.on("data", (part: Buffer) => this.#take(part));
    socket.on("error", (error) => load.onFault(error.message));
    socket.on("close", () => {
      if (this.#isOver) return;
      load.onFault("the server closed a connection");
      load.onClose();
    });
  }

  send(request: Uint8Array, begun: number): void {
    this.#begun = begun;
    this.#socket.write(request);
  }

  close(): void {
    this.#isOver = true;
    this.#socket.destroy();
    this.#load.onClose();
  }

  #take(part: Buffer): void {
    this.#received += part.length;
    if (this.#expected < 0 || this.#kept < LOOKED_AT_BYTES) {
      this.#parts.push(part);
      this.#kept += part.length;
    }
    if (this.#expected < 0) this.#expected = lengthOf(this.#beginning());
    if (this.#expected < 0 || this.#received < this.#expected) return;
    this.#load.onAnswer(this.#beginning(), performance.now() - this.#begun);
    this.#parts = [];
    this.#kept = 0;
    this.#received = 0;
    this.#expected = -1;
    this.#load.onIdle(this);
  }

  #beginning(): Buffer {
    const [first] = this.#parts;
    if (first !== undefined && this.#parts.length === 1) return first;
    const joined = Buffer.concat(this.#parts);
    this.#parts = [joined];
    return joined;
  }
}

/** Bytes of the whole answer, as far as it is known; -1 while it is not. */
function lengthOf(answer: Buffer): number {
  const headEnd = answer.indexOf(HEAD_END);
  if (headEnd < 0) return -1;
  const head = answer.toString("latin1", 0, headEnd);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
  if (length !== undefined) return headEnd + HEAD_END.length + Number(length);
  const isComplete = answer.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK);
  return isComplete ? answer.length : -1;
}

process.on("message", (job: LoadJob) => {
  void new Load(job).run().then((result) => process.send?.(result));
});
ready("load generator");
