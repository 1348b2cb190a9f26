/**
 * The load generator, as a process of its own: keep-alive connections over bare sockets that send
 * prepared requests, each the next one as soon as its answer is complete. It costs a few microseconds a
 * request, so that two cores are left to what is measured.
 */
import { connect, type Socket } from "node:net";
import { ready } from "./process.ts";

export interface LoadJob {
  readonly url: string;
  readonly connections: number;
  readonly durationMs: number;
  /** Complete requests as they go over the wire, sent in turn. */
  readonly requests: readonly Uint8Array[];
  readonly expect: { readonly status: number; readonly text?: string };
  /** Stops after every request was sent once, whatever time that takes. */
  readonly once?: boolean;
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

class Load {
  readonly #job: LoadJob;
  readonly #expected: Buffer | null;
  readonly #latencies: number[] = [];
  readonly #deadline: number;
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
      this.#serve(connect({ host: hostname, port: Number(port), noDelay: true }));
    }
    return this.#done.promise;
  }

  #serve(socket: Socket): void {
    let sentAt = 0;
    let closing = false;
    let parts: Buffer[] = [];
    let received = 0;
    let expected = -1;
    const send = (): void => {
      const request = this.#take();
      if (request === undefined) {
        closing = true;
        socket.destroy();
        this.#close();
        return;
      }
      sentAt = performance.now();
      socket.write(request);
    };
    socket.on("connect", send);
    socket.on("data", (part: Buffer) => {
      parts.push(part);
      received += part.length;
      if (expected >= 0 && received < expected) return;
      const answer = parts.length === 1 ? part : Buffer.concat(parts);
      if (expected < 0) expected = lengthOf(answer);
      if (expected < 0 || received < expected) return;
      this.#latencies.push(performance.now() - sentAt);
      this.#check(answer);
      parts = [];
      received = 0;
      expected = -1;
      send();
    });
    socket.on("error", (error) => (this.#fault ??= error.message));
    socket.on("close", () => {
      if (closing) return;
      this.#fault ??= "the server closed a connection";
      this.#close();
    });
  }

  #take(): Uint8Array | undefined {
    const { requests, once } = this.#job;
    if (performance.now() > this.#deadline) return undefined;
    if (once === true && this.#next === requests.length) return undefined;
    const request = requests[this.#next % requests.length];
    this.#next += 1;
    return request;
  }

  #check(answer: Buffer): void {
    const status = Number(answer.toString("latin1", 9, 12));
    const isExpected = this.#expected === null || answer.includes(this.#expected);
    if (status !== this.#job.expect.status || !isExpected) {
      this.#fault ??= answer.toString().slice(0, 1_000);
    }
  }

  #close(): void {
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
