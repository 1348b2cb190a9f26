/**
 * What our fee payers hold, as last read, less what they were promised for since. Nothing is read here: the
 * start-up checks and the operator's gauges do that again and again, so that a settlement need not ask.
 */
import type { Time } from "../../time/time.ts";
import { ChainError } from "../mechanism.ts";

/**
 * What an account without data must hold to exist (3,480 lamports for each of 128 bytes, two years). One that
 * pays a fee may not fall below it.
 */
export const RENT_EXEMPT_LAMPORTS = 890_880n;
/** What two signatures cost: a settlement without priority fee. */
export const BASE_FEE_LAMPORTS = 10_000n;
/** Settlements, at the highest fee allowed, that an account has left when it is reported as low. */
const LOW_SETTLEMENTS = 20n;
/**
 * What an account must have beyond what an assertion wants it to keep, lamports: a hundred settlements without
 * priority fee, which may come before it. Phantom leaves 5,000,000 from what it sees to what it asserts.
 */
const ROOM_LAMPORTS = 1_000_000n;
/** How long a promise may take to show in a balance, milliseconds. */
const LANDING_MS = 15_000;
/** Promises of so many milliseconds are kept as one. */
const PROMISE_SPAN_MS = 1_000;
/** So many of them at most, should balances not be read for long: ten minutes. */
const MAX_PROMISES = 600;
/** Settlements whose fees make the typical one. */
const TYPICAL_OF = 20;

export interface FeeBalancesOptions {
  /** Named in messages. */
  readonly network: string;
  /** At least one; in order of preference. */
  readonly accounts: readonly string[];
  /** The most that one settlement may cost. */
  readonly maxFeeLamports: bigint;
  readonly time: Pick<Time, "now">;
}

interface Reading {
  readonly lamports: bigint;
  readonly atMs: number;
}

/** What was promised within a span of time. */
interface Promised {
  readonly fromMs: number;
  lamports: bigint;
}

export class FeeBalances {
  readonly #options: FeeBalancesOptions;
  readonly #readings = new Map<string, Reading>();
  /** By account, oldest first; those that its last reading shows for certain are dropped. */
  readonly #promised = new Map<string, Promised[]>();
  /** Lamports of the last settlements, oldest first. */
  #fees: bigint[] = [];

  constructor(options: FeeBalancesOptions) {
    this.#options = options;
  }

  /** Below this, an account is reported as low, and another one is offered to buyers. */
  get lowLamports(): bigint {
    return RENT_EXEMPT_LAMPORTS + LOW_SETTLEMENTS * this.#options.maxFeeLamports;
  }

  /** What a settlement costs: two signatures, and the priority fees of the last ones on average. */
  get settlementLamports(): bigint {
    const count = BigInt(this.#fees.length);
    if (count === 0n) return BASE_FEE_LAMPORTS;
    return (this.#fees.reduce((sum, fee) => sum + fee, 0n) + count - 1n) / count;
  }

  /**
   * The account that buyers are to name: the first that is not low, one never read counting as such; where
   * all are low, the one with the most left.
   */
  get preferred(): string {
    const { accounts } = this.#options;
    const [first = ""] = accounts;
    let [best, most] = [first, -1n];
    for (const account of accounts) {
      const left = this.#left(account);
      if (left === undefined || left >= this.lowLamports) return account;
      if (left > most) [best, most] = [account, left];
    }
    return best;
  }

  /** A balance that was just read. */
  noted(account: string, lamports: bigint): void {
    const atMs = this.#options.time.now();
    this.#readings.set(account, { lamports, atMs });
    const promised = this.#promised.get(account) ?? [];
    const since = atMs - LANDING_MS;
    this.#promised.set(
      account,
      promised.filter(({ fromMs }) => fromMs + PROMISE_SPAN_MS > since),
    );
  }

  /** The chain said that it cannot pay, whatever was read before: it holds nothing until it is read again. */
  notedShort(account: string): void {
    this.noted(account, 0n);
  }

  /** Whether it can pay that much, as far as is known. */
  canPay(account: string, lamports: bigint): boolean {
    const left = this.#left(account);
    return left === undefined || left >= lamports + RENT_EXEMPT_LAMPORTS;
  }

  /** Whether it will still have that much, as far as is known, when other settlements come first. */
  willKeep(account: string, lamports: bigint): boolean {
    const left = this.#left(account);
    return left !== undefined && left >= lamports + ROOM_LAMPORTS;
  }

  /**
   * Sets aside what a settlement costs at most.
   * @throws {ChainError} `CHAIN_GAS` when there is not so much left
   */
  reserve(account: string, lamports: bigint): void {
    if (!this.canPay(account, lamports)) {
      throw new ChainError(
        "CHAIN_GAS",
        `${this.#options.network}: ${account} has ${this.#left(account) ?? 0n} lamports left for network fees, ` +
          `the next settlement may cost ${lamports}, and ${RENT_EXEMPT_LAMPORTS} must stay; send it SOL`,
      );
    }
    this.#fees = [...this.#fees, lamports].slice(-TYPICAL_OF);
    const nowMs = this.#options.time.now();
    const promised = this.#promised.get(account) ?? [];
    const last = promised.at(-1);
    const isOpen = last !== undefined && nowMs - last.fromMs < PROMISE_SPAN_MS;
    if (last !== undefined && (isOpen || promised.length >= MAX_PROMISES))
      last.lamports += lamports;
    else promised.push({ fromMs: nowMs, lamports });
    this.#promised.set(account, promised);
  }

  /** Undefined where it was never read. */
  #left(account: string): bigint | undefined {
    const reading = this.#readings.get(account);
    if (reading === undefined) return undefined;
    const promised = this.#promised.get(account) ?? [];
    const left = promised.reduce((sum, each) => sum - each.lamports, reading.lamports);
    return left > 0n ? left : 0n;
  }
}
