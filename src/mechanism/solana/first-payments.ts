/**
 * What payments of payers who have not paid yet may cost us for nothing. A payer can move the tokens away between
 * the simulation and the block: one transaction of his does that for twenty token accounts, at a fraction of
 * what our failures cost. So nobody asks about as many payments in the air as their payer has paid; those beyond
 * them may lose so many lamports within an hour, all payers' together. When that is lost, one goes on for each token
 * account that was there before that hour and has not failed in it, and few of all others. All in memory, for
 * payments without assertions: those have a budget of their own (`guard-budget.ts`).
 */
import { LRUCache } from "lru-cache";
import type { Time } from "../../time/time.ts";
import { ok, refuse, type Refusal, type Result } from "../../x402/result.ts";
import { ChainError, type Look } from "../mechanism.ts";
import { FIRST_FEE_LAMPORTS, FIRST_PRIORITY_LAMPORTS } from "./guard-budget.ts";
import type { Listed } from "./history.ts";
import { WAIT_MS, WaitingRoom } from "./waiting-room.ts";

/** How long a loss counts, and a token account must have been there, milliseconds. */
const HOUR_MS = 3_600_000;
/**
 * What may be lost before anything is asked of a payer, lamports: fifty settlements. Those that bid more than usual
 * count as lost from their signature on.
 */
const MAX_LOST_LAMPORTS = 500_000n;
/** What the others may have in the air, lamports: a thousand settlements, each for a price of its own. */
const MAX_IN_AIR_LAMPORTS = 10_000_000n;
/** Payments from token accounts that were there before: lost within that hour, or in the air. */
const MAX_RESTED = 500;
/** The same for all other token accounts, and how long a loss counts there, milliseconds. */
const MAX_FEW = 4;
const FEW_MS = 240_000;
/** What was prepared and never signed is given back after that time, milliseconds. */
const PREPARED_MS = 120_000;
/** How long it is believed what was read of a token account, milliseconds; and of how many. */
const READ_MS = 10_000;
const MAX_READ = 1_000;
/** Payers of whom it is known how often they paid; the one that was not met for longest is forgotten first. */
const MAX_PAID = 10_000;

/** A payment without assertions. */
export interface Unguarded {
  readonly messageHash: string;
  readonly payer: string;
  /** The token account that pays. */
  readonly source: string;
  /** The most that we can pay. */
  readonly networkFeeLamports: bigint;
}

/** On whose account a payment may fail: its payer's successes, or one of the bounds. */
type Room = "earned" | "free" | "rested" | "few";

interface Entry {
  readonly payment: Unguarded;
  readonly room: Exclude<Room, "earned">;
  /** In a block, and failed there. */
  readonly isLost: boolean;
  /** Milliseconds since the epoch. */
  readonly untilMs: number;
}

export interface FirstPaymentsOptions {
  readonly time: Pick<Time, "now" | "sleep">;
  /** How many payments of a payer are signed and undecided. */
  readonly undecidedOf: (payer: string) => number;
  /** The newest transactions of a token account. Throws {@link ChainError}. */
  readonly listNewest: (source: string, signal: AbortSignal) => Promise<readonly Listed[]>;
  /** Told each time that something is asked of new payers. */
  readonly onLoss: (message: string) => void;
}

export class FirstPayments {
  readonly #options: FirstPaymentsOptions;
  readonly #paid = new LRUCache<string, number>({ max: MAX_PAID });
  /** By message hash: what is in the air, or lost; as many as the bounds allow for. */
  readonly #entries = new Map<string, Entry>();
  /** By token account. */
  readonly #read = new LRUCache<string, { readonly isRested: boolean; readonly untilMs: number }>({
    max: MAX_READ,
  });
  readonly #waiting: WaitingRoom;

  constructor(options: FirstPaymentsOptions) {
    this.#options = options;
    this.#waiting = new WaitingRoom(options.time, ABANDONED);
  }

  /**
   * Waits until there is room for it. Ok with whether it has waited: then it is to be simulated again. Refusal:
   * `invalid_transaction_state`, where there is none, or it bids too much for a time of losses.
   * @throws {ChainError} `CHAIN_TIMEOUT` when the signal ends the wait
   */
  async admit(payment: Unguarded, signal: AbortSignal): Promise<Result<boolean, Refusal>> {
    const { time } = this.#options;
    const untilMs = time.now() + WAIT_MS;
    for (let hasWaited = false; ; hasWaited = true) {
      if (this.#roomFor(payment) !== undefined) return ok(hasWaited);
      if (!isHigh(payment)) await this.#learn(payment, signal);
      if (this.#roomFor(payment) !== undefined) return ok(hasWaited);
      const leftMs = untilMs - time.now();
      if (leftMs <= 0 || this.#waiting.isFull) {
        this.#options.onLoss(LOSING);
        return refuse("invalid_transaction_state", isHigh(payment) ? HIGH : CROWDED);
      }
      await this.#waiting.wait(leftMs, signal);
    }
  }

  /** Whether it may be signed now; a payment with assertions may. */
  fits(payment: Unguarded | undefined): boolean {
    return payment === undefined || this.#roomFor(payment) !== undefined;
  }

  /** Takes its room. To be asked right behind {@link fits}, and right before the signature. */
  reserve(payment: Unguarded | undefined): void {
    const room = payment && this.#roomFor(payment);
    if (payment === undefined || room === undefined || room === "earned") return;
    this.#put({ payment, room, isLost: false }, PREPARED_MS);
  }

  /** It was signed: unless it goes well, it counts as lost. */
  signed(messageHash: string): void {
    const entry = this.#entries.get(messageHash);
    if (entry !== undefined) this.#put(entry, entry.room === "few" ? FEW_MS : HOUR_MS);
  }

  /** What a look found of one payment, guarded or not; `isNews`, where it was undecided up to now. */
  found(messageHash: string, payer: string, look: Look, isNews: boolean): void {
    const entry = this.#entries.get(messageHash);
    const [said] = look.payments;
    if (said === undefined || said.kind === "unknown") return;
    if (said.kind === "failed" && look.included !== null) {
      this.#paid.delete(payer);
      if (entry?.isLost === false) {
        this.#put({ ...entry, isLost: true }, entry.room === "few" ? FEW_MS : HOUR_MS);
      }
    } else {
      this.#entries.delete(messageHash);
      const times = this.#paid.get(payer) ?? 0;
      if (isNews && said.kind === "confirmed") this.#paid.set(payer, times + 1);
    }
    this.#waiting.wake();
  }

  #roomFor(payment: Unguarded): Room | undefined {
    const { messageHash, payer, source, networkFeeLamports: fee } = payment;
    if (this.#options.undecidedOf(payer) < (this.#paid.get(payer) ?? 0)) return "earned";
    const nowMs = this.#options.time.now();
    const counted = { lost: 0n, high: 0n, low: 0n, rested: 0, few: 0 };
    let isUsed = false;
    for (const [hash, entry] of this.#entries) {
      if (entry.untilMs <= nowMs) this.#entries.delete(hash);
      else if (hash !== messageHash) {
        isUsed ||= entry.payment.source === source;
        count(entry, counted);
      }
    }
    const { lost, high, low, rested, few } = counted;
    const isWithin = isHigh(payment)
      ? lost + high + fee <= MAX_LOST_LAMPORTS
      : lost + fee <= MAX_LOST_LAMPORTS && low + fee <= MAX_IN_AIR_LAMPORTS;
    if (isWithin) return "free";
    if (isHigh(payment) || isUsed) return undefined;
    const read = this.#read.peek(source);
    const isRested = read !== undefined && read.isRested && read.untilMs > nowMs;
    if (isRested && rested < MAX_RESTED) return "rested";
    return few < MAX_FEW ? "few" : undefined;
  }

  /** What the chain tells of its token account. */
  async #learn({ source }: Unguarded, signal: AbortSignal): Promise<void> {
    const { time, listNewest } = this.#options;
    const nowMs = time.now();
    if ((this.#read.get(source)?.untilMs ?? 0) > nowMs) return;
    let listed: readonly Listed[] = [];
    try {
      listed = await listNewest(source, signal);
    } catch (error) {
      // Not every node lists transactions: then nothing is known of it.
      if (!(error instanceof ChainError) || signal.aborted) throw error;
    }
    const sinceSeconds = (nowMs - HOUR_MS) / 1000;
    const late = listed.filter(({ blockTime }) => !(Number(blockTime) < sinceSeconds));
    const isRested = late.length < listed.length && !late.some(({ isFailed }) => isFailed);
    this.#read.set(source, { isRested, untilMs: nowMs + READ_MS });
  }

  #put(entry: Omit<Entry, "untilMs">, ms: number): void {
    const untilMs = this.#options.time.now() + ms;
    this.#entries.set(entry.payment.messageHash, { ...entry, untilMs });
  }
}

function isHigh({ networkFeeLamports }: Unguarded): boolean {
  return networkFeeLamports > FIRST_FEE_LAMPORTS;
}

/** What takes up room, payments or lamports. */
interface Counted {
  lost: bigint;
  /** In the air, by their bids. */
  high: bigint;
  low: bigint;
  rested: number;
  few: number;
}

function count({ payment, room, isLost }: Entry, counted: Counted): void {
  const fee = payment.networkFeeLamports;
  if (room === "rested") counted.rested += 1;
  else if (room === "few") counted.few += 1;
  else if (isLost) counted.lost += fee;
  else if (isHigh(payment)) counted.high += fee;
  else counted.low += fee;
}

const TITLE = "too many payments of new payers failed on chain, or are under way";
const HIGH = `${TITLE}: a payer's first payment may bid ${FIRST_PRIORITY_LAMPORTS} lamports of priority fee for now; lower the priority fee, or try again in a few seconds`;
const CROWDED = `${TITLE}; try again in a few seconds, or pay from a token account that has been in use for longer`;
const LOSING = `${TITLE}: for now those go first whose token accounts have been in use for longer`;
const ABANDONED = "abandoned by its caller while it waited for payments of others to be decided";
