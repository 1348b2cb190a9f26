/**
 * The way from a worker to the process that has the money, as the real channel behaves: a call has a deadline,
 * the other end hears when its caller waits no longer, and goes on with what it has heard when the worker dies.
 */
import type { CallOptions, Channel } from "../../src/workers/channel.ts";
import type { WorkerSession } from "../../src/workers/worker-session.ts";
import { ChannelFault, receivedFault, sentFault } from "../../src/workers/fault.ts";
import type { Boundary } from "./faults.ts";
import type { Random } from "./random.ts";
import type { Life, VirtualTime } from "./virtual-time.ts";

/** Longest way through a pipe, milliseconds. */
const PIPE_MS = 2;
/** How long the process may be busy with something else, milliseconds. */
const BUSY_MS = 3_000;

export interface PipeOptions {
  /** The worker's. */
  readonly life: Life;
  readonly desk: WorkerSession;
  readonly boundary: Boundary;
  readonly time: VirtualTime;
  readonly random: Random;
}

export class Pipe implements Pick<Channel, "call"> {
  readonly #options: PipeOptions;

  constructor(options: PipeOptions) {
    this.#options = options;
  }

  call(name: string, values: readonly unknown[], options: CallOptions): Promise<unknown> {
    const { life, desk, boundary, time, random } = this.#options;
    const { withinMs, signal } = options;
    const waiting = new AbortController();
    const cancel = (): void => {
      time.schedule(random.between(0, PIPE_MS), null, () => waiting.abort());
    };
    if (signal?.aborted === true) cancel();
    else signal?.addEventListener("abort", cancel, { once: true });
    const late = new ChannelFault("late", `no answer in time to ${name}`);
    return new Promise((resolve, reject) => {
      const calledOff = time.schedule(withinMs, life, () => {
        cancel();
        reject(late);
      });
      boundary
        .cross(life, {
          name: `pipe.${name}`,
          mostMs: PIPE_MS,
          slowMs: BUSY_MS,
          outlives: true,
          fault: () => late,
          effect: () => answer(desk, name, values, waiting.signal),
        })
        .then(resolve, reject)
        .finally(() => {
          calledOff();
          signal?.removeEventListener("abort", cancel);
        });
    });
  }
}

/** What cannot be told apart is cloned on its way, as between processes. */
async function answer(
  desk: WorkerSession,
  name: string,
  values: readonly unknown[],
  signal: AbortSignal,
): Promise<unknown> {
  const serve = desk.serves[name];
  if (serve === undefined) throw new Error(`nothing is called ${name} here`);
  try {
    return structuredClone(await serve(structuredClone(values), signal));
  } catch (cause) {
    throw receivedFault(sentFault(cause));
  }
}
