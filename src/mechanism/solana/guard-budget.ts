/**
 * What payments with Lighthouse assertions ("guarded") may cost us for nothing. Assertions are the payer's
 * words, and one that fails in its block costs us the network fee. So such a payment bids next to nothing
 * before its payer has paid us once, and all of them together may lose so many lamports within an hour:
 * what has not gone well counts as lost from its signature on. All in memory: a restart knows no payer and no
 * loss.
 */
import { LRUCache } from "lru-cache";
import type { Time } from "../../time/time.ts";
import { ok, refuse, type Refusal, type Result } from "../../x402/result.ts";
import type { Look } from "../mechanism.ts";
import { BASE_FEE_LAMPORTS, type FeeBalances } from "./balances.ts";
import { WAIT_MS, WaitingRoom } from "./waiting-room.ts";

/**
 * Priority that a payer may bid before the first success, lamports: the official clients and our own page bid
 * a millionth of a lamport for each of 1,400,000 units at most, and Phantom leaves that as it is.
 */
export const FIRST_PRIORITY_LAMPORTS = 2n;
export const FIRST_FEE_LAMPORTS = BASE_FEE_LAMPORTS + FIRST_PRIORITY_LAMPORTS;
/** Payers that are remembered to have paid; the one that was not met for longest is forgotten first. */
const MAX_PROVEN = 10_000;
/** How long a loss counts, milliseconds. */
const LOSS_MS = 3_600_000;
/** What was prepared and never signed is given back after that time, milliseconds. */
const PREPARED_MS = 120_000;
/** Of the hour's lamports, payers without a success may use one part in so many: the rest is for the others. */
const FIRST_PART = 2n;

/** A payment with assertions. */
export interface Guarded {
  readonly messageHash: string;
  readonly payer: string;
  readonly feePayer: string;
  /** What its assertions want the fee payer to keep, lamports; 0 where they ask for nothing. */
  readonly feePayerKeeps: bigint;
  /** The most that we can pay. */
  readonly networkFeeLamports: bigint;
}

/** What the operator should know. */
export interface GuardState {
  /** Lamports that guarded payments have cost us for nothing within the last hour. */
  readonly lostLamports: bigint;
  /** Whether that is so much that no new payer's guarded payments are taken. */
  readonly isOff: boolean;
}

interface Entry {
  readonly payment: Guarded;
  /** Milliseconds since the epoch. */
  readonly untilMs: number;
  /** In a block, and failed there. */
  readonly isLost: boolean;
}

export interface GuardBudgetOptions {
  /** Lamports. */
  readonly lighthouseLossPerHour: bigint;
  readonly time: Pick<Time, "now" | "sleep">;
  readonly balances: Pick<FeeBalances, "willKeep">;
  /** Lets `balances` know. Throws {@link ChainError}. */
  readonly readBalance: (account: string, signal: AbortSignal) => Promise<unknown>;
  /** Told at first, and after each change of it. */
  readonly onGuardState?: ((state: GuardState) => void) | undefined;
}

export class GuardBudget {
  readonly #options: GuardBudgetOptions;
  readonly #proven = new LRUCache<string, true>({ max: MAX_PROVEN });
  /** By message hash: what is undecided, and what is lost. As many as the lamports allow for. */
  readonly #entries = new Map<string, Entry>();
  readonly #waiting: WaitingRoom;
  #told: GuardState | undefined;

  constructor(options: GuardBudgetOptions) {
    this.#options = options;
    this.#waiting = new WaitingRoom(options.time, ABANDONED);
  }

  /** Whether that payer has paid us, and none of his payments has failed in a block since. */
  isProven(payer: string): boolean {
    return this.#proven.get(payer) === true;
  }

  /**
   * Waits until there is room for it. Refusal: `invalid_transaction_state`, where it bids too much for a
   * payer's first, wants the fee payer to keep too much, or there is no room.
   * @throws {ChainError} `CHAIN_TIMEOUT` when the signal ends the wait, another code when a balance is asked
   * for and cannot be read
   */
  async admit(payment: Guarded, signal: AbortSignal): Promise<Result<void, Refusal>> {
    const { time, readBalance } = this.#options;
    // What is known may be old: an account that was filled up keeps more.
    if (!this.#isKept(payment)) await readBalance(payment.feePayer, signal);
    const untilMs = time.now() + WAIT_MS;
    for (;;) {
      const refusal = this.#refusal(payment);
      if (refusal !== undefined) return refuse("invalid_transaction_state", refusal);
      if (this.fits(payment)) return ok(undefined);
      const leftMs = untilMs - time.now();
      if (leftMs <= 0 || this.#waiting.isFull) {
        return refuse("invalid_transaction_state", CROWDED);
      }
      await this.#waiting.wait(leftMs, signal);
    }
  }

  /** Whether it may be signed now; what is not guarded may. */
  fits(payment: Guarded | undefined): boolean {
    if (payment === undefined) return true;
    if (this.#fault(payment) !== undefined) return false;
    return this.#isWithin(payment, this.#sum(payment.messageHash, false));
  }

  /** Sets its fee aside. To be asked right behind {@link fits}, and right before the signature. */
  reserve(payment: Guarded | undefined): void {
    if (payment !== undefined) this.#put(payment, PREPARED_MS, false);
  }

  /** It was signed: unless it goes well, it counts as lost for an hour. */
  signed(messageHash: string): void {
    const entry = this.#entries.get(messageHash);
    if (entry !== undefined) this.#put(entry.payment, LOSS_MS, entry.isLost);
  }

  /** What a look found of one payment, guarded or not. */
  found(messageHash: string, payer: string, look: Look): void {
    const entry = this.#entries.get(messageHash);
    const [said] = look.payments;
    if (said?.kind === "confirmed") this.#proven.set(payer, true);
    if (said?.kind === "failed" && look.included !== null) {
      this.#proven.delete(payer);
      if (entry !== undefined && !entry.isLost) this.#put(entry.payment, LOSS_MS, true);
    } else if (said !== undefined && said.kind !== "unknown") {
      // Paid, or never in a block: it has cost nothing for nothing.
      this.#entries.delete(messageHash);
    } else return;
    this.tell();
    this.#waiting.wake();
  }

  /** Tells the operator what has changed; time alone brings assertions back. */
  tell(): void {
    const lostLamports = this.#sum("", true);
    const isOff = lostLamports + BASE_FEE_LAMPORTS > this.#firstPart;
    if (lostLamports === this.#told?.lostLamports && isOff === this.#told.isOff) return;
    this.#told = { lostLamports, isOff };
    this.#options.onGuardState?.(this.#told);
  }

  get #firstPart(): bigint {
    return this.#options.lighthouseLossPerHour / FIRST_PART;
  }

  /** What no waiting mends. */
  #refusal(payment: Guarded): string | undefined {
    this.tell();
    const fault = this.#fault(payment);
    if (fault !== undefined) return fault;
    return this.#isWithin(payment, this.#sum(payment.messageHash, true)) ? undefined : OFF;
  }

  #fault(payment: Guarded): string | undefined {
    const { payer, feePayer, feePayerKeeps, networkFeeLamports } = payment;
    if (!this.#isKept(payment)) {
      return `the assertions want ${feePayer} to keep ${feePayerKeeps} lamports, which payments of others that come first could break; sign a new payment, or pay with a wallet that adds no assertions`;
    }
    if (networkFeeLamports <= FIRST_FEE_LAMPORTS || this.isProven(payer)) return undefined;
    const priority = networkFeeLamports - BASE_FEE_LAMPORTS;
    return `a payer's first payment here that holds wallet assertions may bid ${FIRST_PRIORITY_LAMPORTS} lamports of priority fee, and this one bids up to ${priority}; lower the priority fee, or pay once without assertions`;
  }

  /** Whether other settlements that come first leave the fee payer what the assertions want. */
  #isKept({ feePayer, feePayerKeeps, networkFeeLamports }: Guarded): boolean {
    if (feePayerKeeps === 0n) return true;
    return this.#options.balances.willKeep(feePayer, feePayerKeeps + networkFeeLamports);
  }

  #isWithin({ payer, networkFeeLamports }: Guarded, usedLamports: bigint): boolean {
    const { lighthouseLossPerHour } = this.#options;
    const limit = this.isProven(payer) ? lighthouseLossPerHour : this.#firstPart;
    return usedLamports + networkFeeLamports <= limit;
  }

  /** Lamports that are set aside or lost, or lost only, by all but that payment. */
  #sum(except: string, isLostOnly: boolean): bigint {
    const nowMs = this.#options.time.now();
    let sum = 0n;
    for (const [messageHash, { payment, untilMs, isLost }] of this.#entries) {
      if (untilMs <= nowMs) this.#entries.delete(messageHash);
      else if (messageHash !== except && (isLost || !isLostOnly)) sum += payment.networkFeeLamports;
    }
    return sum;
  }

  #put(payment: Guarded, ms: number, isLost: boolean): void {
    const untilMs = this.#options.time.now() + ms;
    this.#entries.set(payment.messageHash, { payment, untilMs, isLost });
  }
}

const OFF =
  "payments with wallet assertions are off for now, since too many of them failed on chain; pay with a wallet that adds no assertions, or try again within an hour";
const CROWDED =
  "too many payments with wallet assertions are under way; try again in a few seconds, or pay with a wallet that adds none";
const ABANDONED =
  "abandoned by its caller while it waited for other payments with assertions to be decided";
