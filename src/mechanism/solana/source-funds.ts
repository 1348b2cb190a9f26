/**
 * What is on its way out of buyers' token accounts: payments that we have signed and that are not decided yet.
 * Each payment is simulated alone, so without this one price would pass as often as somebody presents it at
 * once; and all but one of the transactions would fail in a block, at our cost.
 */
import type { Time } from "../../time/time.ts";
import { refuse, type Refusal, type Result } from "../../x402/result.ts";
import { ChainError } from "../mechanism.ts";

/** How long a payment may be undecided, milliseconds: a blockhash counts for 150 slots, about a minute. */
const OPEN_MS = 120_000;
/** Undecided payments at most; beyond, nothing more is signed. */
const MAX_OPEN = 8_192;
/** Decided ones that are remembered; simulations that are older than that memory do not count. */
const MAX_DECIDED = 16_384;
/** How long a payment waits for others of its account to be decided, milliseconds: a few blocks. */
const WAIT_MS = 4_000;
/** Payments that wait at most, in all and of one account; others are refused without waiting. */
const MAX_WAITING = 1_024;
const MAX_WAITING_OF_ONE = 32;

/** A payment, and what its simulation left in the account that it comes from. */
export interface FundsReading {
  readonly messageHash: string;
  readonly payer: string;
  /** The token account that pays. */
  readonly source: string;
  /** Atomic units. */
  readonly amount: bigint;
  /** Whether any other payment of the payer could make it fail, however much is left. */
  readonly isGuarded: boolean;
  /** What the payer may still take from the source behind this payment, atomic units. */
  readonly left: bigint;
  /** The {@link SourceFunds.moment} at which the simulation began. */
  readonly moment: number;
}

/** A payment that was signed. */
interface Spend {
  readonly reading: FundsReading;
  /** Milliseconds since the epoch. */
  readonly untilMs: number;
  /** Undefined as long as it may still be executed. */
  decidedAt: number | undefined;
}

/** The payments of one account, or of one payer. */
class Spends {
  readonly #open = new Set<Spend>();
  /** In the order in which they were decided. */
  readonly #decided: Spend[] = [];

  get openCount(): number {
    return this.#open.size;
  }

  get isEmpty(): boolean {
    return this.#open.size === 0 && this.#decided.length === 0;
  }

  add(spend: Spend): void {
    this.#open.add(spend);
  }

  decided(spend: Spend): void {
    this.#open.delete(spend);
    this.#decided.push(spend);
  }

  forget(spend: Spend): void {
    this.#open.delete(spend);
    const index = this.#decided.indexOf(spend);
    if (index >= 0) this.#decided.splice(index, 1);
  }

  /** Those that a simulation of that moment may not have seen: undecided, or decided later. */
  *since(moment: number): Generator<FundsReading> {
    for (const { reading } of this.#open) yield reading;
    for (let index = this.#decided.length - 1; index >= 0; index -= 1) {
      const spend = this.#decided[index];
      if (spend?.decidedAt === undefined || spend.decidedAt <= moment) return;
      yield spend.reading;
    }
  }
}

interface Waiter {
  readonly reading: FundsReading;
  readonly wake: AbortController;
}

export class SourceFunds {
  readonly #time: Pick<Time, "now" | "sleep">;
  /** Counts the decisions: what was decided after a simulation began may be missing in what it showed. */
  #moment = 0;
  /** Of what was decided up to here, something has been forgotten. */
  #forgottenAt = 0;
  /** By message hash, oldest first; both. */
  readonly #open = new Map<string, Spend>();
  readonly #decided = new Map<string, Spend>();
  readonly #bySource = new Map<string, Spends>();
  readonly #byPayer = new Map<string, Spends>();
  readonly #waiting = new Set<Waiter>();

  constructor(time: Pick<Time, "now" | "sleep">) {
    this.#time = time;
  }

  /** To be taken before a simulation begins. */
  get moment(): number {
    return this.#moment;
  }

  /** Whether the payment can be executed besides all others of ours that its simulation may not have seen. */
  fits(reading: FundsReading): boolean {
    this.#expire();
    return reading.moment >= this.#forgottenAt && this.#leavesRoom(reading, reading.moment);
  }

  /**
   * Reads until a payment fits. One that does not waits for the others to be decided, and is read once more
   * before it is refused: with `insufficient_funds`, or with what the reading says.
   * @throws {ChainError} `CHAIN_TIMEOUT` when the signal ends the wait; and what `read` throws
   */
  async admit<Reading extends FundsReading>(
    read: (moment: number) => Promise<Result<Reading, Refusal>>,
    signal: AbortSignal,
  ): Promise<Result<Reading, Refusal>> {
    const untilMs = this.#time.now() + WAIT_MS;
    for (;;) {
      const found = await read(this.#moment);
      if (!found.ok || this.fits(found.value)) return found;
      const leftMs = untilMs - this.#time.now();
      if (leftMs <= 0 || !(await this.#wait(found.value, leftMs, signal))) {
        return underWay(found.value);
      }
    }
  }

  /**
   * Sets the amount aside until it is decided, or cannot be executed any more. To be asked right behind
   * {@link fits}, and right before the signature.
   * @throws {ChainError} when too many payments are undecided
   */
  reserve(reading: FundsReading): void {
    const { messageHash } = reading;
    this.#forget(messageHash);
    if (this.#open.size >= MAX_OPEN) {
      throw new ChainError(
        "CHAIN_TIMEOUT",
        `${MAX_OPEN} payments are undecided; nothing more is signed before the chain has decided some of them`,
      );
    }
    const spend = { reading, untilMs: this.#time.now() + OPEN_MS, decidedAt: undefined };
    this.#open.set(messageHash, spend);
    for (const [spends, name] of this.#indexes(reading)) {
      const others = spends.get(name) ?? new Spends();
      others.add(spend);
      spends.set(name, others);
    }
  }

  /** How many payments of a payer are signed and undecided. */
  undecidedOf(payer: string): number {
    this.#expire();
    return this.#byPayer.get(payer)?.openCount ?? 0;
  }

  /**
   * The payment has been executed, or never will be: simulations that begin from now on tell what is left.
   * False where that was known, or it is not from here.
   */
  decided(messageHash: string): boolean {
    const spend = this.#open.get(messageHash);
    if (spend === undefined) return false;
    this.#open.delete(messageHash);
    this.#moment += 1;
    spend.decidedAt = this.#moment;
    this.#decided.set(messageHash, spend);
    for (const [spends, name] of this.#indexes(spend.reading)) spends.get(name)?.decided(spend);
    if (this.#decided.size > MAX_DECIDED) this.#forgetOldest();
    for (const { reading, wake } of this.#waiting) {
      if (this.#leavesRoom(reading, this.#moment)) wake.abort();
    }
    return true;
  }

  /** Whether what is left covers what is undecided, or was decided after that moment. */
  #leavesRoom(reading: FundsReading, moment: number): boolean {
    const isOther = ({ messageHash }: FundsReading): boolean => messageHash !== reading.messageHash;
    if (reading.isGuarded) {
      for (const spend of this.#byPayer.get(reading.payer)?.since(moment) ?? []) {
        if (isOther(spend)) return false;
      }
    }
    let wanted = 0n;
    for (const spend of this.#bySource.get(reading.source)?.since(moment) ?? []) {
      if (!isOther(spend)) continue;
      if (spend.isGuarded) return false;
      wanted += spend.amount;
    }
    return wanted <= reading.left;
  }

  /** Until there may be room, or the time is over; false, at once, where too many wait already. */
  async #wait(reading: FundsReading, ms: number, signal: AbortSignal): Promise<boolean> {
    if (this.#leavesRoom(reading, this.#moment)) return true;
    const waiting = [...this.#waiting];
    const ofOne = waiting.filter((waiter) => waiter.reading.source === reading.source);
    if (waiting.length >= MAX_WAITING || ofOne.length >= MAX_WAITING_OF_ONE) return false;
    const waiter = { reading, wake: new AbortController() };
    this.#waiting.add(waiter);
    await this.#time.sleep(ms, AbortSignal.any([signal, waiter.wake.signal]));
    this.#waiting.delete(waiter);
    if (signal.aborted) throw new ChainError("CHAIN_TIMEOUT", ABANDONED);
    return true;
  }

  /** What was not decided in time cannot be executed any more. */
  #expire(): void {
    const nowMs = this.#time.now();
    for (const [messageHash, { untilMs }] of this.#open) {
      if (untilMs > nowMs) return;
      this.decided(messageHash);
    }
  }

  #forgetOldest(): void {
    for (const [messageHash, { decidedAt = 0 }] of this.#decided) {
      this.#forgottenAt = decidedAt;
      this.#forget(messageHash);
      return;
    }
  }

  #forget(messageHash: string): void {
    const spend = this.#open.get(messageHash) ?? this.#decided.get(messageHash);
    if (spend === undefined) return;
    this.#open.delete(messageHash);
    this.#decided.delete(messageHash);
    for (const [spends, name] of this.#indexes(spend.reading)) {
      const others = spends.get(name);
      others?.forget(spend);
      if (others?.isEmpty === true) spends.delete(name);
    }
  }

  #indexes({ source, payer }: FundsReading): readonly (readonly [Map<string, Spends>, string])[] {
    return [
      [this.#bySource, source],
      [this.#byPayer, payer],
    ];
  }
}

const ABANDONED =
  "abandoned by its caller while it waited for other payments of its account to be decided";

function underWay({ source, isGuarded, left }: FundsReading): Result<never, Refusal> {
  const title = `other payments of this account are under way: ${source}`;
  const detail = isGuarded
    ? `${title} pays for them, and this one is guarded by assertions that they could break`
    : `${title} would have ${left} atomic units left behind this one, which may not be enough for them`;
  return refuse("insufficient_funds", `${detail}; try again when they are settled`);
}
