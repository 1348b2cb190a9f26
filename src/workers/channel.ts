/**
 * Calls between two processes, in both directions, over one {@link Port}. Each end has a table of what it
 * serves; a call has a deadline, and their number is bounded. What is said in one turn of the event loop
 * crosses in one message: at many payments a second the crossing costs more than what is said.
 */
import type { Time } from "../time/time.ts";
import { ChannelFault, receivedFault, sentFault, type SentFault } from "./fault.ts";
import type { Port } from "./port.ts";

/** Calls of one end that may wait for their answers at the same time. */
const MAX_CALLS = 10_000;
/** How often deadlines are looked at, milliseconds: calls are given up that much later at most. */
const SWEEP_MS = 250;

/** `signal` aborts where the caller waits no longer; its answer is awaited nevertheless, but for a moment. */
export type Handler = (values: readonly unknown[], signal: AbortSignal) => unknown;

export interface ChannelOptions {
  /** What is served to the other end, by name. */
  readonly serves: Readonly<Record<string, Handler>>;
  readonly time: Time;
  readonly maxCalls?: number;
}

export interface CallOptions {
  /** How long the answer may take, milliseconds. */
  readonly withinMs: number;
  /** The other end hears when it aborts, and still has {@link CallOptions.withinMs} to answer. */
  readonly signal?: AbortSignal;
}

/** What crosses. The names are short: every message has them. */
type Said =
  | readonly ["call", id: number, name: string, values: readonly unknown[]]
  | readonly ["cancel", id: number]
  | readonly ["answer", id: number, value: unknown]
  | readonly ["fault", id: number, fault: SentFault];

/** A socket goes alone, under a name. */
interface SaidWithHandle {
  readonly handle: string;
}

interface Pending {
  readonly name: string;
  readonly deadlineMs: number;
  readonly resolve: (value: unknown) => void;
  readonly reject: (fault: Error) => void;
}

export class Channel {
  readonly #port: Port;
  readonly #options: ChannelOptions;
  readonly #maxCalls: number;
  readonly #pending = new Map<number, Pending>();
  readonly #served = new Map<number, AbortController>();
  readonly #closed = Promise.withResolvers<void>();
  readonly #handles = new Map<string, (handle: unknown) => void>();
  #outbox: Said[] = [];
  #sweep: NodeJS.Timeout | undefined;
  #nextId = 1;
  #isClosed = false;

  constructor(port: Port, options: ChannelOptions) {
    this.#port = port;
    this.#options = options;
    this.#maxCalls = options.maxCalls ?? MAX_CALLS;
    port.onMessage((message, handle) => this.#hear(message, handle));
    port.onClose(() => this.#end());
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Resolves when the other end is gone, or this one was closed. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  /** Rejects with {@link ChannelFault}, or with what the other end threw. */
  call(name: string, values: readonly unknown[], options: CallOptions): Promise<unknown> {
    if (this.#isClosed) return Promise.reject(gone(name));
    if (this.#pending.size >= this.#maxCalls) {
      return Promise.reject(new ChannelFault("full", `too many calls at once, at ${name}`));
    }
    const id = this.#nextId;
    this.#nextId += 1;
    const { withinMs, signal } = options;
    const answer = new Promise<unknown>((resolve, reject) => {
      const deadlineMs = this.#options.time.now() + withinMs;
      this.#pending.set(id, { name, deadlineMs, resolve, reject });
    });
    this.#sweep ??= setInterval(() => this.#giveUp(), SWEEP_MS).unref();
    this.#say(["call", id, name, values]);
    if (signal === undefined) return answer;
    const cancel = (): void => this.#say(["cancel", id]);
    if (signal.aborted) cancel();
    else signal.addEventListener("abort", cancel, { once: true });
    return answer.finally(() => signal.removeEventListener("abort", cancel));
  }

  /** Passes a socket on, behind all that was said before; `onSent`: this end need not keep it any longer. */
  pass(name: string, handle: unknown, onSent?: () => void): void {
    this.#flush();
    this.#port.send({ handle: name } satisfies SaidWithHandle, handle, onSent);
  }

  /** Hears of the sockets that are passed under that name. */
  onPassed(name: string, listener: (handle: unknown) => void): void {
    this.#handles.set(name, listener);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#flush();
    this.#port.close();
    this.#end();
  }

  #end(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    clearInterval(this.#sweep);
    for (const { name, reject } of this.#pending.values()) reject(gone(name));
    this.#pending.clear();
    this.#closed.resolve();
  }

  #hear(message: unknown, handle: unknown): void {
    if (Array.isArray(message)) for (const said of message) this.#take(said as Said);
    else if (typeof message === "object" && message !== null && "handle" in message) {
      this.#handles.get(String(message.handle))?.(handle);
    }
  }

  #take(said: Said): void {
    const [kind, id] = said;
    switch (kind) {
      case "call":
        void this.#serve(id, said[2], said[3]);
        return;
      case "cancel":
        this.#served.get(id)?.abort();
        return;
      case "answer":
        this.#settle(id)?.resolve(said[2]);
        return;
      case "fault":
        this.#settle(id)?.reject(receivedFault(said[2]));
    }
  }

  async #serve(id: number, name: string, values: readonly unknown[]): Promise<void> {
    const waiting = new AbortController();
    this.#served.set(id, waiting);
    try {
      const { serves } = this.#options;
      const handler = Object.hasOwn(serves, name) ? serves[name] : undefined;
      if (handler === undefined) throw new Error(`nothing is called ${name} here`);
      const value = await handler(values, waiting.signal);
      this.#say(["answer", id, value]);
    } catch (cause) {
      this.#say(["fault", id, sentFault(cause)]);
    } finally {
      this.#served.delete(id);
    }
  }

  /** A call that is answered; undefined where it was given up. */
  #settle(id: number): Pending | undefined {
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (this.#pending.size === 0) {
      clearInterval(this.#sweep);
      this.#sweep = undefined;
    }
    return pending;
  }

  #giveUp(): void {
    const nowMs = this.#options.time.now();
    for (const [id, { name, deadlineMs }] of this.#pending) {
      if (nowMs < deadlineMs) continue;
      this.#say(["cancel", id]);
      this.#settle(id)?.reject(new ChannelFault("late", `no answer in time to ${name}`));
    }
  }

  #say(said: Said): void {
    if (this.#isClosed) return;
    if (this.#outbox.length === 0) setImmediate(() => this.#flush());
    this.#outbox.push(said);
  }

  #flush(): void {
    const outbox = this.#outbox;
    this.#outbox = [];
    if (outbox.length === 0) return;
    try {
      this.#port.send(outbox);
    } catch {
      // One of them cannot cross; the others are not to suffer for it.
      for (const said of outbox) {
        try {
          this.#port.send([said]);
        } catch (cause) {
          const [kind, id] = said;
          if (kind === "answer") this.#port.send([["fault", id, sentFault(cause)]]);
          else if (kind === "call") this.#settle(id)?.reject(receivedFault(sentFault(cause)));
        }
      }
    }
  }
}

function gone(name: string): ChannelFault {
  return new ChannelFault("closed", `the other process is gone, at ${name}`);
}
