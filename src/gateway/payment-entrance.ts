/**
 * How presented payments come in. To look at one takes the processor for a while, so of many that come at once a few
 * are let in in each turn of the event loop, those of addresses that have fewest first: in between it serves everybody
 * else, and nobody waits behind all of another's. Then each has a place, or waits for one.
 */
import { Counts } from "../fairness/counts.ts";
import { networkOf } from "../http/ip-address.ts";
import type { Comer, Room } from "./room.ts";
import { Turns } from "./turns.ts";

/** Payments that wait for their turn; an address has as many as may still wait. */
export const MAX_WAITING_TURNS = 8_192;

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
  async enter(address: string, most: number, payer: Comer): Promise<(() => void) | undefined> {
    const network = networkOf(address);
    const others = this.#present.of(network);
    if (others >= MAX_WAITING_TURNS - this.#turns.waiting) return undefined;
    this.#present.change(network, 1);
    const over = (): void => this.#present.change(network, -1);
    await new Promise<void>((resolve) => this.#turns.take(others, resolve));
    const room = this.#room;
    const leave = payer.isGone()
      ? undefined
      : (room.enter(address, most, "payment", payer) ??
        (await room.wait(address, most, "payment", payer)));
    if (leave === undefined) {
      over();
      return undefined;
    }
    return () => {
      leave();
      over();
    };
  }
}
