/**
 * How presented payments come in. To look at one takes the processor for a while, so of many that come at once a few
 * are let in in each turn of the event loop, those of addresses that have fewest first: in between it serves everybody
 * else, and nobody waits behind all of another's. Then each has a place, or waits for one.
 */
import { Counts } from "../x402/counts.ts";
import { networkOf } from "./client/ip-address.ts";
import type { Holder, Room } from "./room.ts";
import { Turns } from "./turns.ts";

/** Payments that wait for their turn; an address may have as many as are free. */
export const MAX_WAITING = 8_192;

/** Whoever presents a payment. */
export interface Payer extends Holder {
  isGone(): boolean;
  /** Hears that the client has left; what it returns ends that. */
  onGone(listener: () => void): () => void;
}

export class PaymentEntrance {
  readonly #room: Room;
  readonly #turns = new Turns();
  /** Payments that have come and are not over, by address (of IPv6: /64). */
  readonly #present = new Counts();

  constructor(room: Room) {
    this.#room = room;
  }

  /** Those that wait for their turn, or for a place. */
  get waiting(): number {
    return this.#turns.waiting + this.#room.waiting;
  }

  /**
   * Lets a payment in. What it resolves with gives its place back, once; undefined: there is none, or its client has
   * left meanwhile.
   * @param most places that there are
   */
  async enter(address: string, most: number, payer: Payer): Promise<(() => void) | undefined> {
    const network = networkOf(address);
    const others = this.#present.of(network);
    if (others >= MAX_WAITING - this.#turns.waiting) return undefined;
    this.#present.change(network, 1);
    const over = (): void => this.#present.change(network, -1);
    await this.#turn(others);
    const leave = await this.#place(address, most, payer);
    if (leave === undefined) {
      over();
      return undefined;
    }
    return () => {
      leave();
      over();
    };
  }

  #turn(others: number): Promise<void> {
    return new Promise((resolve) => this.#turns.take(others, resolve));
  }

  async #place(address: string, most: number, payer: Payer): Promise<(() => void) | undefined> {
    if (payer.isGone()) return undefined;
    const leave = this.#room.enter(address, most, "payment", payer);
    if (leave !== undefined) return leave;
    const gone = new AbortController();
    const stop = payer.onGone(() => gone.abort());
    try {
      return await this.#room.wait(address, most, payer, gone.signal);
    } finally {
      stop();
    }
  }
}
