/** A pool to a backend on loopback, and requests whose whole course is kept for the test to look at. */
import { onTestFinished } from "vitest";
import type { H1Controller, H1Handler, H1Request } from "../../../src/http1/exchange.ts";
import { H1Pool, type H1PoolOptions } from "../../../src/http1/pool.ts";

/** Milliseconds that the test moves. */
export class ManualClock {
  ms = 1_000;
  readonly now = (): number => this.ms;
}

const patient: Omit<H1PoolOptions, "origin"> = {
  connections: 10,
  queue: 10,
  connectTimeoutMs: 10_000,
  responseTimeoutMs: 10_000,
  idleTimeoutMs: 10_000,
  pauseTimeoutMs: 10_000,
  keepAliveMs: 10_000,
  headLimitBytes: 64 * 1024,
};

/** Destroyed when the test ends. */
export function openPool(origin: string, options: Partial<H1PoolOptions> = {}): H1Pool {
  const pool = new H1Pool({ ...patient, origin, ...options });
  onTestFinished(() => pool.destroy());
  return pool;
}

/** One request and what its handler was told. */
export class Course implements H1Handler {
  readonly request: H1Request;
  /** The handler's calls, in their order; each read of a body is one `data`. */
  readonly calls: string[] = [];
  status = 0;
  statusText = "";
  lines: readonly string[] = [];
  readonly chunks: Buffer[] = [];
  trailers: readonly string[] = [];
  error: Error | null = null;
  /** What the test does within a call. */
  readonly reactions: Record<string, (controller: H1Controller) => void> = {};
  readonly #ended = Promise.withResolvers<this>();
  readonly #started = Promise.withResolvers<H1Controller>();
  readonly #begun = Promise.withResolvers<this>();

  constructor(request: Partial<H1Request>) {
    this.request = { method: "GET", path: "/", headers: [], body: null, ...request };
  }

  /** Resolves at the answer's end, or when it failed. */
  get ended(): Promise<this> {
    return this.#ended.promise;
  }

  get started(): Promise<H1Controller> {
    return this.#started.promise;
  }

  /** Resolves with the head, or when it failed. */
  get begun(): Promise<this> {
    return this.#begun.promise;
  }

  get body(): string {
    return Buffer.concat(this.chunks).toString("latin1");
  }

  /** The code of the fault, or the message of another error; null when all went well. */
  get fault(): string | null {
    if (this.error === null) return null;
    return "code" in this.error ? String(this.error.code) : this.error.message;
  }

  onRequestStart(controller: H1Controller): void {
    this.#started.resolve(controller);
    this.#call("start", controller);
  }

  onResponseStarted(): void {
    this.calls.push("begin");
  }

  onResponseStart(
    controller: H1Controller,
    status: number,
    headers: string[],
    statusText: string,
  ): void {
    [this.status, this.statusText, this.lines] = [status, statusText, headers];
    this.#begun.resolve(this);
    this.#call("head", controller);
  }

  onResponseData(controller: H1Controller, chunk: Buffer): void {
    this.chunks.push(chunk);
    this.#call("data", controller);
  }

  onResponseEnd(controller: H1Controller, trailers: string[]): void {
    this.trailers = trailers;
    this.#ended.resolve(this);
    this.#call("end", controller);
  }

  onResponseError(controller: H1Controller, error: Error): void {
    this.error = error;
    this.#begun.resolve(this);
    this.#ended.resolve(this);
    this.#call("error", controller);
  }

  #call(name: string, controller: H1Controller): void {
    this.calls.push(name);
    this.reactions[name]?.(controller);
  }
}

/** Sends a request; look at the course, or await its end. */
export function dispatch(pool: H1Pool, request: Partial<H1Request> = {}): Course {
  const course = new Course(request);
  pool.dispatch(course.request, course);
  return course;
}

/** Sends a request and resolves when its course is over. */
export function ask(pool: H1Pool, request: Partial<H1Request> = {}): Promise<Course> {
  return dispatch(pool, request).ended;
}

/** So many turns of the event loop. */
export async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn += 1) {
    await new Promise<void>((resolve) => void setImmediate(resolve));
  }
}

/** Waits for what a real socket takes its time for. */
export async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 1));
}

/** Long enough for two looks of the pool at its deadlines. */
export const looks = (): Promise<void> => new Promise((resolve) => void setTimeout(resolve, 600));
