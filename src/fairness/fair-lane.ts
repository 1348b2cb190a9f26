/**
 * Where strangers' payments wait for somebody who can only be asked so much: the chain, or a facilitator. Anybody can
 * write payments that are refused, signed well by keys that hold nothing. So few are under way at a time, few more wait,
 * and whoever finds no place is told so at once. A client may have as many places as are still free, so alone never
 * more than half of them; and of those that wait, the next is one of the client that has fewest under way and refused,
 * of equal ones the one whose last turn is longest ago, so that nobody waits behind all of another's. Who has bought
 * here stands one before whoever has never been seen: addresses are cheap.
 */
import { LRUCache } from "lru-cache";
import { Counts } from "./counts.ts";

/** Clients of whom it is remembered how many of their payments were refused, and when they last had a turn. */
const MAX_REMEMBERED = 4_096;
/** Clients of whom it is remembered that their last payment was good: no number of others makes them forgotten. */
const MAX_BUYERS = 4_096;
/** So many refused payments count; whoever shows more is no further behind. */
const MAX_REFUSED = 4;

const KNOWN = "gateway ";
const ANYBODY = "address ";

/** The name of a client with a token of its own: what it shows is many buyers', and has its turn first. */
export function knownClient(gateway: string): string {
  return KNOWN + gateway;
}

/** The name of one without, who only asks for judgements: it stands one behind those who buy here. */
export function anyClient(address: string): string {
  return ANYBODY + address;
}

export interface FairLaneOptions {
  /** Payments under way at the same time. */
  readonly calls: number;
  /** Payments that wait for one of those turns. */
  readonly waiting: number;
  /**
   * What is thrown. `crowded`: the client has as many places as are free; `late`: the signal ended the wait.
   */
  readonly fault: (reason: "crowded" | "late") => Error;
}

/** A payment that is asked about when its turn comes. */
export interface Turn<Value> {
  /** Who shows it, by a name that tells it from others. */
  readonly client: string;
  readonly work: () => Promise<Value>;
  /** Whether the payment was found good. Clients of whom many were not have their turns behind others. */
  readonly isGood: (value: Value) => boolean;
}

/** What is remembered of a client. */
interface Past {
  /** Payments that were not found good behind its last good one. */
  readonly refused: number;
  /** How many turns had begun when its last one did. */
  readonly last: number;
}

interface Waiting {
  readonly client: string;
  readonly begin: () => void;
}

export class FairLane {
  readonly #options: FairLaneOptions;
  /** Places of each client, under way and waiting. */
  readonly #places = new Counts();
  readonly #underWay = new Counts();
  readonly #past = new LRUCache<string, Past>({ max: MAX_REMEMBERED });
  readonly #buyers = new LRUCache<string, true>({ max: MAX_BUYERS });
  #calls = 0;
  #begun = 0;
  /** The oldest first. */
  readonly #waiting = new Set<Waiting>();

  constructor(options: FairLaneOptions) {
    this.#options = options;
  }

  /** Whether nobody is in it. */
  get isEmpty(): boolean {
    return this.#places.total === 0;
  }

  /** Does the work when it is that payment's turn. Throws what the work throws, and the faults of the options. */
  async run<Value>(turn: Turn<Value>, signal: AbortSignal): Promise<Value> {
    const { client } = turn;
    const { calls, waiting, fault } = this.#options;
    if (!this.#places.hasShare(client, calls + waiting)) throw fault("crowded");
    this.#places.change(client, 1);
    try {
      if (this.#calls >= calls) await this.#wait(client, signal);
      else this.#begin(client);
      return await this.#work(turn).finally(() => this.#end(client));
    } finally {
      this.#places.change(client, -1);
    }
  }

  async #work<Value>({ client, work, isGood }: Turn<Value>): Promise<Value> {
    let hasPassed = false;
    try {
      const value = await work();
      hasPassed = isGood(value);
      return value;
    } finally {
      const { refused, last } = this.#pastOf(client);
      this.#past.set(client, { refused: hasPassed ? 0 : refused + 1, last });
      if (!hasPassed) this.#buyers.delete(client);
      else if (!client.startsWith(ANYBODY)) this.#buyers.set(client, true);
    }
  }

  #begin(client: string): void {
    this.#calls += 1;
    this.#begun += 1;
    this.#underWay.change(client, 1);
    this.#past.set(client, { refused: this.#pastOf(client).refused, last: this.#begun });
  }

  #end(client: string): void {
    this.#calls -= 1;
    this.#underWay.change(client, -1);
    this.#next()?.begin();
  }

  /** Resolves when the payment has begun: between that and the end of another no third one comes in. */
  async #wait(client: string, signal: AbortSignal): Promise<void> {
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
      turn.reject(this.#options.fault("late"));
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
    let first = { rank: Number.POSITIVE_INFINITY, last: Number.POSITIVE_INFINITY };
    for (const waiting of this.#waiting) {
      const { last } = this.#pastOf(waiting.client);
      const rank = this.#rankOf(waiting.client);
      if (rank > first.rank || (rank === first.rank && last >= first.last)) continue;
      first = { rank, last };
      next = waiting;
    }
    return next;
  }

  /** The lowest is next. */
  #rankOf(client: string): number {
    if (client.startsWith(KNOWN)) return 0;
    const { refused } = this.#pastOf(client);
    const behind = client.startsWith(ANYBODY) ? 1 : 0;
    const before = this.#buyers.peek(client) === undefined ? 0 : 1;
    return behind - before + this.#underWay.of(client) + Math.min(refused, MAX_REFUSED);
  }

  #pastOf(client: string): Past {
    return this.#past.peek(client) ?? UNKNOWN;
  }
}

const UNKNOWN: Past = { refused: 0, last: 0 };
