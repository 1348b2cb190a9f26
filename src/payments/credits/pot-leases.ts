/**
 * How one process spends pots: requests are debited in memory from leases, without a write for each. What was used is
 * written within {@link WRITTEN_MS}, and when the process drains. What a crash loses was asked for, or answered, and not
 * written: of credits no more than the seller has said, since a request beyond that waits ({@link Risk}).
 */
import type { Logger } from "../../telemetry/logger.ts";
import { OVER, type Time } from "../../time/time.ts";
import { messageOf } from "../../x402/result.ts";
import {
  isCredits,
  isQuota,
  MAX_DRAWS,
  type PotDraw,
  type PotFill,
  type Pots,
} from "../../ledger/pots.ts";
import { LeasedPot, type NotReserved, type Queued } from "./leased-pot.ts";
import { Risk } from "./risk.ts";

export type { NotReserved } from "./leased-pot.ts";

/** So long after its debit what was used is written, where the ledger answers, and when the writing begins, milliseconds. */
export const WRITTEN_MS = 250;
const WRITE_MS = 200;
/** A lease of which nobody has used anything for so long is given back, milliseconds. */
export const IDLE_MS = 1_000;
/** How long a request waits for what others have leased, and how often it is asked for, milliseconds. */
export const SHORT_WAIT_MS = 2_500;
const SHORT_PAUSE_MS = 100;
/** Pause after a question that failed, milliseconds. */
const RETRY_MS = 250;
/** How often it is looked whose lease nobody uses, milliseconds. */
const LOOK_MS = 250;
/** How long a drain tries to write what was used, and how often it looks whether it has, milliseconds. */
const DRAIN_MS = 10_000;
const DRAIN_PAUSE_MS = 10;
/** Pots in memory; of quotas, which strangers open for nothing, half as many: the others are for who has paid. */
const MAX_POTS = 10_000;
/** Requests that may wait for one pot. */
export const MAX_WAITING = 256;

export interface PotLeasesOptions {
  /** Of this life. */
  readonly pots: Pick<Pots, "draw">;
  /** What of credits may be reserved, or used and not written, at any time, atomic units of a token; asked each time. */
  readonly atRisk: () => bigint;
  readonly time: Time;
  readonly logger: Logger;
  readonly maxPots?: number;
}

export interface Reserving {
  /** What the request may cost at most. */
  readonly max: bigint;
  /** Makes the pot where there is none. */
  readonly opens?: Omit<PotFill, "pot">;
}

/** What one request may use of a pot. */
export class PotShare {
  readonly #leases: Settling;
  readonly #pot: LeasedPot;
  readonly #generation: number;
  readonly #max: bigint;
  #isOpen = true;

  constructor(leases: Settling, pot: LeasedPot, max: bigint) {
    this.#leases = leases;
    this.#pot = pot;
    this.#generation = pot.generation;
    this.#max = max;
  }

  /** What is in the pot, as far as is known, beside what requests here have reserved or used. */
  get left(): bigint {
    return this.#pot.left;
  }

  /**
   * The request has used so much (0n: it has failed), at most what was reserved; the rest is given back. False: the lease was
   * lost meanwhile, and nothing is debited, which is the seller's loss. Only the first call counts. Each share has to be
   * settled, whatever becomes of its request.
   */
  settle(used: bigint, route: string): boolean {
    if (!this.#isOpen) return true;
    this.#isOpen = false;
    const amount = used < this.#max ? used : this.#max;
    const isLost = this.#generation !== this.#pot.generation;
    this.#leases(this.#pot, { amount, max: this.#max, route, isLost });
    return !isLost || amount === 0n;
  }
}

interface Settled {
  readonly amount: bigint;
  readonly max: bigint;
  readonly route: string;
  /** The lease that it was reserved of is not ours any more. */
  readonly isLost: boolean;
}

type Settling = (pot: LeasedPot, settled: Settled) => void;

/** What a request gets of a pot, or why it gets nothing. */
type Reserved = PotShare | NotReserved;

export class PotLeases {
  readonly #options: PotLeasesOptions;
  readonly #maxPots: number;
  /** In the order in which they were made. */
  readonly #pots = new Map<string, LeasedPot>();
  /** Of them, those of quotas. */
  #quotas = 0;
  /** To be asked about at once, and to be written, in the order in which they became so. */
  readonly #urgent = new Set<LeasedPot>();
  readonly #dirty = new Set<LeasedPot>();
  /** To be asked about again, and when, milliseconds. */
  readonly #again = new Map<LeasedPot, number>();
  readonly #risk: Risk;
  #turn = 0;
  /** Pots of the question under way. */
  #asked = 0;
  /** When it is looked next whose lease nobody uses, milliseconds. */
  #lookMs = 0;
  #isWorking = false;
  #isEnding = false;
  #pause: AbortController | undefined;

  constructor(options: PotLeasesOptions) {
    this.#options = options;
    this.#maxPots = options.maxPots ?? MAX_POTS;
    this.#risk = new Risk(options.atRisk, options.time);
  }

  /** What of credits is reserved, or used and not written, now. */
  get atRisk(): bigint {
    return this.#risk.taken;
  }

  /** Pots in memory, and requests that wait for them. */
  get sizes(): { readonly pots: number; readonly waiting: number } {
    const queued = [...this.#pots.values()].reduce((sum, { queue }) => sum + queue.length, 0);
    return { pots: this.#pots.size, waiting: queued + this.#risk.waiting };
  }

  /** Without a wait where the lease has enough. `signal`: nobody waits any more. */
  reserve(name: string, asked: Reserving, signal?: AbortSignal): Reserved | Promise<Reserved> {
    if (!isCredits(name)) return this.#reserve(name, asked, signal);
    if (!this.#risk.take(name, asked.max)) return this.#reserveInTurn(name, asked, signal);
    const reserved = this.#reserve(name, asked, signal);
    if (reserved instanceof Promise)
      return reserved.then((each) => this.#atRisk(name, each, asked));
    return this.#atRisk(name, reserved, asked);
  }

  /** So much is at risk already that what was used has to be written first. */
  async #reserveInTurn(name: string, asked: Reserving, signal?: AbortSignal): Promise<Reserved> {
    for (const pot of this.#dirty) this.#urgent.add(pot);
    this.#wake();
    const turn = await this.#risk.wait(name, asked.max, signal);
    if (turn !== "taken") return turn;
    return this.#atRisk(name, await this.#reserve(name, asked, signal), asked);
  }

  #atRisk(name: string, reserved: Reserved, { max }: Reserving): Reserved {
    if (!(reserved instanceof PotShare)) this.#risk.give(name, max);
    return reserved;
  }

  #reserve(
    name: string,
    { max, opens }: Reserving,
    signal: AbortSignal | undefined,
  ): Reserved | Promise<Reserved> {
    if (this.#isEnding) return "unavailable";
    const nowMs = this.#options.time.now();
    const pot = this.#pots.get(name) ?? this.#add(name, opens, nowMs);
    if (pot === undefined) return "busy";
    if (pot.queue.length === 0 && pot.take(max, nowMs)) {
      if (pot.isLow(nowMs)) this.#hurry(pot);
      return new PotShare(this.#settle, pot, max);
    }
    if (pot.queue.length >= MAX_WAITING) return "busy";
    return this.#wait(pot, max, signal);
  }

  /**
   * Nothing more is reserved, what was used is written, and what no request has is given back. Again after the last
   * request: for what those have used. What cannot be written in time is lost to the seller, which is told.
   */
  async drain(): Promise<void> {
    this.#isEnding = true;
    for (const pot of this.#pots.values()) {
      for (const { done } of pot.queue.splice(0)) done("unavailable");
      this.#hurry(pot);
    }
    const { time, logger } = this.#options;
    const untilMs = time.now() + DRAIN_MS;
    while (this.#isOpen && time.now() < untilMs) await time.sleep(DRAIN_PAUSE_MS);
    const left = [...this.#pots.values()].filter((pot) => pot.isUnwritten).length;
    if (left > 0)
      logger.error({ pots: left }, "what requests have used was not written: it is lost");
  }

  /** Something is to be written, or given back. */
  get #isOpen(): boolean {
    const pots = [...this.#pots.values()];
    return this.#asked > 0 || pots.some((pot) => pot.isUnwritten || (pot.isIdle && pot.isHeld));
  }

  readonly #settle: Settling = (pot, { amount, max, route, isLost }) => {
    const isCounted = isCredits(pot.name);
    if (isLost) {
      if (isCounted) this.#risk.give(pot.name, max);
      if (amount > 0n) this.#tellLost(pot, amount);
      return;
    }
    pot.giveBack(max);
    if (isCounted && amount < max) this.#risk.give(pot.name, max - amount);
    if (amount === 0n) {
      if (pot.queue.length > 0 || this.#isEnding) this.#hurry(pot);
      return;
    }
    pot.debit({ route, amount, count: 1 }, this.#options.time.now());
    this.#dirty.add(pot);
    if (this.#isEnding || this.#risk.waiting > 0) this.#hurry(pot);
    else this.#wake();
  };

  #add(
    name: string,
    opens: Omit<PotFill, "pot"> | undefined,
    nowMs: number,
  ): LeasedPot | undefined {
    const isStrangers = isQuota(name);
    const isCrowd = isStrangers && this.#quotas >= this.#maxPots / 2;
    if ((isCrowd || this.#pots.size >= this.#maxPots) && !this.#makeRoom(isCrowd)) return undefined;
    const pot = new LeasedPot(name, opens, nowMs);
    this.#pots.set(name, pot);
    if (isStrangers) this.#quotas += 1;
    return pot;
  }

  /**
   * The one that was made first and that nobody uses has to go; where it has a lease, that is given back first.
   * @param ofQuotas it has to be of a quota
   */
  #makeRoom(ofQuotas: boolean): boolean {
    for (const pot of this.#pots.values()) {
      if (!pot.isIdle || (ofQuotas && !isQuota(pot.name))) continue;
      if (!pot.isHeld) {
        this.#drop(pot);
        return true;
      }
      pot.usedMs = 0;
      this.#hurry(pot);
      return false;
    }
    return false;
  }

  #wait(pot: LeasedPot, max: bigint, signal: AbortSignal | undefined): Promise<Reserved> {
    return new Promise((resolve) => {
      const leave = (): void => {
        const place = pot.queue.indexOf(waiting);
        if (place >= 0) pot.queue.splice(place, 1);
        resolve("unavailable");
      };
      const waiting: Queued = {
        max,
        sinceMs: this.#options.time.now(),
        done: (outcome) => {
          signal?.removeEventListener("abort", leave);
          resolve(outcome === "taken" ? new PotShare(this.#settle, pot, max) : outcome);
        },
      };
      if (signal?.aborted === true) return resolve("unavailable");
      signal?.addEventListener("abort", leave, { once: true });
      pot.queue.push(waiting);
      this.#hurry(pot);
    });
  }

  #drop(pot: LeasedPot): void {
    this.#pots.delete(pot.name);
    if (isQuota(pot.name)) this.#quotas -= 1;
    for (const each of [this.#urgent, this.#dirty, this.#again]) each.delete(pot);
  }

  #hurry(pot: LeasedPot): void {
    this.#urgent.add(pot);
    this.#wake();
  }

  #wake(): void {
    if (this.#urgent.size > 0 || this.#dirty.size === 1) this.#pause?.abort(OVER);
    if (this.#isWorking) return;
    this.#isWorking = true;
    void this.#work();
  }

  /** One question at a time, about all that is due, until no lease is left. */
  async #work(): Promise<void> {
    const { time } = this.#options;
    // What else comes in this turn is asked with it.
    await Promise.resolve();
    while (this.#pots.size > 0) {
      const nowMs = time.now();
      const due = this.#due(nowMs);
      if (due.length > 0) {
        await this.#ask(due, nowMs);
        continue;
      }
      const inMs = this.#nextMs(nowMs);
      if (inMs === null) break;
      this.#pause = new AbortController();
      await time.sleep(inMs, this.#pause.signal);
      this.#pause = undefined;
    }
    this.#isWorking = false;
  }

  #due(nowMs: number): readonly LeasedPot[] {
    const due = new Set<LeasedPot>();
    const add = (pot: LeasedPot): boolean => due.size < MAX_DRAWS && due.add(pot).size > 0;
    for (const [pot, atMs] of this.#again) if (atMs <= nowMs) this.#urgent.add(pot);
    for (const pot of this.#urgent) if (!this.#isPaused(pot, nowMs) && !add(pot)) break;
    for (const pot of this.#dirty) {
      if ((pot.dirtySinceMs ?? nowMs) + WRITE_MS > nowMs || !add(pot)) break;
    }
    if (nowMs < this.#lookMs) return [...due];
    this.#lookMs = nowMs + LOOK_MS;
    for (const pot of this.#pots.values()) {
      if (!pot.isIdle || pot.usedMs + IDLE_MS > nowMs) continue;
      if (!pot.isHeld) this.#drop(pot);
      else if (!this.#isPaused(pot, nowMs) && !add(pot)) {
        // The rest with the next question.
        this.#lookMs = nowMs;
        break;
      }
    }
    return [...due];
  }

  /** What failed is not asked again at once. */
  #isPaused(pot: LeasedPot, nowMs: number): boolean {
    return (this.#again.get(pot) ?? nowMs) > nowMs;
  }

  /** Milliseconds until something is due; null: nothing is left to do. */
  #nextMs(nowMs: number): number | null {
    let atMs = Infinity;
    for (const each of this.#again.values()) atMs = Math.min(atMs, each);
    const [dirty] = this.#dirty;
    if (dirty?.dirtySinceMs != null) atMs = Math.min(atMs, dirty.dirtySinceMs + WRITE_MS);
    if (this.#pots.size > 0) atMs = Math.min(atMs, this.#lookMs);
    return atMs === Infinity ? null : Math.max(1, atMs - nowMs);
  }

  async #ask(due: readonly LeasedPot[], nowMs: number): Promise<void> {
    this.#turn += 1;
    this.#asked = due.length;
    const asked = due.map((pot) => {
      for (const each of [this.#urgent, this.#dirty, this.#again]) each.delete(pot);
      const isEnding = this.#isEnding || (pot.isIdle && pot.usedMs + IDLE_MS <= nowMs);
      return { pot, draw: pot.ask(this.#turn, isEnding, nowMs) };
    });
    try {
      const drawn = await this.#options.pots.draw(asked.map(({ draw }) => draw));
      const byName = new Map(drawn.map((each) => [each.pot, each]));
      for (const { pot, draw } of asked) {
        const answer = byName.get(pot.name);
        if (answer === undefined) this.#failed(pot, draw);
        else {
          const { written, lost } = pot.answered(answer);
          if (written + lost > 0n && isCredits(pot.name)) this.#risk.give(pot.name, written + lost);
          if (lost > 0n) this.#tellLost(pot, lost);
          this.#serve(pot, draw);
        }
      }
    } catch (cause) {
      this.#options.logger.warn(
        { reason: messageOf(cause) },
        "pots could not be asked; trying again",
      );
      for (const { pot, draw } of asked) this.#failed(pot, draw);
    } finally {
      this.#asked = 0;
    }
  }

  #failed(pot: LeasedPot, draw: PotDraw): void {
    pot.failed(draw);
    for (const { done } of pot.queue.splice(0)) done("unavailable");
    this.#again.set(pot, this.#options.time.now() + RETRY_MS);
  }

  #tellLost(pot: LeasedPot, lost: bigint): void {
    const said =
      "this process was taken for dead: what requests had used and was not written is lost";
    this.#options.logger.error({ pot: pot.name, lost: String(lost) }, said);
  }

  /** Those that wait, the first first. */
  #serve(pot: LeasedPot, { first: needed }: PotDraw): void {
    const nowMs = this.#options.time.now();
    let isServed = needed === 0n;
    for (let [first] = pot.queue; first !== undefined; [first] = pot.queue) {
      const isShort = !pot.mayHave(first.max) || first.sinceMs + SHORT_WAIT_MS <= nowMs;
      const isTaken = pot.take(first.max, nowMs);
      if (!isTaken && !isShort) {
        // Others have leased what it needs, and give it back when they hear of it; or it was not asked for yet.
        if (isServed) this.#urgent.add(pot);
        else this.#again.set(pot, nowMs + SHORT_PAUSE_MS);
        return;
      }
      isServed ||= isTaken;
      pot.queue.shift();
      first.done(isTaken ? "taken" : "short");
    }
    if (pot.isWanted && pot.available > 0n) this.#urgent.add(pot);
    if (this.#isEnding && pot.isHeld && pot.isIdle) this.#urgent.add(pot);
  }
}
