/**
 * Time as the money path sees it: everything that waits, expires or is stamped asks here, so that a
 * simulation can run years of faults in seconds and repeat each of them.
 */
export interface Time {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Resolves after the pause, or as soon as the signal ends it. Never rejects. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
  /** A signal that aborts after that long, or a little later; it does not keep the process alive. */
  timeout(ms: number): AbortSignal;
}

/** How work is put off by what has no signal and no promise to wait with: a store that gathers what it writes. */
export interface Timers {
  /** Milliseconds that only grow, from some moment on. */
  elapsed(): number;
  /** After so many milliseconds, 1 or more. It keeps the process alive until then. */
  after(ms: number, run: () => void): void;
  /** In the next turn of the event loop. */
  soon(run: () => void): void;
}

export const systemTimers: Timers = {
  elapsed: () => performance.now(),
  after: (ms, run) => void setTimeout(run, ms),
  soon: (run) => void setImmediate(run),
};

/**
 * What a pause of ours is ended with, where nobody reads the reason: without one each `abort` makes an error
 * with a stack, which costs more than the pause.
 */
export const OVER = new Error("the pause is over");

/** Limits from here on are shared: who waits for seconds does not mind a quarter of one more. */
const SHARED_FROM_MS = 2_000;
/** Limits that begin within so long end together, milliseconds. */
const SHARED_FOR_MS = 250;

export const systemTime: Time = {
  now: Date.now,
  sleep,
  timeout: (ms) => (ms < SHARED_FROM_MS ? AbortSignal.timeout(ms) : sharedTimeout(ms)),
};

/** Without the error that `timers/promises` makes for each pause that ends early: most of them do. */
function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
  });
}

/** Composites, by limit and by the signal that it is added to: both are shared, and so is what they make. */
const composites = new WeakMap<AbortSignal, WeakMap<AbortSignal, AbortSignal>>();

/** A signal that aborts with the sooner of two; the same one for the same two. */
export function sooner(signal: AbortSignal, limit: AbortSignal): AbortSignal {
  let known = composites.get(limit);
  if (known === undefined) composites.set(limit, (known = new WeakMap()));
  let both = known.get(signal);
  if (both === undefined) known.set(signal, (both = AbortSignal.any([signal, limit])));
  return both;
}

interface Shared {
  readonly sinceMs: number;
  readonly signal: AbortSignal;
}

/** The last limit of each length that was begun. */
const shared = new Map<number, Shared>();
/** Lengths that are remembered; they are named constants, and settings. */
const MAX_SHARED = 256;

/** A settlement sets a dozen limits, hardly any of which is reached. */
function sharedTimeout(ms: number): AbortSignal {
  const nowMs = performance.now();
  const last = shared.get(ms);
  if (last !== undefined && nowMs - last.sinceMs < SHARED_FOR_MS) return last.signal;
  const signal = AbortSignal.timeout(ms + SHARED_FOR_MS);
  if (shared.size >= MAX_SHARED) shared.clear();
  shared.set(ms, { sinceMs: nowMs, signal });
  return signal;
}

/**
 * Waits for something that goes on whether or not anybody waits: its value, or `otherwise` when the
 * signal ends first. Rejects as `event` does.
 */
export function waitWithin<Value>(
  event: Promise<Value>,
  signal: AbortSignal,
  otherwise: Value,
): Promise<Value> {
  if (signal.aborted) return Promise.resolve(otherwise);
  return new Promise((resolve, reject) => {
    const timeUp = (): void => resolve(otherwise);
    signal.addEventListener("abort", timeUp, { once: true });
    const over = (): void => signal.removeEventListener("abort", timeUp);
    event.finally(over).then(resolve, reject);
  });
}
