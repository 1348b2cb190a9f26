/** Sends the bytes of one submission, beside the looks at it, and again where the node gave no answer. */
import type { Follower, SignedTransaction } from "../../mechanism/mechanism.ts";
import type { Logger } from "../../telemetry/logger.ts";
import { OVER, type Time } from "../../time/time.ts";

/** First pause before bytes that the node did not take are sent again, milliseconds; it doubles. */
const FIRST_RESEND_MS = 250;
/** Longest of these pauses, milliseconds. */
const MAX_RESEND_MS = 8_000;
/** Longer than any of these pauses, milliseconds. */
const MAX_PAUSE_MS = 60_000;
/** Longest that one sending may take; some nodes answer only when the bytes are in a block, milliseconds. */
const SEND_TIMEOUT_MS = 15_000;

export interface BroadcasterOptions {
  readonly mechanism: Pick<Follower, "broadcast" | "rules">;
  readonly time: Time;
  readonly closing: AbortSignal;
  readonly log: Logger;
}

export class Broadcaster {
  readonly #options: BroadcasterOptions;
  #sending: AbortController | undefined;
  #dueMs = 0;
  #pauseMs = FIRST_RESEND_MS;

  constructor(options: BroadcasterOptions) {
    this.#options = options;
  }

  /** Bytes are on their way, or somebody waits for the block that they are in. */
  get isSending(): boolean {
    return this.#sending !== undefined;
  }

  /** Sends when it is time to and nothing is being sent; `onIncluded` where the node saw it in a block. */
  send(signed: SignedTransaction, onIncluded: () => void): void {
    const { time, closing } = this.#options;
    const leftMs = this.#dueMs - time.now();
    // More than any pause is no pause: the clock was set back.
    const isDue = leftMs <= 0 || leftMs > MAX_PAUSE_MS;
    if (this.#sending !== undefined || closing.aborted || !isDue) return;
    const sending = new AbortController();
    this.#sending = sending;
    void this.#sendOnce(signed, sending, onIncluded);
  }

  /** Other bytes are to be sent from here, and at once. */
  forget(): void {
    this.stop();
    this.#dueMs = 0;
    this.#pauseMs = FIRST_RESEND_MS;
  }

  stop(): void {
    this.#sending?.abort(OVER);
    this.#sending = undefined;
  }

  async #sendOnce(
    signed: SignedTransaction,
    sending: AbortController,
    onIncluded: () => void,
  ): Promise<void> {
    const isIncluded = await this.#send(signed, sending.signal);
    if (this.#sending === sending) this.#sending = undefined;
    if (isIncluded) onIncluded();
  }

  /** Whether the bytes are said to be in a block. Never rejects: a lost answer is no lost transaction. */
  async #send(signed: SignedTransaction, stopped: AbortSignal): Promise<boolean> {
    const { mechanism, time, closing, log } = this.#options;
    const timeout = time.timeout(SEND_TIMEOUT_MS);
    const signal = AbortSignal.any([stopped, closing, timeout]);
    const { transaction } = signed;
    try {
      const answer = await mechanism.broadcast(signed, signal);
      if (stopped.aborted) return false;
      this.#dueMs = time.now() + mechanism.rules.resendMs;
      this.#pauseMs = FIRST_RESEND_MS;
      log.debug({ transaction }, "a submission was sent");
      return answer === "included";
    } catch (cause) {
      if (stopped.aborted || closing.aborted) return false;
      this.#dueMs = time.now() + this.#pauseMs;
      this.#pauseMs = Math.min(this.#pauseMs * 2, MAX_RESEND_MS, mechanism.rules.resendMs);
      log.warn({ err: cause, transaction }, "no answer to a broadcast; asking the chain");
      return false;
    }
  }
}
