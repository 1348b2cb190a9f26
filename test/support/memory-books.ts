/** The books of a memory ledger. */
import {
  bearerOf,
  entriesOf,
  gasOf,
  isMovedBy,
  spanOf,
  isTransferBack,
  timesOf,
  Totals,
  type Days,
  type Entry,
} from "../../src/ledger/accounts.ts";
import { gasEvidence } from "../../src/ledger/books-row.ts";
import { MAX_REFUNDABLE, readRefundable, SOLD_STATES } from "../../src/ledger/books.ts";
import type {
  Books,
  EndedPage,
  Evidence,
  PayerCredits,
  PaymentCounts,
  PaymentDetail,
  PaymentFilter,
  PaymentSummary,
  SaleRecord,
  SalesPage,
} from "../../src/ledger/books.ts";
import { isHeld, waitingOf } from "../../src/ledger/payment-judgement.ts";
import { amountOf, requestOf, type PaymentRow } from "../../src/ledger/payment-row.ts";
import { creditsPotsOf, readFill } from "../../src/ledger/pots.ts";
import { refundedPart, refundSummary } from "../../src/ledger/refunds.ts";
import type { CreditsSum } from "../../src/ledger/credit-entries.ts";
import type { UsedElsewhere } from "../../src/ledger/used-elsewhere.ts";
import type { PaymentKey } from "../../src/x402/payment-key.ts";
import type { KeptPayment, KeptSubmission, MemoryStore } from "./memory-store.ts";

type Line = readonly [PaymentKey, KeptPayment];

export class MemoryBooks implements Books {
  readonly #store: MemoryStore;

  constructor(store: MemoryStore) {
    this.#store = store;
  }

  async list(filter: PaymentFilter): Promise<readonly PaymentSummary[]> {
    const newestFirst = [...this.#store.payments].toReversed().toSorted(byClaim);
    const start =
      filter.after === undefined ? 0 : newestFirst.findIndex(([key]) => key === filter.after) + 1;
    return newestFirst
      .slice(start)
      .filter((entry) => matches(entry, filter))
      .slice(0, filter.limit)
      .map(summarize);
  }

  async show(name: string): Promise<PaymentDetail | undefined> {
    const wanted = name.toLowerCase();
    const named = [...this.#store.payments].filter((entry) => this.#isNamed(entry, wanted));
    const isPaid = ([, { row }]: Line): boolean => row.settledTransaction?.toLowerCase() === wanted;
    const found = named.find(isPaid) ?? named[0];
    if (found === undefined) return undefined;
    const { row, events } = found[1];
    const { resource } = requestOf(row).paymentRequirements;
    const submission = this.#submission(row);
    return { ...summarize(found), resource, events, submission };
  }

  async counts(): Promise<PaymentCounts> {
    const rows = [...this.#store.payments.values()].map(({ row }) => row);
    return {
      unresolved: rows.filter((row) => row.state === "SIGNED" && !isHeld(row)).length,
      held: rows.filter(isHeld).length,
      undelivered: rows.filter(isUndelivered).length,
      offered: rows.filter(({ state, offered }) => state === "CLAIMED" && offered).length,
      refunding: rows.filter(isRefundOpen).length,
      unrefunded: rows.filter(({ refundState }) => refundState === "FAILED").length,
    };
  }

  async buried(key: string): Promise<string | undefined> {
    return this.#store.tombstones.get(key.toLowerCase() as PaymentKey)?.transaction;
  }

  async ended({ beforeMs, after, limit }: EndedPage): Promise<readonly PaymentDetail[]> {
    const found = [...this.#store.payments]
      .filter(([, { row, claimedMs, updatedMs }]) => {
        const isEnded =
          row.state === "DELIVERED" ||
          row.state === "FAILED" ||
          (row.state === "SETTLED" && row.binding === null);
        return isEnded && !isRefundOpen(row) && claimedMs < beforeMs && updatedMs < beforeMs;
      })
      .map(([key, { claimedMs }]) => ({ key, claimedMs }))
      .toSorted(inOrder)
      .filter((each) => after === undefined || inOrder(after, each) < 0)
      .slice(0, limit);
    const shown = await Promise.all(found.map(({ key }) => this.show(key)));
    return shown.filter((each) => each !== undefined);
  }

  async sales({ sinceMs, after, limit }: SalesPage): Promise<readonly SaleRecord[]> {
    return [...this.#store.payments]
      .flatMap(([key, { row, claimedMs, events }]) => {
        const state = SOLD_STATES.find((each) => each === row.state);
        if (state === undefined || row.binding === null || claimedMs < sinceMs) return [];
        const deliveredMs = events.find((each) => each.state === "DELIVERED")?.atMs ?? null;
        const { binding, payer } = row;
        return [{ key, binding, payer, state, claimedMs, deliveredMs }];
      })
      .toSorted((left, right) => inOrder(right, left))
      .filter((each) => after === undefined || inOrder(each, after) < 0)
      .slice(0, limit);
  }

  async accounts(days: Days): Promise<readonly Entry[]> {
    const totals = new Totals(days);
    totals.add(this.#store.closed);
    for (const kept of this.#store.payments.values()) totals.add(entriesOfKept(kept));
    for (const submission of this.#store.submissions.values()) {
      const carried = [...this.#store.payments.values()].filter(({ row }) =>
        isCarriedBy(submission, row),
      );
      totals.add(
        gasOf(
          submission,
          carried.map(({ row }) => bearerOf(row)),
        ),
      );
    }
    return totals.list();
  }

  async credits(): Promise<readonly CreditsSum[]> {
    return this.#store.pots.sums(this.#store.closed);
  }

  async creditsOf(payer: string): Promise<PayerCredits> {
    const pots = creditsPotsOf(payer).map((pot) => ({
      pot,
      found: this.#store.pots.pots.get(pot),
    }));
    const balances = pots.flatMap(({ pot, found: { free, leased } = { free: 0n, leased: 0n } }) =>
      free + leased > 0n ? [{ pot, free, leased }] : [],
    );
    const bought = [...this.#store.payments].filter(([, { row }]) => {
      const isHis = row.payer.toLowerCase() === payer.toLowerCase() && row.fills !== null;
      const isLeft = row.fills !== null && readFill(row.fills).amount > refundedPart(row);
      const isOver = row.refundState === null || refundedPart(row) > 0n;
      return isHis && row.state === "DELIVERED" && isOver && isLeft;
    });
    const inOrder = bought.toSorted(([, one], [, other]) => other.claimedMs - one.claimedMs);
    return {
      balances,
      purchases: inOrder.slice(0, MAX_REFUNDABLE).map(([key, { row }]) => {
        const { network, fills } = row;
        const { asset } = requestOf(row).paymentRequirements;
        const refunded = row.refundState === null ? null : String(refundedPart(row));
        return readRefundable({ key, network, asset, fills, refunded });
      }),
    };
  }

  async *evidence(days: Days): AsyncGenerator<readonly Evidence[]> {
    const { fromMs, endMs } = spanOf(days);
    const isWithin = (ms: number): boolean => ms >= fromMs && ms < endMs;
    yield [...this.#store.payments].flatMap(([key, { row, events }]) => {
      const transaction = row.settledTransaction ?? row.heldTransaction;
      const { paidMs } = timesOf(row.state, events);
      if (transaction === null || !isWithin(paidMs)) return [];
      const request = requestOf(row);
      const { asset, payTo } = request.paymentRequirements;
      const { network } = row;
      const told = { key, network, asset, amount: amountOf(request), payTo, transaction, request };
      return [{ kind: "payment" as const, ...told }];
    });
    yield [...this.#store.submissions.values()]
      .filter(({ signedMs }) => isWithin(signedMs))
      .flatMap(gasEvidence);
  }

  async usedElsewhere(limit: number): Promise<readonly UsedElsewhere[]> {
    const all = [...this.#store.usedElsewhere.values()];
    return all.toSorted((left, right) => right.seenMs - left.seenMs).slice(0, limit);
  }

  #isNamed([key, { row }]: Line, wanted: string): boolean {
    if (key === wanted || key.endsWith(`/${wanted}`)) return true;
    if (row.settledTransaction?.toLowerCase() === wanted) return true;
    if (row.heldTransaction?.toLowerCase() === wanted) return true;
    const transactions = this.#submission(row)?.transactions ?? [];
    return transactions.some((transaction) => transaction.toLowerCase() === wanted);
  }

  #submission(row: PaymentRow): PaymentDetail["submission"] {
    const kept = row.submission === null ? undefined : this.#store.submissions.get(row.submission);
    const first = kept?.variants[0];
    if (kept === undefined || first === undefined) return null;
    const { account, accountNonce } = first;
    const transactions = kept.variants.map(({ transaction }) => transaction);
    return { id: kept.id, state: kept.state, account, accountNonce, transactions };
  }
}

export function entriesOfKept({ row, events }: KeptPayment): readonly Entry[] {
  if (row.settledTransaction === null && row.heldTransaction === null) return [];
  const request = requestOf(row);
  const { asset, payTo } = request.paymentRequirements;
  const { state, binding, route, network } = row;
  const told = { state, binding, route, network, asset, amount: amountOf(request), payTo };
  const refunded = { payer: row.payer, isRefundSent: row.refundState !== null };
  return entriesOf({ ...told, ...refunded, ...timesOf(state, events) });
}

export function isCarriedBy(submission: KeptSubmission, row: PaymentRow): boolean {
  const paid = row.settledTransaction ?? row.heldTransaction;
  return row.submission === submission.id && isMovedBy(submission, paid);
}

function isUndelivered({ state, binding }: PaymentRow): boolean {
  return state === "SETTLED" && binding !== null;
}

function isRefundOpen({ refundState }: PaymentRow): boolean {
  return refundState === "ASKED" || refundState === "SENDING";
}

function matches([, { row, claimedMs }]: Line, filter: PaymentFilter): boolean {
  return (
    (filter.states === undefined || filter.states.includes(row.state)) &&
    (filter.undelivered !== true || isUndelivered(row) || isHeld(row)) &&
    (filter.held === undefined || filter.held === isHeld(row)) &&
    (filter.unrefunded !== true || row.refundState === "FAILED") &&
    (filter.network === undefined || filter.network === row.network) &&
    (filter.payer === undefined || filter.payer.toLowerCase() === row.payer.toLowerCase()) &&
    (filter.sinceMs === undefined || claimedMs >= filter.sinceMs) &&
    (filter.untilMs === undefined || claimedMs < filter.untilMs)
  );
}

function summarize([key, { row, claimedMs, updatedMs }]: Line): PaymentSummary {
  const request = requestOf(row);
  const { asset, payTo } = request.paymentRequirements;
  return {
    key,
    state: row.state,
    network: row.network,
    asset,
    amount: amountOf(request),
    payer: row.payer,
    payTo,
    binding: row.binding,
    target: row.target,
    facilitator: row.facilitator,
    transaction: row.settledTransaction,
    heldTransaction: row.heldTransaction,
    refund: refundSummary(row),
    isTransferBack: isTransferBack(row),
    attempts: row.attempts,
    ...waitingOf(row),
    failureCode: row.failureCode,
    failureDetail: row.failureDetail,
    claimedMs,
    updatedMs,
  };
}

interface Place {
  readonly claimedMs: number;
  readonly key: string;
}

function inOrder(left: Place, right: Place): number {
  return left.claimedMs - right.claimedMs || (left.key < right.key ? -1 : 1);
}

function byClaim([, left]: Line, [, right]: Line): number {
  return right.claimedMs - left.claimedMs;
}
