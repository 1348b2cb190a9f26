/** What buyers have prepaid, in the books: entries of what came in and what was used, and whether that is what is there. */
import { dayOf, type Entry, type EntryKind } from "./accounts.ts";
import { requestOf, type PaymentRow } from "./payment-row.ts";
import {
  readFill,
  unitOfPot,
  type JudgedDraw,
  type PotBalance,
  type PotFill,
  type PotUse,
  type Pour,
} from "./pots.ts";

/** The sums of all pots of credits of one unit, and of what has moved into and out of them since ever. */
export interface CreditsSum {
  /** As {@link familyOf} names it. */
  readonly family: string;
  /** Symbol of the token. */
  readonly token: string;
  readonly pots: number;
  readonly free: bigint;
  readonly leased: bigint;
  readonly bought: bigint;
  readonly used: bigint;
  /** Taken out to be paid back. */
  readonly refunded: bigint;
}

/** What came in is what was used, what was paid back, and what is there. */
export function isBalanced({ bought, used, refunded, free, leased }: CreditsSum): boolean {
  return bought === used + refunded + free + leased;
}

/** The entry of what a payment has put into a pot; none where it is not of credits. */
export function fillEntries(fill: PotFill, route: string | null, nowMs: number): readonly Entry[] {
  const uses = [{ route: route ?? "", amount: fill.amount, count: 1 }];
  return creditEntries("credits bought", fill.pot, uses, nowMs);
}

/** The entries of what was used of a pot. */
export function useEntries(
  pot: string,
  { uses }: Pick<JudgedDraw, "uses">,
  nowMs: number,
): readonly Entry[] {
  return creditEntries("credits used", pot, uses, nowMs);
}

/** The entries of what a refund takes out of a pot, or puts back: see {@link Pour}. */
export function pourEntries(row: PaymentRow, pour: Pour, nowMs: number): readonly Entry[] {
  const { amount, way, isByHand = false } = pour;
  const { fills, network } = row;
  if (fills === null) return [];
  const { pot } = readFill(fills);
  const route = row.route ?? "";
  const taken = { route, amount, count: 1 };
  const { asset, payTo: account } = requestOf(row).paymentRequirements;
  const byHand: Entry = {
    day: dayOf(nowMs),
    kind: "refund",
    network,
    asset,
    account,
    attodollars: null,
    ...taken,
  };
  return [
    ...(way === "out" ? creditEntries("credits refunded", pot, [taken], nowMs) : []),
    // In the books what comes back is bought, as what requests give back is; by no payment.
    ...(way === "back"
      ? creditEntries("credits bought", pot, [{ ...taken, count: 0 }], nowMs)
      : []),
    ...(isByHand ? [byHand] : []),
  ];
}

/** Of nobody by name: sums stay when a payer is forgotten. */
function creditEntries(
  kind: EntryKind,
  pot: string,
  uses: readonly PotUse[],
  nowMs: number,
): readonly Entry[] {
  const unit = unitOfPot(pot);
  if (unit === undefined) return [];
  const where = { network: unit.family, asset: unit.token, account: "", attodollars: null };
  return uses
    .filter(({ amount }) => amount > 0n)
    .map(({ route, amount, count }) => ({
      ...where,
      day: dayOf(nowMs),
      kind,
      route,
      count,
      amount,
    }));
}

/** What is summed up of credits: entries of {@link EntryKind}s, and pots, by their units. */
export class CreditsSums {
  readonly #sums = new Map<string, CreditsSum>();

  addPot(name: string, { free, leased }: Pick<PotBalance, "free" | "leased">): void {
    const unit = unitOfPot(name);
    if (unit === undefined) return;
    const sum = this.#of(unit);
    const more = { pots: sum.pots + 1, free: sum.free + free, leased: sum.leased + leased };
    this.#put({ ...sum, ...more });
  }

  addEntry({ kind, network, asset, amount }: Entry): void {
    const sum = this.#of({ family: network, token: asset });
    if (kind === "credits bought") this.#put({ ...sum, bought: sum.bought + amount });
    if (kind === "credits used") this.#put({ ...sum, used: sum.used + amount });
    if (kind === "credits refunded") this.#put({ ...sum, refunded: sum.refunded + amount });
  }

  list(): readonly CreditsSum[] {
    return [...this.#sums.values()];
  }

  #of({ family, token }: Pick<CreditsSum, "family" | "token">): CreditsSum {
    const fresh = {
      family,
      token,
      pots: 0,
      free: 0n,
      leased: 0n,
      bought: 0n,
      used: 0n,
      refunded: 0n,
    };
    return this.#sums.get(`${family}/${token}`) ?? fresh;
  }

  #put(sum: CreditsSum): void {
    this.#sums.set(`${sum.family}/${sum.token}`, sum);
  }
}

/** Whether an entry is of what was prepaid, in a unit of its own. */
export function isOfCredits({ kind }: Pick<Entry, "kind">): boolean {
  return CREDIT_KINDS.some((each) => each === kind);
}

/** Kinds of entries that {@link CreditsSums} take. */
export const CREDIT_KINDS = ["credits bought", "credits used", "credits refunded"] as const;
