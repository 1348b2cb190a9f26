/**
 * Whether a facilitator elsewhere is worth asking. Failures in a row open its circuit: for a cool-down,
 * which grows from one opening to the next, nothing is sent; then one request is let through, and what
 * becomes of it decides.
 */
import type { Time } from "../time/time.ts";
import { FacilitatorFault, RequestRefused } from "../payments/facilitator.ts";

/** Failures in a row, timeouts among them, that open the circuit. */
export const FAILURES_TO_OPEN = 3;
/** The first cool-down, milliseconds; each next one is twice as long. */
export const FIRST_COOL_DOWN_MS = 1_000;
/** The longest cool-down, milliseconds. */
export const MAX_COOL_DOWN_MS = 60_000;
/** A caller that gave up sooner than this says nothing about the facilitator, milliseconds. */
const PATIENCE_MS = 3_000;
/**
 * So long after a good answer a request that is not taken is that request's own fault, milliseconds; of a facilitator
 * that takes none it is a failure.
 */
export const WELL_FOR_MS = 60_000;
/** A trial of which nothing is heard was never sent: its caller waited for its turn, and left; milliseconds. */
export const TRIAL_MS = 60_000;

/**
 * Sends one request and counts what became of it: a {@link FacilitatorFault} is a failure, any other
 * exception is somebody else's, as is a {@link RequestRefused} soon after a good answer.
 *
 * @param signal the caller's own; a facilitator is not blamed for a caller in a hurry
 */
export type Send = <Value>(call: () => Promise<Value>, signal: AbortSignal) => Promise<Value>;

export interface CircuitOptions {
  readonly time: Pick<Time, "now">;
  readonly onChange: (isHealthy: boolean) => void;
}

export class Circuit {
  readonly #options: CircuitOptions;
  #failures = 0;
  #coolDownMs = FIRST_COOL_DOWN_MS;
  /** Undefined while it is closed. */
  #opensAgainMs: number | undefined;
  /** Until then a trial is on its way; the past where none is. */
  #trialUntilMs = Number.NEGATIVE_INFINITY;
  /** When it last answered well. */
  #wellMs = Number.NEGATIVE_INFINITY;

  constructor(options: CircuitOptions) {
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#opensAgainMs !== undefined;
  }

  /** For a request that may also go elsewhere. Undefined: skip this one. To be used, once. */
  enter(): Send | undefined {
    if (this.#opensAgainMs === undefined) return this.send;
    const now = this.#options.time.now();
    if (now < this.#trialUntilMs || now < this.#opensAgainMs) return undefined;
    this.#trialUntilMs = now + TRIAL_MS;
    return (call, signal) => this.#observe(call, signal, true);
  }

  /** For a request that nobody else may be asked: sent even while it is open. */
  readonly send: Send = (call, signal) => this.#observe(call, signal, false);

  /**
   * A look from the side succeeded: closed, but the next failure opens it again, for as long as it would
   * have done without that look.
   */
  looksWell(): void {
    if (this.isOpen) this.#close(FAILURES_TO_OPEN - 1);
  }

  async #observe<Value>(
    call: () => Promise<Value>,
    signal: AbortSignal,
    isTrial: boolean,
  ): Promise<Value> {
    const { time } = this.#options;
    const started = time.now();
    try {
      const value = await call();
      this.#coolDownMs = FIRST_COOL_DOWN_MS;
      this.#wellMs = time.now();
      this.#close(0);
      return value;
    } catch (cause) {
      if (isTrial) this.#trialUntilMs = Number.NEGATIVE_INFINITY;
      const isHasty = signal.aborted && time.now() - started < PATIENCE_MS;
      const isOdd = cause instanceof RequestRefused && time.now() - this.#wellMs < WELL_FOR_MS;
      if (cause instanceof FacilitatorFault && !isHasty && !isOdd) this.#failed(isTrial);
      throw cause;
    }
  }

  #close(failures: number): void {
    const wasOpen = this.isOpen;
    this.#failures = failures;
    this.#opensAgainMs = undefined;
    this.#trialUntilMs = Number.NEGATIVE_INFINITY;
    if (wasOpen) this.#options.onChange(true);
  }

  #failed(isTrial: boolean): void {
    // Of many requests that were under way when it opened, each will fail: they count once.
    if (this.isOpen && !isTrial) return;
    this.#failures += 1;
    if (this.#failures < FAILURES_TO_OPEN) return;
    const wasOpen = this.isOpen;
    this.#opensAgainMs = this.#options.time.now() + this.#coolDownMs;
    this.#coolDownMs = Math.min(this.#coolDownMs * 2, MAX_COOL_DOWN_MS);
    if (!wasOpen) this.#options.onChange(false);
  }
}
