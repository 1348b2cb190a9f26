/** One test's store, its time, and the lives that are opened on it. */
import { afterEach, beforeEach } from "vitest";
import type { Ledger } from "../../../src/ledger/ledger.ts";
import { systemTime, type Time } from "../../../src/time/time.ts";
import type { LedgerOptions, OpenLedger } from "../../support/ledger-contract.ts";

/** Stands still until it is moved; waits are the system's. */
class SetTime implements Time {
  nowMs = 1_700_000_000_000;

  now(): number {
    return this.nowMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return systemTime.sleep(ms, signal);
  }

  timeout(ms: number): AbortSignal {
    return systemTime.timeout(ms);
  }
}

export class Place {
  readonly time = new SetTime();
  readonly store = `contract_${crypto.randomUUID().replaceAll("-", "").slice(0, 20)}`;
  readonly #open: OpenLedger;
  readonly #opened: Ledger[] = [];
  #ledger: Ledger | undefined;

  constructor(open: OpenLedger) {
    this.#open = open;
  }

  /** The life that was begun last. */
  get ledger(): Ledger {
    if (this.#ledger === undefined) throw new Error("no life has begun");
    return this.#ledger;
  }

  /** Begins a life beside those that there are. */
  async live(life: string, options: Pick<LedgerOptions, "onUnreadable"> = {}): Promise<Ledger> {
    const ledger = await this.#open({ store: this.store, life, time: this.time, ...options });
    this.#opened.push(ledger);
    this.#ledger = ledger;
    return ledger;
  }

  /** Ends the last life and begins another. */
  async restart(life: string): Promise<Ledger> {
    await this.ledger.close();
    return this.live(life);
  }

  async close(): Promise<void> {
    for (const ledger of this.#opened) await ledger.close();
  }
}

/** A new place for each test of the suite around it, with its first life. */
export function eachTestIn(open: OpenLedger): () => Place {
  let place: Place;
  beforeEach(async () => {
    place = new Place(open);
    await place.live("first");
  });
  afterEach(async () => place.close());
  return () => place;
}
