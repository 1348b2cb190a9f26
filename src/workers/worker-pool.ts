/**
 * The workers of a process: as many as are configured, on the same addresses, for as long as the process lives.
 * What each of them is for and what it may ask is the caller's; here they are kept alive, replaced and ended.
 */
import type { AddressInfo } from "node:net";
import { aggregateMetrics, EndedMetrics } from "../telemetry/aggregate-metrics.ts";
import type { MetricsSnapshot } from "../telemetry/metric-registry.ts";
import type { RouteMeterSettings } from "../telemetry/metrics.ts";
import { WorkerSlot, type WorkerSlotOptions } from "./worker-slot.ts";
import type { WorkerProcess } from "./worker-process.ts";

export interface WorkerPoolOptions extends Pick<
  WorkerSlotOptions,
  "fork" | "order" | "withinMs" | "logger" | "time"
> {
  /** At least 1. */
  readonly count: number;
}

/** How long that may take, milliseconds. */
const NOTICED_MS = 2_000;
/** The label of the process that has the pool of workers. */
const FIRST_PROCESS = "0";

export class WorkerPool {
  readonly #slots: readonly WorkerSlot[];
  readonly #ended = new EndedMetrics();
  readonly #hopeless = Promise.withResolvers<string>();
  #replacing: Promise<void> = Promise.resolve();

  constructor({ count, ...options }: WorkerPoolOptions) {
    this.#slots = Array.from(
      { length: count },
      (_, index) =>
        new WorkerSlot({
          ...options,
          number: index + 1,
          onGone: (process) => this.#ended.add(process, process.counted),
          onHopeless: this.#hopeless.resolve,
        }),
    );
  }

  /**
   * Resolves with the addresses when all workers listen on them. Rejects with the first reason why one cannot;
   * the caller closes the pool of workers then.
   */
  async open(): Promise<readonly AddressInfo[]> {
    await Promise.all(this.#slots.map((slot) => slot.start()));
    const [first, ...others] = this.#slots;
    // Alone: an address that cannot be had is told once, and a port that the system chooses is one for all.
    const addresses = (await first?.listen([])) ?? [];
    const ports = addresses.map(({ port }) => port);
    await Promise.all(others.map((slot) => slot.listen(ports)));
    return addresses;
  }

  /** Resolves with the reason where a worker dies again and again, so that it is no use to go on. */
  get hopeless(): Promise<string> {
    return this.#hopeless.promise;
  }

  /** Workers that accept connections. */
  get listening(): number {
    return this.#slots.filter(({ isListening }) => isListening).length;
  }

  /** Workers that ended though nobody had told them to. */
  get deaths(): number {
    return this.#slots.reduce((sum, { deaths }) => sum + deaths, 0);
  }

  /** Tells every worker something that it has to know. */
  tell(name: string, values: readonly unknown[]): void {
    for (const { present } of this.#slots) {
      for (const { process } of present) process.tell(name, values);
    }
  }

  /** What had come to any of them when this was called it has seen, and said what follows; one that does not answer is given up. */
  async noticed(): Promise<void> {
    await Promise.all(this.processes.map(({ process }) => process.answers(NOTICED_MS)));
  }

  /** All processes that serve requests now, with the numbers of their places. */
  get processes(): readonly { readonly worker: number; readonly process: WorkerProcess }[] {
    return this.#slots.flatMap(({ number: worker, present }) =>
      [...present].map(({ process }) => ({ worker, process })),
    );
  }

  /** The metrics of this process and of all workers. */
  async metrics(own: MetricsSnapshot): Promise<MetricsSnapshot> {
    const all = this.#slots.flatMap(({ number, present }) =>
      [...present].map((each) => ({ worker: String(number), ...each })),
    );
    await Promise.all(all.map(({ process }) => process.count()));
    const first = { worker: FIRST_PROCESS, metrics: own, isLeaving: false };
    const workers = all
      .filter(({ process }) => !this.#ended.has(process))
      .map(({ worker, process, isLeaving }) => ({ worker, isLeaving, metrics: process.counted }));
    return aggregateMetrics([first, ...workers], this.#ended);
  }

  /** As of `Metrics.configureRoutes`: of what processes have counted that are gone. */
  configureRoutes(settings: RouteMeterSettings): void {
    this.#ended.configureRoutes(settings);
  }

  /**
   * Puts another process in the place of each, one after another: each listens before the one that it replaces
   * lets go. Resolves when all of those are gone. Rejects where one cannot be replaced; it stays, as do those
   * behind it. Asked while it runs, it runs once more afterwards. `onEach`: hears of each that lets go.
   */
  async replace(onEach: () => void = () => undefined): Promise<void> {
    const replacing = this.#replacing.catch(() => undefined).then(() => this.#replaceAll(onEach));
    this.#replacing = replacing;
    await replacing;
  }

  /** No connection is kept for another request from here on. */
  retire(): void {
    for (const slot of this.#slots) slot.retire();
  }

  /** Nothing new is accepted, what is in flight is finished within that long, and all workers are ended. */
  async close(withinMs: number): Promise<void> {
    await Promise.all(this.#slots.map((slot) => slot.close(withinMs)));
  }

  async #replaceAll(onEach: () => void): Promise<void> {
    for (const slot of this.#slots) {
      await slot.replace();
      onEach();
    }
    await Promise.all(this.#slots.map((slot) => slot.settled()));
  }
}
