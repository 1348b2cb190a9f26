/**
 * Where payments wait whose signatures prove nothing without the chain: anybody can write one. Few of them ask the
 * chain at a time, few more wait, and whoever finds no place is told so at once. A client may have as many places as
 * are still free, so alone never more than half of them; and of those that wait, the next is one of the client that
 * has fewest under way, so that nobody waits behind all of another's.
 */
import { Counts } from "../x402/counts.ts";
import { ChainError } from "./mechanism.ts";

/** Payments that ask the chain at the same time; each has a connection of its own to an endpoint. */
export const MAX_UNPROVEN_CALLS = 8;
/** Payments that wait for one of those. */
export const MAX_UNPROVEN_WAITING = 24;

interface Waiting {
  readonly client: string;
  readonly begin: () => void;
}

export class UnprovenLane {
  /** Places of each client, under way and waiting. */
  readonly #places = new Counts();
  readonly #underWay = new Counts();
  #taken = 0;
  #calls = 0;
  /** The oldest first. */
  readonly #waiting = new Set<Waiting>();

  /** Whether nobody is in it. */
  get isEmpty(): boolean {
    return this.#taken === 0;
  }

  /**
   * Does the work when it is that payment's turn.
   * @param client a name that tells it from others
   * @throws {ChainError} `CHAIN_BUSY` where the client has as many places as are free, `CHAIN_TIMEOUT` where the
   * signal ends the wait; else what the work throws
   */
  async run<Value>(
    client: string,
    work: () => Promise<Value>,
    signal: AbortSignal,
  ): Promise<Value> {
    const free = MAX_UNPROVEN_CALLS + MAX_UNPROVEN_WAITING - this.#taken;
    if (this.#places.of(client) >= free) {
      throw new ChainError("CHAIN_BUSY", "too many payments wait whose signatures are unproven");
    }
    this.#taken += 1;
    this.#places.change(client, 1);
    try {
      if (this.#calls >= MAX_UNPROVEN_CALLS) await this.#turn(client, signal);
      else this.#begin(client);
      return await work().finally(() => this.#end(client));
    } finally {
      this.#taken -= 1;
      this.#places.change(client, -1);
    }
  }

  #begin(client: string): void {
    this.#calls += 1;
    this.#underWay.change(client, 1);
  }

  #end(client: string): void {
    this.#calls -= 1;
    this.#underWay.change(client, -1);
    this.#next()?.begin();
  }

  /** Resolves when the payment has begun: between that and the end of another no third one comes in. */
  async #turn(client: string, signal: AbortSignal): Promise<void> {
    const turn = Promise.withResolvers<void>();
    const waiting: Waiting = {
      client,
      begin: () => {
        this.#waiting.delete(waiting);
        this.#begin(client);
        turn.resolve();
      },
    };
    const giveUp = (): void => {
      // Whose turn it is already has begun.
      if (!this.#waiting.delete(waiting)) return;
      turn.reject(new ChainError("CHAIN_TIMEOUT", "its turn to be judged did not come in time"));
    };
    this.#waiting.add(waiting);
    signal.addEventListener("abort", giveUp, { once: true });
    if (signal.aborted) giveUp();
    try {
      await turn.promise;
    } finally {
      signal.removeEventListener("abort", giveUp);
    }
  }

  #next(): Waiting | undefined {
    let next: Waiting | undefined;
    let fewest = Number.POSITIVE_INFINITY;
    for (const waiting of this.#waiting) {
      const underWay = this.#underWay.of(waiting.client);
      if (underWay >= fewest) continue;
      fewest = underWay;
      next = waiting;
    }
    return next;
  }
}
