/**
 * Looks again and again at something that payments depend on: a network, or a facilitator elsewhere. What it finds
 * decides whether payments are asked for there, and nothing else does: whoever fails with a payment says so, and
 * that brings the next look forward.
 */
import type { Finding, Probed } from "../../mechanism/mechanism.ts";
import type { ClosedReason } from "../../telemetry/network-meter.ts";
import type { Logger } from "../../telemetry/logger.ts";
import { OVER, type Time } from "../../time/time.ts";
import { messageOf } from "../../x402/result.ts";

/** First pause before a look at what is not as it should be, milliseconds; it doubles. */
const FIRST_RETRY_MS = 250;
/** The longest of these pauses, milliseconds. */
const MAX_RETRY_MS = 5_000;
/** Pause before a look while all is well, milliseconds. */
const RECHECK_MS = 30_000;
/** Shortest pause before a look that somebody's failure asks for, milliseconds: anybody may bring a payment that fails. */
const DOUBT_PAUSE_MS = 1_000;
/** Longest that one look may take, milliseconds. */
const LOOK_TIMEOUT_MS = 10_000;
/** So many looks in a row have to find nobody before what was open is closed. */
const LOOKS_TO_CLOSE = 2;

/** What a look found. `state` is `open` without errors. */
export interface Looked {
  readonly state: "open" | "wrong" | "unreachable";
  readonly findings: readonly Finding[];
}

export interface LookoutOptions extends Probed {
  readonly what: "network" | "facilitator";
  readonly name: string;
  /** Why it is closed where it cannot be reached. */
  readonly away: ClosedReason;
  /** Hears of each look before anybody else. */
  readonly onLook?: (looked: Looked) => void;
  readonly logger: Logger;
  readonly time: Time;
}

export class Lookout {
  readonly #options: LookoutOptions;
  readonly #closing = new AbortController();
  /** Undefined while it is open. */
  #closed: ClosedReason | undefined;
  #isDoubted = false;
  #isTrial = false;
  #isLooking = false;
  /** Looks in a row that found nobody. */
  #missed = 0;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #retryMs = FIRST_RETRY_MS;
  /** Ends the pause before the next look. */
  #pause = new AbortController();
  #looking: Promise<void> | undefined;

  constructor(options: LookoutOptions) {
    this.#options = options;
    this.#closed = options.away;
  }

  /** Why nothing can be had there; undefined: it can. */
  get closed(): ClosedReason | undefined {
    return this.#closed;
  }

  /** It is not closed, and may be in a moment. */
  get isDoubted(): boolean {
    return this.#closed === undefined && (this.#isDoubted || this.#missed > 0);
  }

  /**
   * The first look; others follow in the background. Never rejects. `isTrial`: it is not in use as yet, and may never
   * be, so that nothing is closed by what that look finds.
   */
  async open({ isTrial = false } = {}): Promise<Looked> {
    this.#isTrial = isTrial;
    const looked = await this.#look();
    this.#tell(looked, undefined);
    this.#isTrial = false;
    this.#looking = this.#lookAgain();
    return looked;
  }

  /** Somebody has failed there: it is looked at soon. */
  doubt(): void {
    if (this.#isLooking || this.#isDoubted || this.#closed !== undefined || this.#missed > 0)
      return;
    this.#isDoubted = true;
    this.#pause.abort(OVER);
  }

  /** Ends the look that is running, and the looking. */
  async close(): Promise<void> {
    this.#closing.abort();
    await this.#looking;
  }

  async #lookAgain(): Promise<void> {
    const { signal } = this.#closing;
    const { time } = this.#options;
    while (!signal.aborted) {
      this.#pause = new AbortController();
      const ended = AbortSignal.any([signal, this.#pause.signal]);
      if (!this.#isDoubted) await time.sleep(this.#nextPauseMs(), ended);
      // A clock that was set back makes no pause longer.
      const sinceMs = Math.max(0, time.now() - this.#lookedMs);
      if (this.#isDoubted && sinceMs < DOUBT_PAUSE_MS) {
        await time.sleep(DOUBT_PAUSE_MS - sinceMs, signal);
      }
      if (signal.aborted) return;
      const before = this.#closed;
      const looked = await this.#look();
      if (!signal.aborted) this.#tell(looked, before);
    }
  }

  #nextPauseMs(): number {
    if (this.#closed === undefined && this.#missed === 0) {
      this.#retryMs = FIRST_RETRY_MS;
      return RECHECK_MS;
    }
    const pauseMs = this.#retryMs;
    this.#retryMs = Math.min(pauseMs * 2, MAX_RETRY_MS);
    return pauseMs;
  }

  async #look(): Promise<Looked> {
    this.#isLooking = true;
    const looked = await this.#probe();
    this.#isLooking = false;
    this.#isDoubted = false;
    this.#lookedMs = this.#options.time.now();
    const { state, findings } = looked;
    this.#missed = state === "unreachable" ? this.#missed + 1 : 0;
    const fault = findings.find(({ level }) => level === "error");
    if (state === "open") this.#closed = undefined;
    else if (state === "wrong") this.#closed = fault?.about ?? "chain";
    else if (this.#missed >= LOOKS_TO_CLOSE) this.#closed = this.#options.away;
    this.#options.onLook?.(looked);
    return looked;
  }

  async #probe(): Promise<Looked> {
    const { time, name } = this.#options;
    try {
      const signal = AbortSignal.any([this.#closing.signal, time.timeout(LOOK_TIMEOUT_MS)]);
      const findings = await this.#options.probe(signal);
      const isWrong = findings.some(({ level }) => level === "error");
      return { state: isWrong ? "wrong" : "open", findings };
    } catch (cause) {
      const wait = this.#isTrial ? "" : "; payments on it wait until it can";
      const message = `${name} cannot be checked: ${messageOf(cause)}${wait}`;
      return { state: "unreachable", findings: [{ level: "warning", message }] };
    }
  }

  /** Once for each change: a look every five seconds has nothing new to say. */
  #tell({ state, findings }: Looked, before: ClosedReason | undefined): void {
    const reason = this.#closed;
    if (reason === before) return;
    const { logger, what, name } = this.#options;
    const facts = { [what]: name };
    const said = findings.map(({ message }) => message).join("; ");
    if (reason === undefined) {
      logger.info(facts, `${what} is ready`);
      if (said !== "") logger.warn(facts, said);
    } else if (this.#isTrial) {
      logger.warn(
        { ...facts, reason },
        `the ${what} of the new configuration cannot be used: ${said}`,
      );
    } else if (state === "wrong") logger.error({ ...facts, reason }, `${what} is closed: ${said}`);
    else logger.warn({ ...facts, reason }, `${what} is closed: ${said}`);
  }
}
