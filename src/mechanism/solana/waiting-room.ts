/** Payments that wait for a while until others are decided; as many as there are places. */
import type { Time } from "../../time/time.ts";
import { ChainError } from "../mechanism.ts";

/** How long a payment waits for others to be decided, milliseconds. */
export const WAIT_MS = 2_000;
/** Payments that wait at most; others are refused without waiting. */
const MAX_WAITING = 256;

export class WaitingRoom {
  readonly #time: Pick<Time, "sleep">;
  readonly #abandoned: string;
  readonly #waiting = new Set<AbortController>();

  /** @param abandoned what is said where the signal ends the wait */
  constructor(time: Pick<Time, "sleep">, abandoned: string) {
    this.#time = time;
    this.#abandoned = abandoned;
  }

  get isFull(): boolean {
    return this.#waiting.size >= MAX_WAITING;
  }

  /**
   * Until one is decided, or the time is over.
   * @throws {ChainError} `CHAIN_TIMEOUT` when the signal ends the wait
   */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    const wake = new AbortController();
    this.#waiting.add(wake);
    await this.#time.sleep(ms, AbortSignal.any([signal, wake.signal]));
    this.#waiting.delete(wake);
    if (signal.aborted) throw new ChainError("CHAIN_TIMEOUT", this.#abandoned);
  }

  /** One is decided: all look again. */
  wake(): void {
    for (const each of this.#waiting) each.abort();
  }
}
