/**
 * What payments of one payer may take together. Each is judged by what some node shows, and many nodes do not
 * show what is on its way: so what we have signed counts as taken as long as it is not decided, and a while
 * longer, since another node may lag behind. Nothing is stored for that: the rows of the payments say it.
 */
import type { PaymentKey } from "../x402/payment-key.ts";

/**
 * How long before a balance was asked for a payment may have been decided and be missing in it nevertheless,
 * milliseconds: a node lags behind another, and the replicas' clocks differ.
 */
const UNSEEN_MS = 30_000;

/**
 * What took longer than this from its claim to its settlement is not counted once it is decided, milliseconds: so
 * the order in which a payer's payments are kept anyway finds those that count, and no other has to be kept.
 */
const DECIDED_WITHIN_MS = 15_000;

/** Where a payment's money comes from, as its key has it: lower case. Only EVM payments have such keys. */
export interface Purse {
  /** `network/asset/payer`. */
  readonly name: string;
  readonly network: string;
  readonly asset: string;
  readonly payer: string;
}

/** What was seen of a purse. */
export interface PurseReading {
  /** Atomic units. */
  readonly balanceAtomic: bigint;
  /** When it was asked for, milliseconds since the epoch. */
  readonly askedMs: number;
  /** Payments that had left the purse in the very state that shows the balance. */
  readonly seen: ReadonlySet<PaymentKey>;
}

/** A payment of ours that leaves a purse, or has left it lately. */
export interface Spend {
  readonly key: PaymentKey;
  readonly version: number;
  readonly amountAtomic: bigint;
  /** Milliseconds since the epoch of the last change of a payment that was settled; null while it is undecided. */
  readonly settledMs: number | null;
}

/** What is to be signed for a payment, and what was seen of its purse. */
export interface Draw {
  readonly amountAtomic: bigint;
  readonly reading: PurseReading;
}

/** By payment, in the order in which they are signed; a payment that has none is not judged. */
export type Draws = ReadonlyMap<PaymentKey, Draw>;

/** A part of the facilitator's view of the ledger. */
export interface Purses {
  /**
   * The payments of a purse that we signed and that are undecided, or were settled after that time and not long
   * after their claim (see {@link claimedSince}); oldest first.
   */
  spends(purse: Purse, settledAfterMs: number): Promise<readonly Spend[]>;
}

/** Signed would be more than what is in a payer's purse: nothing was. */
export class LedgerOverdraft extends Error {
  override readonly name = "LedgerOverdraft";
  readonly code = "LEDGER_OVERDRAFT";
  /** The payments for which nothing is left; at least one. */
  readonly keys: readonly PaymentKey[];

  constructor(keys: readonly PaymentKey[]) {
    super("other payments of the payer are under way");
    this.keys = keys;
  }
}

/** A purse's name. */
export function purseName(key: PaymentKey): string {
  return key.slice(0, key.lastIndexOf("/"));
}

export function purseOf(key: PaymentKey): Purse {
  const [network = "", asset = "", payer = ""] = key.split("/");
  return { name: purseName(key), network, asset, payer };
}

/** What was settled up to then is in every balance that was asked for at that time; milliseconds. */
export function unseenSince(askedMs: number): number {
  return askedMs - UNSEEN_MS;
}

/** When what was settled after that time was claimed at the earliest, as far as it counts; milliseconds. */
export function claimedSince(settledAfterMs: number): number {
  return settledAfterMs - DECIDED_WITHIN_MS;
}

/** The same for all of some readings. */
export function earliestUnseen(draws: Draws): number {
  return unseenSince(Math.min(...[...draws.values()].map(({ reading }) => reading.askedMs)));
}

/** What the reading may not show. */
export function unseenOf<Known extends Pick<Spend, "key" | "settledMs">>(
  spends: readonly Known[],
  reading: PurseReading,
): readonly Known[] {
  const sinceMs = unseenSince(reading.askedMs);
  return spends.filter(
    ({ key, settledMs }) => !reading.seen.has(key) && (settledMs === null || settledMs > sinceMs),
  );
}

/** Atomic units. */
export function sumOf(spends: readonly Pick<Spend, "amountAtomic">[]): bigint {
  return spends.reduce((sum, { amountAtomic }) => sum + amountAtomic, 0n);
}

/**
 * Of payments that are to be signed together those for which nothing is left. `spendsOf` is asked once for each
 * purse.
 */
export function overdrawn(
  draws: Draws,
  spendsOf: (purse: Purse) => readonly Pick<Spend, "key" | "amountAtomic" | "settledMs">[],
): readonly PaymentKey[] {
  const purses = new Map<string, { readonly spends: ReturnType<typeof spendsOf>; taken: bigint }>();
  const over: PaymentKey[] = [];
  for (const [key, { amountAtomic, reading }] of draws) {
    const name = purseName(key);
    const purse = purses.get(name) ?? { spends: spendsOf(purseOf(key)), taken: 0n };
    purses.set(name, purse);
    const total = purse.taken + amountAtomic;
    if (sumOf(unseenOf(purse.spends, reading)) + total > reading.balanceAtomic) over.push(key);
    else purse.taken = total;
  }
  return over;
}
