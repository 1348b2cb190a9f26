/**
 * The ledger in memory, on the same state machine as the real ones: for simulations and for tests of what
 * stands on a ledger. Several lives may be open on one store; a life that is declared dead keeps nothing,
 * what it stored stays. Every call takes its whole effect at once, before its promise is returned.
 */
import {
  LedgerConflict,
  LedgerUnavailable,
  MAX_OWED,
  MISNAMED,
  actorOf,
  isFirstUse,
  type BoughtSale,
  type HandedOver,
  type Lease,
  type Ledger,
  type OfferedPayment,
  type OutcomeOf,
  type OwedPayment,
  type Queues,
  type Signing,
  type SignInRecords,
  type Recalled,
  type RecalledSale,
  type SettlementOutcome,
  type StoredResponse,
  type StoredSubmission,
  type StoredTransaction,
  type SubmissionCost,
  type SubmissionState,
  type TransitionKind,
  type TransitionOf,
  type WorkerLife,
} from "../../src/ledger/ledger.ts";
import { gasBudget, moreGas, type Budgets } from "../../src/ledger/budgets.ts";
import type { KeptCertificates } from "../../src/ledger/certificates.ts";
import type { Pauses } from "../../src/ledger/pauses.ts";
import { eventOf } from "../../src/ledger/outbox-event.ts";
import { lifeWithin, processOf } from "../../src/ledger/life.ts";
import * as machine from "../../src/ledger/machine.ts";
import { isMisnamed, isOwed, isPublic, isToBeHad } from "../../src/ledger/payment-judgement.ts";
import { handedOverOf, requestOf, type PaymentRow } from "../../src/ledger/payment-row.ts";
import { potToPour } from "../../src/ledger/pouring.ts";
import type { Pots } from "../../src/ledger/pots.ts";
import type { Purse, Draws, Spend } from "../../src/ledger/purse.ts";
import {
  UNWATCHED_MS,
  type OpenRefund,
  type OpenRefundState,
} from "../../src/ledger/refund-steps.ts";
import { openRefundOf } from "../../src/ledger/refunds.ts";
import type { PaidSale, SignInUse, SignInVerdict } from "../../src/ledger/sign-ins.ts";
import type { Upkeep } from "../../src/ledger/upkeep.ts";
import type { ForgottenInStep, ForgetStep } from "../../src/ledger/forgetting.ts";
import type { Swept, SweepStep } from "../../src/ledger/sweep.ts";
import { requireSignedFor } from "../../src/ledger/submission-row.ts";
import { buriedOutcome, type Tombstone } from "../../src/ledger/tombstone.ts";
import { usedElsewhere, type AskedFor } from "../../src/ledger/used-elsewhere.ts";
import type { Time } from "../../src/time/time.ts";
import { isEvmPayload, samePayment, type PaymentKey } from "../../src/x402/payment-key.ts";
import type { PaymentPayload } from "../../src/x402/x402.ts";
import { MemoryBooks } from "./memory-books.ts";
import { MemoryOutbox } from "./memory-outbox.ts";
import { certificatesIn, pausesIn } from "./memory-parts.ts";
import { potsIn } from "./memory-pots.ts";
import { MemorySoldOffers } from "./memory-sold-offers.ts";
import {
  accountOf,
  byChange,
  type KeptPayment,
  type KeptSubmission,
  type MemoryStore,
} from "./memory-store.ts";
import type { LeftAccount } from "../../src/ledger/unattended.ts";
import { forgetInMemory, sweepMemory } from "./memory-sweep.ts";

export { MemoryStore } from "./memory-store.ts";

export interface MemoryLedgerOptions {
  readonly store: MemoryStore;
  readonly time: Pick<Time, "now">;
  /** Unique to this life of a process. */
  readonly life: string;
  /** Of the process, where it is a worker's. */
  readonly outbox?: MemoryOutbox;
}

export class MemoryLedger implements Ledger, WorkerLife, Signing, Queues, Upkeep, SignInRecords {
  readonly signing: Signing = this;
  readonly queues: Queues = this;
  readonly upkeep: Upkeep = this;
  readonly signIns: SignInRecords = this;
  readonly books: MemoryBooks;
  readonly sold: MemorySoldOffers;
  readonly budgets: Budgets;
  readonly pauses: Pauses;
  readonly certificates: KeptCertificates;
  readonly outbox: MemoryOutbox;
  readonly pots: Pots;
  readonly #store: MemoryStore;
  readonly #time: Pick<Time, "now">;
  readonly #life: string;
  #isClosed = false;

  constructor({ store, time, life, outbox }: MemoryLedgerOptions) {
    this.#store = store;
    this.#time = time;
    this.#life = life;
    this.books = new MemoryBooks(store);
    this.sold = new MemorySoldOffers(store.soldOffers);
    this.budgets = {
      reserve: async (key, sale) => store.reserve(key, sale, time.now()),
      counted: async (names) => store.counted(time.now(), names),
    };
    this.pots = potsIn(store, time, life);
    this.pauses = pausesIn(store, time);
    this.certificates = certificatesIn(store, time);
    this.outbox = outbox ?? new MemoryOutbox(store.messages, time);
  }

  async step<Kind extends TransitionKind>(
    key: PaymentKey,
    transition: TransitionOf<Kind>,
  ): Promise<OutcomeOf<Kind>> {
    const buried = isFirstUse(transition.kind) ? this.#tombstone(key) : undefined;
    const life = actorOf(transition, this.#life);
    const named = this.#named(machine.identifierOf(transition));
    const isCounted = machine.isCounted(transition);
    const counted = isCounted ? this.#store.refundedToday(key, this.#time.now()) : undefined;
    const name = potToPour(this.#store.payments.get(key)?.row, transition);
    const pot = name === undefined ? undefined : this.#store.pots.pots.get(name);
    const known = { buried, named, counted, pot };
    return this.#take(key, (row, moment) => machine.apply(row, transition, moment, known), life);
  }

  #named(identifier: string | undefined): PaymentRow | undefined {
    if (identifier === undefined) return undefined;
    const rows = [...this.#store.payments.values()].map(({ row }) => row);
    return rows.find((row) => row.identifier === identifier);
  }

  async recall(payment: PaymentPayload, sale: RecalledSale): Promise<Recalled> {
    this.#requireOpen();
    if (isMisnamed({ paymentPayload: payment }, sale, this.#named(sale.identifier))) {
      return MISNAMED;
    }
    const owed: OwedPayment[] = [];
    let isNew = true;
    const own = isEvmPayload(payment.payload) ? payment.payload.authorization : undefined;
    const end = own && `/${own.from}/${own.nonce}`.toLowerCase();
    const { dead } = this.#store;
    for (const [key, { row }] of this.#store.payments) {
      const request = requestOf(row);
      const isSame = end !== undefined && key.endsWith(end);
      if (isSame && samePayment(request.paymentPayload, payment)) return { request, owed: [] };
      if (isSame) isNew = false;
      const isLeft = row.isLeft || (row.holder !== null && dead.has(processOf(row.holder)));
      const isOpen = row.state !== "DELIVERED" || row.isLeft;
      if (!isOpen || !isOwed({ ...row, isLeft }, payment, sale, this.#time.now())) continue;
      if (owed.length < MAX_OWED) owed.push({ key, request });
    }
    return { request: undefined, owed: isNew ? owed : [] };
  }

  async changed(key: PaymentKey, version: number, signal: AbortSignal): Promise<void> {
    if (this.#store.payments.get(key)?.row.version !== version) return;
    await this.#store.rowChanges.wait(key, signal);
  }

  async answer(key: PaymentKey): Promise<StoredResponse | undefined> {
    this.#requireOpen();
    return this.#store.responses.get(key)?.response;
  }

  async handedOvers(limit: number): Promise<readonly HandedOver[]> {
    this.#requireOpen();
    const found: HandedOver[] = [];
    for (const [key, { row, updatedMs }] of this.#store.payments) {
      if (row.state !== "SIGNED" || row.submission !== null || row.facilitator === null) continue;
      if (row.heldTransaction !== null) continue;
      found.push(handedOverOf(row, key, updatedMs));
    }
    return found.sort((left, right) => left.sinceMs - right.sinceMs).slice(0, limit);
  }

  async doubted(limit: number): Promise<readonly HandedOver[]> {
    this.#requireOpen();
    const nowMs = this.#time.now();
    const due = [...this.#store.payments].filter(([, { row }]) => {
      return row.lookAgainMs !== null && row.lookAgainMs <= nowMs;
    });
    due.sort(([, left], [, right]) => Number(left.row.lookAgainMs) - Number(right.row.lookAgainMs));
    return due
      .slice(0, limit)
      .map(([key, { row, updatedMs }]) => handedOverOf(row, key, updatedMs));
  }

  async outcome(key: PaymentKey): Promise<SettlementOutcome> {
    this.#requireOpen();
    const tombstone = this.#tombstone(key);
    if (tombstone !== undefined) return buriedOutcome(key, tombstone);
    return machine.outcome(this.#store.payments.get(key)?.row);
  }

  async lease(network: string, address: string): Promise<Lease | undefined> {
    this.#requireOpen();
    const name = accountOf(network, address);
    const held = this.#store.leases.get(name);
    const isTaken =
      held !== undefined && held.holder !== null && !this.#store.dead.has(held.holder);
    if (isTaken && held.holder !== this.#life) return undefined;
    const epoch = isTaken ? held.epoch : (held?.epoch ?? 0) + 1;
    this.#store.leases.set(name, { holder: this.#life, epoch });
    return { network, address, epoch };
  }

  async unlease(lease: Lease): Promise<void> {
    this.#requireOpen();
    if (!this.#holds(lease)) return;
    const name = accountOf(lease.network, lease.address);
    this.#store.leases.set(name, { holder: null, epoch: lease.epoch });
  }

  async signed(
    keys: readonly PaymentKey[],
    account: Lease & { readonly seed: number },
    sign: (accountNonce: number) => StoredTransaction,
    draws?: Draws,
  ): Promise<StoredSubmission> {
    this.#requireOpen();
    this.#requireLease(account);
    if (new Set(keys).size < keys.length)
      throw new LedgerConflict("a payment cannot be signed twice");
    if (draws !== undefined) this.#store.requireCovered(draws);
    const { network, address, seed } = account;
    const name = accountOf(network, address);
    const nonce = Math.max(this.#store.nextNonces.get(name) ?? seed, seed);
    const variant = sign(nonce);
    requireSignedFor(variant, address, nonce);
    const moment = this.#moment();
    const steps = keys.map((key) => {
      const row = this.#store.payments.get(key)?.row;
      return { key, step: machine.sign(row, variant.transaction, moment) };
    });
    this.#store.nextNonces.set(name, nonce + 1);
    const submission: KeptSubmission = {
      id: variant.transaction,
      network,
      state: "OPEN",
      variants: [variant],
      signedMs: moment.nowMs,
      cost: null,
    };
    this.#store.submissions.set(submission.id, submission);
    for (const { key, step } of steps) this.#store.apply(key, step, moment);
    const { payments, ...rest } = this.#store.withPayments(submission);
    const place = ({ key }: { readonly key: PaymentKey }): number => keys.indexOf(key);
    return { ...rest, payments: payments.toSorted((one, other) => place(one) - place(other)) };
  }

  async spends(purse: Purse, settledAfterMs: number): Promise<readonly Spend[]> {
    this.#requireOpen();
    return this.#store.spends(purse, settledAfterMs);
  }

  async hasSigned(transaction: string): Promise<boolean> {
    this.#requireOpen();
    const all = [...this.#store.submissions.values()].flatMap(({ variants }) => variants);
    return all.some((each) => each.transaction.toLowerCase() === transaction.toLowerCase());
  }

  async resolveAsked(): Promise<number> {
    return 0;
  }

  async refunds(
    network: string,
    limit: number,
    state?: OpenRefundState,
  ): Promise<readonly OpenRefund[]> {
    this.#requireOpen();
    return [...this.#store.payments]
      .toSorted(byChange)
      .filter(([, payment]) => this.#mayBePaidBack(payment))
      .filter(
        ([, { row }]) => row.network === network && row.refundState === (state ?? row.refundState),
      )
      .slice(0, limit)
      .map(([key, { row }]) => openRefundOf(row, key));
  }

  #mayBePaidBack({ row, updatedMs }: KeptPayment): boolean {
    if (row.refundState !== "ASKED") return row.refundState === "SENDING";
    if (row.submission === null) return updatedMs <= this.#time.now() - UNWATCHED_MS;
    return (this.#store.submissions.get(row.submission)?.state ?? "CLOSED") === "CLOSED";
  }

  async replaced(lease: Lease, id: string, variant: StoredTransaction): Promise<void> {
    this.#requireOpen();
    this.#requireLease(lease);
    const submission = this.#store.submissions.get(id);
    const first = submission?.variants[0];
    if (submission === undefined || first === undefined || submission.state === "CLOSED") {
      throw new LedgerConflict("that submission takes no other variant");
    }
    const isSame =
      first.accountNonce === variant.accountNonce &&
      accountOf(lease.network, first.account) === accountOf(lease.network, variant.account) &&
      accountOf(lease.network, first.account) === accountOf(lease.network, lease.address);
    if (!isSame) throw new LedgerConflict("a variant must have its submission's account nonce");
    if (submission.variants.some(({ transaction }) => transaction === variant.transaction)) return;
    const variants = [...submission.variants, variant];
    this.#store.submissions.set(id, { ...submission, variants, signedMs: this.#time.now() });
  }

  async concluded(id: string, state: SubmissionState, cost?: SubmissionCost): Promise<void> {
    this.#requireOpen();
    const submission = this.#store.submissions.get(id);
    if (submission === undefined) throw new LedgerConflict("there is no such submission");
    if (submission.state === state) return;
    if (submission.state === "CLOSED") throw new LedgerConflict("that submission is closed");
    const known = cost ?? (state === "OPEN" ? null : submission.cost);
    const gas = moreGas(submission.cost, known);
    this.#store.count(this.#time.now(), gasBudget(submission.network), gas);
    this.#store.submissions.set(id, { ...submission, state, cost: known });
  }

  async offers(network: string, limit: number): Promise<readonly OfferedPayment[]> {
    this.#requireOpen();
    return [...this.#store.payments]
      .toSorted(byChange)
      .filter(([, { row }]) => row.network === network && row.offered)
      .slice(0, limit)
      .map(([key, { row }]) => {
        return { key, request: requestOf(row), isPublic: isPublic(row), version: row.version };
      });
  }

  async offered(signal: AbortSignal): Promise<void> {
    await this.#store.offers.wait("", signal);
  }

  async unfinished(network: string, address: string): Promise<readonly StoredSubmission[]> {
    this.#requireOpen();
    return this.#store.unfinished(accountOf(network, address));
  }

  async unattended(): Promise<readonly LeftAccount[]> {
    this.#requireOpen();
    return this.#store.unattended(this.#life);
  }

  async nextAccountNonce(network: string, address: string): Promise<number | undefined> {
    this.#requireOpen();
    return this.#store.nextNonces.get(accountOf(network, address));
  }

  async termsChangedAt(route: string, termsHash: string, now: number): Promise<number> {
    this.#requireOpen();
    const known = this.#store.terms.get(route);
    if (known?.hash === termsHash) return known.changedAt;
    this.#store.terms.set(route, { hash: termsHash, changedAt: now });
    return now;
  }

  async reap(): Promise<number> {
    this.#requireOpen();
    this.#store.pots.reap(this.#store.dead, this.#time.now());
    let freed = 0;
    for (const [key, { row }] of this.#store.payments) {
      const isOver = (life: string): boolean => this.#store.dead.has(processOf(life));
      if (!isOver(row.claimedBy) && !isOver(row.holder ?? "")) continue;
      if (this.#take(key, (found) => machine.reap(found, isOver))) freed += 1;
    }
    for (const [key, { untilMs }] of this.#store.responses) {
      if (untilMs <= this.#time.now()) this.#store.responses.delete(key);
    }
    return freed;
  }

  async buried(keys: readonly PaymentKey[]): Promise<readonly PaymentKey[]> {
    return keys.filter((key) => this.#tombstone(key) !== undefined);
  }

  async bought(payer: string, sale: BoughtSale) {
    this.#requireOpen();
    const now = this.#time.now();
    const rank = ({ state }: PaymentRow): number => Number(state === "DELIVERED");
    const found = [...this.#store.payments].filter(([, { row }]) => {
      return row.payer.toLowerCase() === payer.toLowerCase() && isToBeHad(row, sale, now);
    });
    const inOrder = found
      .toReversed()
      .sort(([, one], [, other]) => rank(one.row) - rank(other.row))
      .slice(0, MAX_OWED);
    return inOrder.map(([key, { row }]) => ({ key, request: requestOf(row) }));
  }

  async purchases(payer: string, routes: readonly string[] | null): Promise<readonly PaidSale[]> {
    this.#requireOpen();
    return this.#store.purchases(payer, routes);
  }

  async use(use: SignInUse): Promise<SignInVerdict> {
    this.#requireOpen();
    return this.#store.useSignIn(use, this.#time.now());
  }

  async key(): Promise<Uint8Array> {
    return this.#store.signInKey;
  }

  async noteUsedElsewhere(key: PaymentKey, asked: AskedFor): Promise<void> {
    this.#requireOpen();
    this.#store.noteUsedElsewhere(usedElsewhere(key, asked, this.#time.now()));
  }

  async sweep(step: SweepStep): Promise<Swept> {
    this.#requireOpen();
    const { nowMs } = this.#moment();
    return sweepMemory({ store: this.#store, books: this.books, nowMs }, step);
  }

  async forget(step: ForgetStep): Promise<ForgottenInStep> {
    this.#requireOpen();
    return forgetInMemory(this.#store, this.#moment().nowMs, step);
  }

  worker(name: string): WorkerLife {
    const life = lifeWithin(this.#life, name);
    const { outbox } = this;
    return new MemoryLedger({ store: this.#store, time: this.#time, life, outbox });
  }

  async end(kept: ReadonlySet<PaymentKey>): Promise<number> {
    let freed = 0;
    const isOver = (life: string): boolean => life === this.#life;
    this.#store.pots.returnLeases(isOver);
    this.#store.pots.ended.add(this.#life);
    for (const key of this.#store.payments.keys()) {
      if (this.#take(key, (found) => machine.reap(found, isOver, kept.has(key)))) freed += 1;
    }
    return freed;
  }

  async ping(): Promise<void> {
    this.#requireOpen();
  }

  /** The life ends in order: its account leases are given back, as when its process had died. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#store.kill(this.#life);
  }

  #take<Outcome>(
    key: PaymentKey,
    judge: (row: PaymentRow | undefined, moment: machine.Moment) => machine.Step<Outcome>,
    life = this.#life,
  ): Outcome {
    this.#requireOpen();
    const moment = { life, nowMs: this.#time.now() };
    const before = this.#store.payments.get(key)?.row;
    const step = judge(before, moment);
    if (step.next) this.outbox.add(eventOf(key, before, step.next), moment.nowMs);
    this.#store.apply(key, step, moment);
    if (step.answer !== undefined) this.#store.responses.set(key, step.answer);
    if (step.next?.offered === true) this.#store.offers.notify("");
    return step.outcome;
  }

  #tombstone(key: PaymentKey): Tombstone | undefined {
    this.#requireOpen();
    return this.#store.payments.has(key) ? undefined : this.#store.tombstones.get(key);
  }

  #moment(): machine.Moment {
    return { life: this.#life, nowMs: this.#time.now() };
  }

  #requireOpen(): void {
    if (this.#isClosed) throw new LedgerUnavailable("the ledger is closed");
    if (this.#store.dead.has(this.#life) && !this.#store.undead.has(this.#life))
      throw new LedgerUnavailable("this life is over");
  }

  #requireLease(lease: Lease): void {
    if (!this.#holds(lease)) throw new LedgerConflict("the account is leased to another life");
  }

  #holds({ network, address, epoch }: Lease): boolean {
    const held = this.#store.leases.get(accountOf(network, address));
    return held?.holder === this.#life && held.epoch === epoch;
  }
}
