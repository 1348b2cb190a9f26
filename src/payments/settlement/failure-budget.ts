/**
 * Payers whose payments failed where others succeed. A failure on chain costs us its fee, and in a batch it
 * costs the others time: whoever fails goes alone for a while, and after a few failures not at all.
 */
import { LRUCache } from "lru-cache";
import type { Time } from "../../time/time.ts";
import type { Refusal } from "../../x402/result.ts";

/** On-chain failures of one payer within the window, after which its payments are refused. */
export const MAX_FAILURES = 3;
/** The same where the settlement runs code of the payer's, which is simulated just as it is sent. */
const MAX_CODE_FAILURES = 1;
/** How long a failure counts, milliseconds. */
const FAILURE_WINDOW_MS = 600_000;
/** Payers remembered at most; the one that failed longest ago is forgotten first. */
const MAX_PAYERS = 10_000;

interface PayerRecord {
  readonly lastMs: number;
  /** Failures on chain, oldest first, milliseconds since the epoch. */
  readonly onChainMs: readonly number[];
}

export class FailureBudget {
  readonly #time: Pick<Time, "now">;
  readonly #payers = new LRUCache<string, PayerRecord>({ max: MAX_PAYERS });

  constructor(time: Pick<Time, "now">) {
    this.#time = time;
  }

  /** Its payment could not be moved together with others. */
  suspect(payer: string): void {
    this.#note(payer, []);
  }

  /**
   * Its payment was in a block and did not move: that cost us a fee. One that has code by now, and may have none
   * again when it pays next, is not given another chance.
   */
  failedOnChain(payer: string, hasCode: boolean): void {
    const times = hasCode ? MAX_FAILURES : 1;
    this.#note(
      payer,
      Array.from({ length: times }, () => this.#time.now()),
    );
  }

  /** Whether its payments go alone. */
  isSuspect(payer: string): boolean {
    const lastMs = this.#payers.peek(payer)?.lastMs;
    return lastMs !== undefined && lastMs > this.#time.now() - FAILURE_WINDOW_MS;
  }

  /** How many of its payments failed on chain within the window. */
  failures(payer: string): number {
    return this.#recent(payer).length;
  }

  /** Why no more of its payments are taken for now; undefined where they are. */
  refusal(payer: string, runsCode: boolean): Refusal | undefined {
    const most = runsCode ? MAX_CODE_FAILURES : MAX_FAILURES;
    if (this.failures(payer) < most) return undefined;
    const minutes = FAILURE_WINDOW_MS / 60_000;
    const detail = `payments of this payer failed on chain within ${minutes} minutes; try again later`;
    return { code: "invalid_transaction_state", detail };
  }

  #recent(payer: string): readonly number[] {
    const since = this.#time.now() - FAILURE_WINDOW_MS;
    return (this.#payers.peek(payer)?.onChainMs ?? []).filter((atMs) => atMs > since);
  }

  #note(payer: string, onChainMs: readonly number[]): void {
    const all = [...this.#recent(payer), ...onChainMs].slice(-MAX_FAILURES);
    this.#payers.set(payer, { lastMs: this.#time.now(), onChainMs: all });
  }
}
