/**
 * When a request is sent again: only where the target saw nothing of it, or where nobody paid and its method
 * may be sent twice; only while its body is still whole; and only as often as the budget allows, so that a
 * backend in trouble does not get its load twice.
 */
import type { Unanswered } from "../../../http/unanswered.ts";
import type { Sale } from "../upstream.ts";

export type RetryReason = "connect-failure" | "connection-lost" | "502" | "503" | "504";

export interface RetryOptions {
  /** All together, the first one included. */
  readonly attempts: number;
  /** What of them may be sent twice. */
  readonly methods: readonly string[];
  readonly on: readonly RetryReason[];
}

/** What a rule looks at in a request. */
export interface RetryQuestion {
  readonly request: { readonly method?: string | undefined };
  readonly sale: Sale | null;
}

export class RetryRule {
  readonly attempts: number;
  /** Answers that are not passed on where there is another attempt; null: none. */
  readonly declined: ReadonlySet<number> | null;
  readonly #methods: ReadonlySet<string>;
  readonly #on: ReadonlySet<RetryReason>;

  constructor({ attempts, methods, on }: RetryOptions) {
    this.attempts = attempts;
    this.#methods = new Set(methods);
    this.#on = new Set(on);
    const statuses = [502, 503, 504].filter((status) => on.some((each) => each === String(status)));
    this.declined = statuses.length === 0 ? null : new Set(statuses);
  }

  /** Whether it may be sent once more although a target has seen it. Never what was paid for. */
  maySendTwice({ request, sale }: RetryQuestion): boolean {
    return sale === null && this.#methods.has(request.method ?? "");
  }

  /** Why it is tried again; null: it is not. */
  reasonFor(asked: RetryQuestion, delivery: Unanswered): RetryReason | null {
    if (!delivery.retriable) return null;
    const reason = delivery.sent ? this.#reasonOf(delivery) : "connect-failure";
    if (reason === null || (delivery.sent && !this.maySendTwice(asked))) return null;
    return this.#on.has(reason) ? reason : null;
  }

  #reasonOf({ reason, status }: Unanswered): RetryReason | null {
    switch (reason) {
      case "connect":
      case "broken":
        // The client would be answered 502 for it.
        return this.#on.has("connection-lost") ? "connection-lost" : "502";
      case "timeout":
        return "504";
      case "declined":
        return status === 503 ? "503" : status === 504 ? "504" : "502";
      default:
        return null;
    }
  }
}

/** A fifth of the requests may be tried again, */
const SHARE = 0.2;
/** and so many more for each second, */
const PER_SECOND = 10;
/** which add up to this, so that a target that dies can be got over at once; */
const RESERVE = 100;
/** together at most. */
const MOST = 2_000;

export class RetryBudget {
  readonly #now: () => number;
  #left = RESERVE;
  #filledAt: number;

  /** `now`: milliseconds that only grow. */
  constructor(now: () => number) {
    this.#now = now;
    this.#filledAt = now();
  }

  /** A request has come. */
  earn(): void {
    if (this.#left < MOST) this.#left += SHARE;
  }

  /** Whether {@link spend} would be allowed. */
  get isLeft(): boolean {
    if (this.#left >= 1) return true;
    this.#fill();
    return this.#left >= 1;
  }

  /** Takes one; call it only where {@link isLeft}. */
  spend(): void {
    this.#fill();
    this.#left -= 1;
  }

  #fill(): void {
    const now = this.#now();
    const earned = ((now - this.#filledAt) / 1000) * PER_SECOND;
    if (this.#left < RESERVE) this.#left = Math.min(RESERVE, this.#left + earned);
    this.#filledAt = now;
  }
}
