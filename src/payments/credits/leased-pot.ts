/** One pot as a process spends it: what its lease has, what requests have reserved of it, and what is not written yet. */
import type { PotChunk, PotDraw, PotDrawn, PotFill, PotUse } from "../../ledger/pots.ts";

/** A lease is asked for as large as this often what was used of it lately; more is asked for when a quarter is left. */
const AHEAD = 8n;
const LOW = 4n;
/** Pause between two questions for more ahead of time, milliseconds. */
const LOW_PAUSE_MS = 50;

/** A request that waits until the lease has what it needs. */
export interface Queued {
  readonly max: bigint;
  readonly sinceMs: number;
  readonly done: (outcome: "taken" | NotReserved) => void;
}

/**
 * `short`: there is not so much in the pot. `busy`: too many wait, or too many pots are in memory. `unavailable`: the
 * ledger does not answer.
 */
export type NotReserved = "short" | "busy" | "unavailable";

export class LeasedPot {
  readonly name: string;
  /** Requests that wait, the first first. */
  readonly queue: Queued[] = [];
  /** Changes when the lease was taken from this life: what was reserved of it before is not debited. */
  generation = 0;
  /** When the oldest debit was made that is in no question yet; null: there is none. */
  dirtySinceMs: number | null = null;
  usedMs: number;
  /** Somebody else needs what is leased here and not needed. */
  isWanted = false;
  /** It may have a lease, which is to be given back. */
  isHeld = false;
  /** All that is in the pot, as it was told last. */
  whole = 0n;
  readonly #opens: PotDraw["opens"];
  /** It has one, as far as is known. */
  #isKnown = false;
  /** In the lease as far as is known, before the chunks that are under way are taken off. */
  #held = 0n;
  /** As much of it as the question under way leaves in any case; null: none is under way. */
  #floor: bigint | null = null;
  #reserved = 0n;
  #pending = new Map<string, PotUse>();
  #pendingSum = 0n;
  #chunks: PotChunk[] = [];
  #chunksSum = 0n;
  #pace = 0n;
  #lastNeed = 0n;
  #askedMs = -Infinity;

  constructor(name: string, opens: Omit<PotFill, "pot"> | undefined, nowMs: number) {
    this.name = name;
    this.#opens = opens;
    this.usedMs = nowMs;
  }

  get isUnwritten(): boolean {
    return this.#pendingSum + this.#chunksSum > 0n;
  }

  /** No request has, or waits for, anything of it, nothing of it is to be written, and no question is under way. */
  get isIdle(): boolean {
    const isFree = this.#reserved === 0n && this.queue.length === 0;
    return isFree && !this.isUnwritten && this.#floor === null;
  }

  /** What a request may have without a question to the ledger. */
  get available(): bigint {
    const left = this.#left;
    const usable = this.#floor !== null && this.#floor < left ? this.#floor : left;
    return usable - this.#reserved - this.#pendingSum;
  }

  /** What is in the pot, as far as is known, beside what requests of this life have reserved or used. */
  get left(): bigint {
    const left = this.whole - this.#chunksSum - this.#pendingSum - this.#reserved;
    return left > 0n ? left : 0n;
  }

  /** Little is left of the lease, and there is more in the pot. */
  isLow(nowMs: number): boolean {
    if (this.isWanted || this.whole <= this.#held) return false;
    return nowMs - this.#askedMs >= LOW_PAUSE_MS && this.available < this.#ahead / LOW;
  }

  /** Whether the pot may have so much for one request, whoever has leased the rest. */
  mayHave(max: bigint): boolean {
    return this.whole - this.#reserved - this.#pendingSum >= max;
  }

  get #left(): bigint {
    return this.#held - this.#chunksSum;
  }

  get #ahead(): bigint {
    return AHEAD * (this.#pace > this.#lastNeed ? this.#pace : this.#lastNeed);
  }

  /** Reserves of what is {@link available}; false where that is too little. */
  take(max: bigint, nowMs: number): boolean {
    this.#lastNeed = max;
    this.usedMs = nowMs;
    if (this.available < max) return false;
    this.#reserved += max;
    return true;
  }

  giveBack(max: bigint): void {
    this.#reserved -= max;
  }

  /** What was reserved is given back besides. */
  debit({ route, amount, count }: PotUse, nowMs: number): void {
    const known = this.#pending.get(route);
    const sum = { amount: (known?.amount ?? 0n) + amount, count: (known?.count ?? 0) + count };
    this.#pending.set(route, { route, ...sum });
    this.#pendingSum += amount;
    this.#pace += amount;
    this.dirtySinceMs ??= nowMs;
    this.usedMs = nowMs;
  }

  /** The question to ask now. `isEnding`: nothing is kept that no request has. */
  ask(turn: number, isEnding: boolean, nowMs: number): PotDraw {
    if (this.#pendingSum > 0n) {
      this.#chunks.push({ turn, uses: [...this.#pending.values()] });
      this.#chunksSum += this.#pendingSum;
      this.#pending = new Map();
      this.#pendingSum = 0n;
    }
    this.dirtySinceMs = null;
    this.#askedMs = nowMs;
    const isShrinking = isEnding || this.isWanted;
    // Kept in any case, so that requests go on while the question is under way.
    const base = isShrinking ? this.#reserved : this.#left;
    this.#floor = base;
    const [next] = this.queue;
    const missing = next === undefined ? 0n : this.#reserved + next.max - base;
    const first = !isEnding && missing > 0n ? missing : 0n;
    const waiting = this.queue.reduce((sum, { max }) => sum + max, this.#reserved);
    const wish = isShrinking ? 0n : waiting + this.#ahead;
    this.#pace /= 2n;
    const opens = this.#opens === undefined ? {} : { opens: this.#opens };
    const chunks = [...this.#chunks];
    return { pot: this.name, turn, chunks, isHeld: this.#isKnown, base, first, wish, ...opens };
  }

  /** `written`: what is so now. `lost`: what was answered, and is never written. */
  answered(drawn: PotDrawn): { readonly written: bigint; readonly lost: bigint } {
    this.#floor = null;
    this.whole = drawn.whole;
    this.isWanted = drawn.isWanted;
    if (drawn.isOver) return this.#lose();
    const written = this.#chunksSum;
    this.isHeld = drawn.held > 0n;
    this.#isKnown = this.isHeld;
    this.#held = drawn.held;
    this.#chunks = [];
    this.#chunksSum = 0n;
    return { written, lost: 0n };
  }

  /** Whether it was done is not known: what it may have given back is not used. */
  failed({ base }: PotDraw): void {
    this.#floor = null;
    const least = base + this.#chunksSum;
    if (least < this.#held) this.#held = least;
    this.isHeld = true;
  }

  #lose(): { readonly written: bigint; readonly lost: bigint } {
    const lost = this.#pendingSum + this.#chunksSum;
    this.generation += 1;
    this.isHeld = false;
    this.#isKnown = false;
    this.#held = 0n;
    this.#reserved = 0n;
    this.#pending = new Map();
    this.#pendingSum = 0n;
    this.#chunks = [];
    this.#chunksSum = 0n;
    this.dirtySinceMs = null;
    return { written: 0n, lost };
  }
}
