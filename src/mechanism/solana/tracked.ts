/**
 * What earlier looks at one transaction found, and what websockets told of it, so that the next look asks
 * what is worth asking. Nothing here decides anything: forgotten, a look asks again.
 */
import type { Look } from "../mechanism.ts";
import type { Rpc } from "../rpc.ts";
import type { SubscriptionState } from "./pubsub-channel.ts";

/** How often a transaction is read while a websocket promises to tell, milliseconds. */
export const POLL_MS = 2_000;
/** The same while the websocket is being opened, and without one. */
const STARTING_POLL_MS = 500;
const BARE_POLL_MS = 200;
const PAUSES_MS: Readonly<Record<SubscriptionState, number>> = {
  live: POLL_MS,
  starting: STARTING_POLL_MS,
  none: BARE_POLL_MS,
};
/** So long after a websocket has told, nodes are asked again soon, milliseconds. */
const HINT_MS = 10_000;
/** How long a transaction is in no block before anybody asks whether it can still be, milliseconds. */
const UNSEEN_MS = 2_000;
/** A subscription that came so long after the sending may have missed the block, milliseconds. */
const LATE_SUBSCRIPTION_MS = 200;
/** After so long without a look, a node's recent memory is not relied on, milliseconds. */
const SEARCHED_AFTER_MS = 20_000;
/**
 * After so long in no block, and so long undecided in one, every look is another endpoint's than the last,
 * milliseconds: a node whose answers do not move on any more must not be the only one that is asked. A block
 * takes a second or two, its finality about thirteen more.
 */
const STUCK_MS = 10_000;
const STUCK_IN_BLOCK_MS = 30_000;
/** How often another endpoint is asked whether a transaction has failed in its block. */
const MAX_SECOND_OPINIONS = 3;

/** All times are milliseconds since the epoch. */
export class Tracked {
  /** Since when it is known here. */
  readonly #knownMs: number;
  /** The first broadcast; undefined for what another life has sent. */
  readonly #sentMs: number | undefined;
  /** When its status was last read. */
  #readMs: number | undefined;
  /** Since when it is in no block, as far as anybody knows. */
  #unseenSinceMs: number;
  /** When a websocket last told that it is in a block. */
  #hintedMs: number | undefined;
  #hint = Promise.withResolvers<"included">();
  /** A websocket may have missed it, since the subscription came late. */
  #isLate = false;
  /** The next look has reason to read. */
  #isDue = false;
  #isSuspected = false;
  #opinions = 0;
  #avoid: Rpc | undefined;
  #last: Look | undefined;
  /** When a node last took the bytes. */
  takenMs: number | undefined;

  /** @param isSent whether it is sent now, for the first time as far as anybody here knows */
  constructor(nowMs: number, isSent: boolean) {
    this.#knownMs = nowMs;
    this.#sentMs = isSent ? nowMs : undefined;
    this.#unseenSinceMs = nowMs;
  }

  /** What the last look found, unless that was a failure. */
  get last(): Look | undefined {
    return this.#last;
  }

  /** The last look found that it has failed, which counts when the next one finds it too. */
  get isSuspected(): boolean {
    return this.#isSuspected;
  }

  /** An endpoint whose word is not enough: somebody else is to be asked. */
  get avoid(): Rpc | undefined {
    return this.#avoid;
  }

  /** Whether no websocket had told, though it could. */
  get isMissed(): boolean {
    return this.#hintedMs === undefined && !this.#isLate;
  }

  /** Resolves when a websocket tells from now on. One waits at a time. */
  awaitHint(): Promise<"included"> {
    this.#hint = Promise.withResolvers();
    return this.#hint.promise;
  }

  /** Whether it is time to ask a node again. */
  isDue(state: SubscriptionState, nowMs: number): boolean {
    if (this.#isDue || this.#isSuspected) return true;
    const isHinted = isWithin(HINT_MS, this.#hintedMs, nowMs);
    const pauseMs = isHinted ? BARE_POLL_MS : PAUSES_MS[state];
    return !isWithin(pauseMs, this.#readMs ?? this.#sentMs, nowMs);
  }

  /** Whether the node is to search its history, since it may have been in a block long ago. */
  isOld(nowMs: number): boolean {
    return !isWithin(SEARCHED_AFTER_MS, this.#readMs ?? this.#sentMs, nowMs);
  }

  /** Whether it was in no block for so long that it may never be. */
  mayBeExpired(nowMs: number): boolean {
    return !isWithin(UNSEEN_MS, this.#unseenSinceMs, nowMs);
  }

  /** Its status is being read. */
  reading(): void {
    this.#isDue = false;
  }

  /** Its status was read. */
  read(isSeen: boolean, nowMs: number): void {
    this.#readMs = nowMs;
    if (isSeen) this.#unseenSinceMs = nowMs;
  }

  /** What a look found, and whose word that was. */
  found(look: Look, rpc: Rpc, nowMs: number): void {
    const isFailed = isAny(look, "failed");
    this.#last = isFailed ? undefined : look;
    this.#isSuspected = isFailed;
    if (this.#isDoubtful(look, nowMs)) this.#avoid = rpc;
    // Who has the last word is to repeat it.
    else if (!isFailed || this.#avoid === rpc) this.#avoid = undefined;
  }

  /** A websocket says that it is in a block. */
  notified(nowMs: number): void {
    this.#hintedMs = nowMs;
    this.#isDue = true;
    this.#hint.resolve("included");
  }

  /** A websocket will tell from now on. */
  subscribed(nowMs: number): void {
    if (isWithin(LATE_SUBSCRIPTION_MS, this.#sentMs, nowMs)) return;
    this.#isLate = true;
    this.#isDue = true;
  }

  #isDoubtful(look: Look, nowMs: number): boolean {
    const isIncluded = look.included !== null;
    if (!isAny(look, "failed")) {
      // Told to be in a block, and not found there: this node may be behind.
      if (!isIncluded && isWithin(HINT_MS, this.#hintedMs, nowMs)) return true;
      const stuckMs = isIncluded ? STUCK_IN_BLOCK_MS : STUCK_MS;
      return !isAny(look, "confirmed") && nowMs - this.#knownMs >= stuckMs;
    }
    if (!isIncluded) return true;
    // Where the others never come to know of its block, there is nobody else to ask.
    this.#opinions += 1;
    return this.#opinions <= MAX_SECOND_OPINIONS;
  }
}

/** Whether a payment of the look has come to that. */
export function isAny({ payments }: Look, wanted: "confirmed" | "failed"): boolean {
  return payments.some(({ kind }) => kind === wanted);
}

/** Whether something happened less than so long ago; what never happened did not. */
export function isWithin(ms: number, atMs: number | undefined, nowMs: number): boolean {
  if (atMs === undefined) return false;
  const agoMs = nowMs - atMs;
  // A clock that was set back must not stop the looks.
  return agoMs >= 0 && agoMs < ms;
}
