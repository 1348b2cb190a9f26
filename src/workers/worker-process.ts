/**
 * One worker process as the process that forked it sees it: it is told where to listen, to let its
 * connections go, to finish; and it may end by itself at any time.
 */
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import type { MetricsSnapshot } from "../telemetry/metric-registry.ts";
import { MetricsUnpacker, type PackedMetrics } from "../telemetry/packed-metrics.ts";
import type { TimelinePart } from "../telemetry/timeline.ts";
import type { Time } from "../time/time.ts";
import { Channel, type Handler } from "./channel.ts";
import { ChannelFault } from "./fault.ts";
import { portOfChild } from "./port.ts";

/** How long a worker may take to load and to be told what to do, milliseconds. */
const START_MS = 30_000;
/** How long it may take to listen, and to pass on what listens, milliseconds. */
const LISTEN_MS = 10_000;
/** How long it may take for an answer that it need not wait for, milliseconds. */
const ANSWER_MS = 2_000;
/** How much longer than it is given it may take to finish, milliseconds; then it is killed. */
const EXIT_MARGIN_MS = 3_000;

/** Where a worker listens; the names are those of the calls below. */
export interface WorkerPlaces {
  /** In place of the configured ports, in the order of the listeners. */
  readonly ports: readonly number[];
  /** How many sockets of another worker were passed before; they are listened on in place of new ones. */
  readonly sockets: number;
}

/** How a process ended. */
export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export class WorkerProcess {
  readonly #child: ChildProcess;
  readonly #channel: Channel;
  readonly #time: Time;
  readonly #ended = Promise.withResolvers<Exit>();
  readonly #hearers: ((exit: Exit) => void)[] = [];
  #isEnded = false;
  readonly #unpacker = new MetricsUnpacker();
  #counted: MetricsSnapshot = [];

  constructor(child: ChildProcess, serves: Readonly<Record<string, Handler>>, time: Time) {
    this.#child = child;
    this.#time = time;
    this.#channel = new Channel(portOfChild(child), { serves, time });
    const end = (code: number | null, signal: NodeJS.Signals | null): void => {
      this.#isEnded = true;
      this.#channel.close();
      this.#ended.resolve({ code, signal });
      for (const hear of this.#hearers) hear({ code, signal });
    };
    child.once("exit", end);
    child.once("error", () => {
      // It could not even be forked; one that could not be killed ends otherwise.
      if (child.pid === undefined) end(null, null);
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Resolves when the process is gone, for whatever reason. */
  get ended(): Promise<Exit> {
    return this.#ended.promise;
  }

  /** Hears of the end of a process that has not ended yet. */
  onEnded(hear: (exit: Exit) => void): void {
    this.#hearers.push(hear);
  }

  /** All that it had counted when it was last asked. */
  get counted(): MetricsSnapshot {
    return this.#counted;
  }

  get isEnded(): boolean {
    return this.#isEnded;
  }

  /** Tells it what it is for; resolves when it can be told to listen. */
  async start(order: unknown): Promise<void> {
    await this.#call("start", [order], START_MS);
  }

  /** Resolves with its addresses once it accepts connections. */
  async listen(places: WorkerPlaces): Promise<readonly AddressInfo[]> {
    const addresses = await this.#call("listen", [places], LISTEN_MS);
    if (!Array.isArray(addresses))
      throw new ChannelFault("unreadable", "a worker has no addresses");
    return addresses as AddressInfo[];
  }

  /**
   * Passes what that one listens on to this one: then connections that wait there are accepted here, where
   * the end of that one would reset them. Resolves with the number of sockets.
   */
  async inherit(from: WorkerProcess): Promise<number> {
    const passed: unknown[] = [];
    from.#channel.onPassed("socket", (handle) => passed.push(handle));
    const count = Number(await from.#call("sockets", [], LISTEN_MS));
    // What cannot be passed (the other end of a pipe is gone) is not counted by the one that listens.
    if (passed.length !== count) throw new ChannelFault("unreadable", "a socket was not passed on");
    for (const handle of passed) this.#channel.pass("socket", handle, () => closeHandle(handle));
    return count;
  }

  /** Its connections are not kept for another request from here on. */
  async retire(): Promise<void> {
    await this.#call("retire", [], ANSWER_MS);
  }

  /** Asks what it has counted; where it does not answer, {@link counted} stays as it was. */
  async count(): Promise<void> {
    const { revision } = this.#unpacker;
    await this.#call("metrics", [revision], ANSWER_MS).then(this.#note, () => undefined);
  }

  /**
   * Whether it does anything at all: false where it does not even say so within that long. What its connections had told it when
   * it was asked it has said before.
   */
  async answers(withinMs: number): Promise<boolean> {
    return this.#call("ping", [], withinMs).then(
      () => true,
      () => false,
    );
  }

  /** What it remembers of its requests since that version; undefined where it does not answer. */
  async readTimeline(after: number): Promise<TimelinePart | undefined> {
    const part = await this.#call("timeline", [after], ANSWER_MS).catch(() => undefined);
    return part as TimelinePart | undefined;
  }

  /** Something that it has to know; what it does with that is not waited for. */
  tell(name: string, values: readonly unknown[]): void {
    this.#call(name, values, ANSWER_MS).catch(() => undefined);
  }

  /** Accepts nothing new, finishes what is in flight within that long, and ends; or is killed. */
  async finish(withinMs: number): Promise<void> {
    const asked = this.#call("finish", [withinMs], withinMs + EXIT_MARGIN_MS);
    await asked.then(this.#note, () => undefined);
    this.#channel.close();
    await Promise.race([this.#ended.promise, once(this.#time.timeout(EXIT_MARGIN_MS), "abort")]);
    await this.kill();
  }

  /** At once. */
  async kill(): Promise<void> {
    if (!this.#isEnded) this.#child.kill("SIGKILL");
    await this.#ended.promise;
  }

  readonly #note = (counted: unknown): void => {
    // What two answers that cross leave without a name comes whole with the next one.
    this.#counted = this.#unpacker.unpack(counted as PackedMetrics) ?? this.#counted;
  };

  #call(name: string, values: readonly unknown[], withinMs: number): Promise<unknown> {
    return this.#channel.call(name, values, { withinMs });
  }
}

function closeHandle(handle: unknown): void {
  const close: unknown = Reflect.get(Object(handle), "close");
  if (typeof close === "function") close.call(handle);
}
