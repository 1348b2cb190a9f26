/**
 * Payers whose payments, with those that are under way, may take more than they have. No sender is given a payment
 * of theirs before what they have was read beside the payments that are under way: what fits goes on, and the
 * rest waits until some of those are decided, or there is too little whatever becomes of them.
 */
import type { Settlements } from "../../ledger/ledger.ts";
import { amountOf } from "../../ledger/payment-row.ts";
import {
  purseName,
  purseOf,
  sumOf,
  unseenOf,
  unseenSince,
  type PurseReading,
  type Spend,
} from "../../ledger/purse.ts";
import type { PurseReader } from "../../mechanism/mechanism.ts";
import { forNobody } from "../../telemetry/request-context.ts";
import type { Time } from "../../time/time.ts";
import type { Refusal } from "../../x402/result.ts";
import { unitsText } from "../../x402/token.ts";
import type { SignablePayment } from "./pending-payment.ts";

/** How long a payment waits for others of its payer to be decided, milliseconds: a few blocks. */
const WAIT_MS = 4_000;
/** Payments that wait at most, in all and of one purse; others are refused without waiting. */
export const MAX_WAITING = 1_024;
export const MAX_WAITING_OF_ONE = 256;
/** Payments under way of which one reading tells whether it shows them; further ones count as unseen. */
const MAX_ASKED = 128;
/** Undecided payments, oldest first, any of which may end a wait. */
const MAX_FOLLOWED = 8;
/** Pause before a purse is read again where all is decided, and the node does not show it yet, milliseconds. */
const LAG_MS = 500;
/** Longest that one reading may take, milliseconds. */
const READ_TIMEOUT_MS = 10_000;

export interface ContestedPursesOptions {
  readonly ledger: Pick<Settlements, "changed"> & {
    readonly signing: Pick<Settlements["signing"], "spends">;
  };
  readonly time: Time;
  readonly closing: AbortSignal;
  /** Fits by what was read: to be judged again, and signed. */
  readonly admitted: (item: SignablePayment) => void;
  readonly refused: (item: SignablePayment, refusal: Refusal) => void;
  /** Its purse cannot be read. */
  readonly unread: (item: SignablePayment, cause: unknown) => void;
}

/** One payment that waits. */
interface Waiting {
  readonly item: SignablePayment;
  readonly untilMs: number;
  readonly amountAtomic: bigint;
}

/** What was seen of a purse beside what the ledger has of it. */
interface Seen {
  readonly reading: PurseReading;
  readonly unseen: readonly Spend[];
}

export class ContestedPurses {
  readonly #purses: PurseReader | undefined;
  readonly #at: ContestedPursesOptions;
  /** By purse, in the order in which they came; a purse that is here is at work. */
  readonly #lines = new Map<string, Waiting[]>();
  #size = 0;
  readonly #running = new Set<Promise<void>>();

  /** Without a reader the mechanism itself keeps payments of one payer apart, and nothing is held. */
  constructor(purses: PurseReader | undefined, options: ContestedPursesOptions) {
    this.#purses = purses;
    this.#at = options;
  }

  get isKept(): boolean {
    return this.#purses !== undefined;
  }

  /** Payments that wait. */
  get size(): number {
    return this.#size;
  }

  /** Whether it has to stand behind others of its purse, and does not come from there. */
  isBehind({ key, held }: SignablePayment): boolean {
    return held === undefined && this.#lines.has(purseName(key));
  }

  /** Takes a payment that may not fit; it comes back by one of the options' calls. */
  hold(item: SignablePayment): void {
    const name = purseName(item.key);
    const line = this.#lines.get(name);
    const isFull = this.#size >= MAX_WAITING || (line?.length ?? 0) >= MAX_WAITING_OF_ONE;
    if (isFull) return this.#at.refused(item, UNDER_WAY);
    const untilMs = item.held?.untilMs ?? this.#at.time.now() + WAIT_MS;
    const waiting = { item, untilMs, amountAtomic: BigInt(amountOf(item.request)) };
    this.#size += 1;
    if (line !== undefined) return void line.push(waiting);
    const opened = [waiting];
    this.#lines.set(name, opened);
    const running = forNobody(() => this.#serve(name, opened)).finally(() => {
      this.#running.delete(running);
    });
    this.#running.add(running);
  }

  /** Resolves when nothing waits any more: soon after `closing` has ended. */
  async drained(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running);
  }

  /** Until nobody waits. Never rejects. */
  async #serve(name: string, line: Waiting[]): Promise<void> {
    for (let first = line[0]; first !== undefined; first = line[0]) {
      try {
        this.#at.closing.throwIfAborted();
        const seen = await this.#read(first.item);
        this.#judge(line, seen);
        if (line.length > 0) await this.#wait(line, seen.unseen);
      } catch (cause) {
        for (const { item } of this.#takeOut(line, () => true)) this.#at.unread(item, cause);
      }
    }
    this.#lines.delete(name);
  }

  async #read(item: SignablePayment): Promise<Seen> {
    const { ledger, time, closing } = this.#at;
    if (this.#purses === undefined) throw new TypeError("purses cannot be read on this network");
    // Before the chain is asked: what is decided in between is told by the chain.
    const spends = await ledger.signing.spends(purseOf(item.key), unseenSince(time.now()));
    const asked = spends.slice(0, MAX_ASKED);
    const nonces = asked.map(({ key }) => key.slice(key.lastIndexOf("/") + 1));
    const signal = AbortSignal.any([closing, time.timeout(READ_TIMEOUT_MS)]);
    const { executed, ...balance } = await this.#purses.read(item.checked, nonces, signal);
    const seen = new Set(asked.filter((_, index) => executed[index]).map(({ key }) => key));
    const reading = { ...balance, seen };
    return { reading, unseen: unseenOf(spends, reading) };
  }

  /** Lets go on what fits, and refuses what cannot, or has waited long enough. */
  #judge(line: Waiting[], { reading, unseen }: Seen): void {
    const { time, admitted, refused } = this.#at;
    const { balanceAtomic } = reading;
    const nowMs = time.now();
    let free = balanceAtomic - sumOf(unseen);
    const fits = this.#takeOut(line, ({ amountAtomic }) => {
      if (amountAtomic > free) return false;
      free -= amountAtomic;
      return true;
    });
    const over = this.#takeOut(line, ({ amountAtomic, untilMs }) => {
      return amountAtomic > balanceAtomic || nowMs >= untilMs;
    });
    for (const { item, untilMs } of fits) admitted({ ...item, held: { untilMs, reading } });
    for (const { item, amountAtomic } of over) {
      refused(
        item,
        amountAtomic > balanceAtomic ? tooLittle(item, balanceAtomic, amountAtomic) : UNDER_WAY,
      );
    }
  }

  /** Until one of those payments may be decided, or somebody has waited long enough. */
  async #wait(line: readonly Waiting[], unseen: readonly Spend[]): Promise<void> {
    const { ledger, time, closing } = this.#at;
    const followed = unseen.filter(({ settledMs }) => settledMs === null).slice(0, MAX_FOLLOWED);
    const leftMs = Math.min(...line.map(({ untilMs }) => untilMs)) - time.now();
    const pauseMs = followed.length > 0 ? leftMs : Math.min(leftMs, LAG_MS);
    const over = new AbortController();
    const signal = AbortSignal.any([closing, over.signal]);
    const decided = followed.map(({ key, version }) => ledger.changed(key, version, signal));
    await Promise.race([time.sleep(Math.max(0, pauseMs), signal), ...decided]);
    over.abort();
  }

  /** In their order. */
  #takeOut(line: Waiting[], isMeant: (waiting: Waiting) => boolean): readonly Waiting[] {
    const taken: Waiting[] = [];
    const left = line.filter((waiting) => {
      const isTaken = isMeant(waiting);
      if (isTaken) taken.push(waiting);
      return !isTaken;
    });
    line.splice(0, line.length, ...left);
    this.#size -= taken.length;
    return taken;
  }
}

const UNDER_WAY: Refusal = {
  code: "insufficient_funds",
  detail:
    "other payments of this payer are under way, and what the payer holds may not be enough for all of " +
    "them; try again when they are settled",
};

function tooLittle(
  { request }: SignablePayment,
  balanceAtomic: bigint,
  amountAtomic: bigint,
): Refusal {
  const { asset: address } = request.paymentRequirements;
  const detail = `the payer holds ${unitsText([balanceAtomic, amountAtomic], { address })}`;
  return { code: "insufficient_funds", detail };
}
