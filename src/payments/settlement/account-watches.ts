/** What was signed with one account and is not final yet: taken up from the ledger, and watched to its end. */
import type { WatchSurroundings } from "./surroundings.ts";
import type { StoredSubmission } from "../../ledger/ledger.ts";
import { SubmissionWatch, type WatchedAccount } from "./submission-watch.ts";

/** How long the late looks of one round may take before the rest is left to the next, milliseconds. */
const LATE_LOOKS_MS = 5_000;

export interface AccountWatchesOptions {
  readonly at: WatchSurroundings;
  readonly sender: WatchedAccount;
  /** Ends them all; what is open is left to the ledger. */
  readonly ending: AbortSignal;
  /** One of them is through. */
  readonly onChange: () => void;
}

export class AccountWatches {
  readonly #options: AccountWatchesOptions;
  /** In the air; and those that are in a block, though not for good. */
  readonly #open = new Map<string, SubmissionWatch>();
  readonly #included = new Map<string, SubmissionWatch>();
  readonly #running = new Set<Promise<void>>();
  /** Whether the ledger may hold submissions of this account that are not known here. */
  #isBehind = true;

  constructor(options: AccountWatchesOptions) {
    this.#options = options;
  }

  /** In the air: one whose account nonce is used takes nobody's place, whatever is still to be decided. */
  get openCount(): number {
    let count = 0;
    for (const { holdsUp } of this.#open.values()) if (holdsUp) count += 1;
    return count;
  }

  /** Whether no earlier account nonce is unused. */
  isNext(accountNonce: number): boolean {
    return [...this.#open.values()].every(
      (watch) => !watch.holdsUp || watch.accountNonce >= accountNonce,
    );
  }

  /** What the ledger stored may not have been told: it is read again. */
  fallBehind(): void {
    this.#isBehind = true;
  }

  /** Takes up what the ledger holds of this account and nobody here watches. Never rejects. */
  async takeUp(): Promise<void> {
    if (!this.#isBehind) return;
    const { at, sender } = this.#options;
    const { network, address } = sender.lease;
    try {
      await this.#takeUp();
    } catch (cause) {
      const { logger } = at.telemetry;
      logger.warn({ err: cause, network, address }, "unfinished submissions not read");
    }
  }

  /** Takes up what is unfinished and looks again at what is not final. Never rejects. */
  async round(): Promise<void> {
    await this.takeUp();
    const { at, ending } = this.#options;
    const { time, mechanism } = at;
    const nowMs = time.now();
    const { looksAtOnce } = mechanism.rules;
    const due = [...this.#included.values()].filter((watch) => watch.isDue(nowMs));
    for (let first = 0; first < due.length; first += looksAtOnce) {
      const some = due.slice(first, first + looksAtOnce);
      await Promise.all(some.map((watch) => this.#lookAgain(watch)));
      if (ending.aborted || time.now() - nowMs >= LATE_LOOKS_MS) return;
    }
  }

  /** Watches what was signed just now. */
  follow(stored: StoredSubmission): void {
    this.#follow(this.#watch(stored), true);
  }

  /** Until nothing is at work any more: once they are ended. */
  async ended(): Promise<void> {
    await Promise.all(this.#running);
  }

  async #takeUp(): Promise<void> {
    const { at, sender, ending } = this.#options;
    const { network, address } = sender.lease;
    const unfinished = await at.ledger.signing.unfinished(network, address);
    this.#isBehind = false;
    for (const stored of unfinished) {
      if (ending.aborted) return;
      if (this.#open.has(stored.id) || this.#included.has(stored.id)) continue;
      const watch = this.#watch(stored);
      if (stored.state === "OPEN") this.#follow(watch, false);
      else this.#included.set(watch.id, watch);
    }
  }

  #watch(stored: StoredSubmission): SubmissionWatch {
    const { at, sender, ending } = this.#options;
    return new SubmissionWatch(stored, at, sender, ending);
  }

  #follow(watch: SubmissionWatch, isFresh: boolean): void {
    this.#open.set(watch.id, watch);
    const running = watch.run(isFresh).finally(() => {
      this.#running.delete(running);
      this.#open.delete(watch.id);
      if (watch.state === "INCLUDED") this.#included.set(watch.id, watch);
      this.#options.onChange();
    });
    this.#running.add(running);
  }

  async #lookAgain(watch: SubmissionWatch): Promise<void> {
    await watch.lookAgain();
    if (watch.state === "INCLUDED") return;
    this.#included.delete(watch.id);
    if (watch.state === "OPEN" && !this.#options.ending.aborted) this.#follow(watch, false);
  }
}
