/** What the lives of a memory ledger share: everything that survives each of them. */
import { randomBytes } from "node:crypto";
import type {
  StoredSubmission,
  StoredTransaction,
  SubmissionCost,
  SubmissionState,
} from "../../src/ledger/ledger.ts";
import {
  MAX_SIGN_INS,
  MAX_SIGN_INS_PER_PAYER,
  SIGN_IN_KEY_BYTES,
  SIGN_IN_MARGIN_MS,
  type SignInUse,
  MAX_PURCHASES,
  type PaidSale,
  type SignInVerdict,
} from "../../src/ledger/sign-ins.ts";
import type { PaymentEvent } from "../../src/ledger/books.ts";
import type { KeptResponse } from "../../src/ledger/machine-step.ts";
import type { Moment, Step } from "../../src/ledger/machine.ts";
import { isRefunded } from "../../src/ledger/payment-judgement.ts";
import { amountOf, requestOf, type PaymentRow } from "../../src/ledger/payment-row.ts";
import { readFill } from "../../src/ledger/pots.ts";
import {
  claimedSince,
  earliestUnseen,
  LedgerOverdraft,
  overdrawn,
  purseName,
  type Purse,
  type Draws,
  type Spend,
} from "../../src/ledger/purse.ts";
import {
  hourOf,
  judgeSale,
  payerBudget,
  SALES,
  type BudgetedSale,
  type Reserved,
} from "../../src/ledger/budgets.ts";
import { LedgerConflict, LedgerUnavailable } from "../../src/ledger/ledger-fault.ts";
import { processOf } from "../../src/ledger/life.ts";
import type { Pause } from "../../src/ledger/pauses.ts";
import type { Entry } from "../../src/ledger/accounts.ts";
import { dayStart, refundAmount, type CountedRefunds } from "../../src/ledger/refunds.ts";
import type { SoldOffer } from "../../src/ledger/sold-offers.ts";
import { accountName, submittedOf } from "../../src/ledger/submission-row.ts";
import type { LeftAccount } from "../../src/ledger/unattended.ts";
import type { Tombstone } from "../../src/ledger/tombstone.ts";
import {
  MAX_USED_ELSEWHERE,
  MAX_USED_ELSEWHERE_PER_PAYER,
  type UsedElsewhere,
} from "../../src/ledger/used-elsewhere.ts";
import { MemoryMessages } from "./memory-outbox.ts";
import { MemoryPotTables } from "./memory-pots.ts";
import { isEvmAddress } from "../../src/x402/address.ts";
import type { PaymentKey } from "../../src/x402/payment-key.ts";

export interface KeptPayment {
  readonly row: PaymentRow;
  readonly claimedMs: number;
  readonly updatedMs: number;
  readonly events: readonly PaymentEvent[];
}

export interface KeptSubmission {
  readonly id: string;
  readonly network: string;
  readonly state: SubmissionState;
  readonly variants: readonly StoredTransaction[];
  readonly signedMs: number;
  readonly cost: SubmissionCost | null;
}

export class MemoryStore {
  readonly payments = new Map<PaymentKey, KeptPayment>();
  readonly submissions = new Map<string, KeptSubmission>();
  readonly responses = new Map<PaymentKey, KeptResponse>();
  readonly leases = new Map<string, { readonly holder: string | null; readonly epoch: number }>();
  readonly nextNonces = new Map<string, number>();
  readonly terms = new Map<string, { readonly hash: string; readonly changedAt: number }>();
  readonly soldOffers = new Map<string, SoldOffer>();
  /** What was moved by what is not there any more. */
  readonly closed: Entry[] = [];
  readonly tombstones = new Map<PaymentKey, Tombstone>();
  readonly usedElsewhere = new Map<PaymentKey, UsedElsewhere>();
  readonly usedSignIns = new Map<string, { readonly payer: string; readonly untilMs: number }>();
  readonly signInKey = randomBytes(SIGN_IN_KEY_BYTES);
  /** By hour and name, and what of it may be given back. */
  readonly budgets = new Map<string, number>();
  readonly reservations = new Map<
    PaymentKey,
    readonly [counts: readonly string[], worth: number]
  >();
  readonly pauses = new Map<string, Pause>();
  readonly certificates = {
    texts: new Map<string, string>(),
    revision: 0,
    lease: { holder: "", untilMs: 0 },
  };
  readonly messages = new MemoryMessages();
  readonly pots = new MemoryPotTables();
  /** Lives that are over, as far as the others can tell. */
  readonly dead = new Set<string>();
  /** Those of them that go on nevertheless: taken for dead, and not stopped yet. */
  readonly undead = new Set<string>();
  readonly rowChanges = new Waiters();
  readonly offers = new Waiters();

  /** Throws {@link LedgerUnavailable} where what a life has is taken from it. */
  requireAlive(life: string): void {
    if (this.dead.has(processOf(life)) && !this.undead.has(processOf(life)))
      throw new LedgerUnavailable("this life is over");
  }

  /** Declares a life dead: others may take its leases, and reap what it left. */
  kill(life: string): void {
    this.dead.add(life);
    this.undead.delete(life);
  }

  /** Taken for dead, and heard of again. */
  revive(life: string): void {
    if (this.undead.delete(life)) this.dead.delete(life);
  }

  /** Others may take what it has, as when its process was cut off from the database for a while. */
  takeForDead(life: string): void {
    this.dead.add(life);
    this.undead.add(life);
  }

  apply(key: PaymentKey, { next, note, pours }: Step<unknown>, { life, nowMs }: Moment): void {
    if (next === undefined) return;
    if (next && pours !== undefined) this.closed.push(...this.pots.move(next, pours, nowMs));
    if (next === null) {
      this.payments.delete(key);
      this.pots.fills.delete(key);
      this.responses.delete(key);
    } else {
      const kept = this.payments.get(key);
      this.#fill(key, kept?.row, next, nowMs);
      const event = { atMs: nowMs, state: next.state, note: note ?? "", by: life };
      this.payments.set(key, {
        row: next,
        claimedMs: kept?.claimedMs ?? nowMs,
        updatedMs: nowMs,
        events: [...(kept?.events ?? []), event],
      });
    }
    if (next === null || (next.state === "FAILED" && !isRefunded(next))) this.giveBack(key);
    this.rowChanges.notify(key);
  }

  /** In the step that settles it, or that gives change of it. */
  #fill(key: PaymentKey, before: PaymentRow | undefined, next: PaymentRow, nowMs: number): void {
    const wasDone =
      (before?.settledTransaction ?? null) !== null && (before?.fills ?? null) !== null;
    if (next.fills === null || next.settledTransaction === null || wasDone) return;
    const { route, fills } = next;
    this.closed.push(...this.pots.pour({ key, fill: readFill(fills), route, nowMs }));
  }

  count(nowMs: number, name: string, amount: number): void {
    const counted = `${hourOf(nowMs)} ${name}`;
    this.budgets.set(counted, (this.budgets.get(counted) ?? 0) + amount);
  }

  counted(nowMs: number, names: readonly string[]): ReadonlyMap<string, number> {
    const amounts = names.map(
      (name) => [name, this.budgets.get(`${hourOf(nowMs)} ${name}`)] as const,
    );
    return new Map(
      amounts.flatMap(([name, amount]) => (amount === undefined ? [] : [[name, amount]])),
    );
  }

  /** See {@link Budgets.reserve}. */
  reserve(key: PaymentKey, sale: BudgetedSale, nowMs: number): Reserved {
    if (!this.payments.has(key)) throw new LedgerConflict("there is no such payment");
    if (this.reservations.has(key)) return { kind: "reserved" };
    const names = [SALES, payerBudget(sale.payer)];
    const judged = judgeSale(this.counted(nowMs, names), sale, nowMs);
    if (judged.kind === "over") return judged;
    for (const name of names) this.count(nowMs, name, sale.worth);
    const counts = names.map((name) => `${hourOf(nowMs)} ${name}`);
    this.reservations.set(key, [counts, sale.worth]);
    return judged;
  }

  giveBack(key: PaymentKey): void {
    const [counts, worth] = this.reservations.get(key) ?? [[], 0];
    this.reservations.delete(key);
    for (const name of counts) this.budgets.set(name, (this.budgets.get(name) ?? 0) - worth);
  }

  /** Throws {@link LedgerOverdraft} where they are more than what is in their payers' purses. */
  requireCovered(draws: Draws): void {
    const sinceMs = earliestUnseen(draws);
    const over = overdrawn(draws, (purse) => this.spends(purse, sinceMs));
    if (over.length > 0) throw new LedgerOverdraft(over);
  }

  /** See {@link Purses.spends}. */
  spends(purse: Purse, settledAfterMs: number): readonly Spend[] {
    const found: Spend[] = [];
    for (const [key, { row, updatedMs, events }] of this.payments) {
      if (row.submission === null || purseName(key) !== purse.name) continue;
      const settledMs = row.settledTransaction === null ? null : updatedMs;
      const claimedMs = events[0]?.atMs ?? 0;
      const isLate =
        settledMs !== null &&
        settledMs > settledAfterMs &&
        claimedMs > claimedSince(settledAfterMs);
      if (row.state !== "SIGNED" && !isLate) continue;
      const amountAtomic = BigInt(amountOf(requestOf(row)));
      found.push({ key, version: row.version, amountAtomic, settledMs });
    }
    return found;
  }

  /** The submissions of an account (as {@link accountOf} names it) that are not closed. */
  unfinished(name: string): readonly StoredSubmission[] {
    const found = [...this.submissions.values()].filter(
      (each) => each.state !== "CLOSED" && accountOf(each.network, accountNamed(each)) === name,
    );
    return found.sort(byNonce).map((each) => this.withPayments(each));
  }

  /** Accounts with something that is not closed, which no living life but that one has leased. */
  unattended(life: string): readonly LeftAccount[] {
    const accounts = new Map<string, LeftAccount>();
    for (const each of this.submissions.values()) {
      const { network, state } = each;
      const address = accountName(accountNamed(each));
      const name = accountOf(network, address);
      const { holder, epoch } = this.leases.get(name) ?? { holder: null, epoch: 0 };
      const isTaken = holder !== null && holder !== life && !this.dead.has(holder);
      if (state !== "CLOSED" && !isTaken) accounts.set(name, { network, address, epoch });
    }
    return [...accounts.values()];
  }

  purchases(payer: string, routes: readonly string[] | null): readonly PaidSale[] {
    const paid = [...this.payments].filter(([, { row }]) => {
      const isPaid = !["CLAIMED", "SIGNED", "FAILED"].includes(row.state) && row.binding !== null;
      if (row.refundState !== null) return false;
      const isHad = row.state === "DELIVERED" && row.route !== null;
      const isSold = routes === null || (isHad && routes.includes(row.route));
      return isPaid && isSold && row.payer.toLowerCase() === payer.toLowerCase();
    });
    return paid
      .toReversed()
      .slice(0, MAX_PURCHASES)
      .map(([key, { row, claimedMs: createdMs }]) => {
        const { network, route } = row;
        return { key, network, route, createdMs };
      });
  }

  useSignIn({ nonce, payer, untilMs }: SignInUse, nowMs: number): SignInVerdict {
    for (const [used, each] of this.usedSignIns) {
      if (each.untilMs <= nowMs) this.usedSignIns.delete(used);
    }
    if (this.usedSignIns.has(nonce)) return "again";
    const own = [...this.usedSignIns.values()].filter((each) => each.payer === payer.toLowerCase());
    const isFull = this.usedSignIns.size >= MAX_SIGN_INS;
    if (own.length >= MAX_SIGN_INS_PER_PAYER || isFull) return "crowded";
    const until = untilMs + SIGN_IN_MARGIN_MS;
    this.usedSignIns.set(nonce, { payer: payer.toLowerCase(), untilMs: until });
    return "first";
  }

  /** What other refunds of that one's network and token count on this day. */
  refundedToday(key: PaymentKey, nowMs: number): CountedRefunds {
    const asked = this.payments.get(key);
    let [all, payers] = [0n, 0n];
    for (const [other, { row }] of asked === undefined ? [] : this.payments) {
      const isCounted = (row.refundCountedMs ?? -1) >= dayStart(nowMs);
      if (other === key || !isCounted || unitOf(row) !== unitOf(asked?.row ?? row)) continue;
      const amount = refundAmount(row);
      all += amount;
      if (row.payer === asked?.row.payer) payers += amount;
    }
    return { all, payers };
  }

  noteUsedElsewhere(payment: UsedElsewhere): void {
    const known = [...this.usedElsewhere.values()];
    const ofPayer = known.filter(({ payer }) => payer === payment.payer).length;
    if (ofPayer >= MAX_USED_ELSEWHERE_PER_PAYER || known.length >= MAX_USED_ELSEWHERE) return;
    if (!this.usedElsewhere.has(payment.key)) this.usedElsewhere.set(payment.key, payment);
  }

  withPayments(submission: KeptSubmission): StoredSubmission {
    const payments: StoredSubmission["payments"][number][] = [];
    for (const [key, { row }] of this.payments) {
      if (row.submission !== submission.id) continue;
      payments.push(submittedOf(row, key));
    }
    return { ...submission, payments };
  }
}

function unitOf(row: PaymentRow): string {
  return `${row.network} ${requestOf(row).paymentRequirements.asset.toLowerCase()}`;
}

/** Those who wait for something that has a name. */
class Waiters {
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Resolves at the next notice of that name, or when the signal ends. */
  wait(name: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const waiting = this.#waiting.get(name) ?? new Set();
      this.#waiting.set(name, waiting);
      const wake = (): void => {
        waiting.delete(wake);
        signal.removeEventListener("abort", wake);
        resolve();
      };
      waiting.add(wake);
      signal.addEventListener("abort", wake, { once: true });
    });
  }

  notify(name: string): void {
    for (const wake of this.#waiting.get(name) ?? []) wake();
  }
}

/** EVM addresses are one account whatever their letter case; other networks' are case-sensitive. */
export function accountOf(network: string, address: string): string {
  return `${network}/${isEvmAddress(address) ? address.toLowerCase() : address}`;
}

function accountNamed({ variants: [first] }: KeptSubmission): string {
  return first?.account ?? "";
}

function byNonce(left: KeptSubmission, right: KeptSubmission): number {
  return (left.variants[0]?.accountNonce ?? 0) - (right.variants[0]?.accountNonce ?? 0);
}

/** That which was changed longest ago first. */
export function byChange(
  [, left]: [PaymentKey, { readonly updatedMs: number }],
  [, right]: [PaymentKey, { readonly updatedMs: number }],
): number {
  return left.updatedMs - right.updatedMs;
}
