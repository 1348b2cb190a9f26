/** How what is over leaves a memory ledger: all at once, by the rules that the real ones keep. */
import { bearerOf, gasOf, shareOf } from "../../src/ledger/accounts.ts";
import {
  forgottenIn,
  forgottenRest,
  judgeForgetting,
  lookedAt,
  MESSAGES_TOGETHER,
  isFirstStep,
  placeOf,
  prepaid,
  type ForgetPlace,
  type ForgetStep,
  type ForgottenInStep,
} from "../../src/ledger/forgetting.ts";
import { isRefunded } from "../../src/ledger/payment-judgement.ts";
import { requestOf, type PaymentRow } from "../../src/ledger/payment-row.ts";
import {
  fateOf,
  type Candidate,
  type Fate,
  type SweepStep,
  type Swept,
} from "../../src/ledger/sweep.ts";
import { tombstoneOf } from "../../src/ledger/tombstone.ts";
import type { PaymentKey } from "../../src/x402/payment-key.ts";
import { entriesOfKept, isCarriedBy, type MemoryBooks } from "./memory-books.ts";
import type { KeptPayment, MemoryStore } from "./memory-store.ts";

interface Ground {
  readonly store: MemoryStore;
  readonly books: MemoryBooks;
  readonly nowMs: number;
}

export async function sweepMemory(
  { store, books, nowMs }: Ground,
  { beforeMs, archive }: SweepStep,
): Promise<Swept> {
  const doomed = [...store.payments].flatMap(([key, kept]) => {
    const { row, claimedMs } = kept;
    const candidate = candidateOf(store, kept);
    const fate = claimedMs < beforeMs ? fateOf(candidate, beforeMs, nowMs) : "kept";
    return fate === "kept" ? [] : [{ key, row, fate }];
  });
  if (archive !== undefined && doomed.length > 0) {
    const shown = await Promise.all(doomed.map(({ key }) => books.show(key)));
    await archive(shown.filter((each) => each !== undefined));
  }
  const payments = doomed.filter((each) => removePayment(store, each)).length;
  sweepSubmissions(store, ({ signedMs }) => signedMs < beforeMs);
  for (const [key, { seenMs }] of store.usedElsewhere) {
    if (seenMs < beforeMs) store.usedElsewhere.delete(key);
  }
  return { payments, next: undefined };
}

/** See {@link Forgetting.forget}: payments in the order of their claims have their place in that as their id. */
export function forgetInMemory(
  store: MemoryStore,
  nowMs: number,
  step: ForgetStep,
): ForgottenInStep {
  const place = placeOf(step);
  if (isFirstStep(step) && store.pots.hasCredits(step.payer)) return prepaid();
  return place.stage === "rest"
    ? forgetRest(store, step, place)
    : forgetPayments(store, nowMs, step, place);
}

function forgetPayments(
  store: MemoryStore,
  nowMs: number,
  step: ForgetStep,
  { stage, ms, id }: ForgetPlace,
): ForgottenInStep {
  const newest = [...store.payments]
    .map(([key, kept], index) => ({ key, kept, ms: kept.claimedMs, id: index }))
    .filter(({ kept }) => isOfStage(kept, step, stage))
    .filter((each) => each.ms < ms || (each.ms === ms && each.id < id))
    .toSorted((left, right) => right.ms - left.ms || right.id - left.id)
    .slice(0, lookedAt(step));
  const known = newest.map(({ key, kept }) => ({
    ...candidateOf(store, kept),
    key,
    row: kept.row,
    isDoubted: kept.row.lookAgainMs !== null,
  }));
  const looked = newest.map((each) => ({ ms: each.ms, id: each.id }));
  const judged = judgeForgetting(known, nowMs);
  if (step.isTried) return forgottenIn(step, looked, judged);
  const carried = new Set(judged.going.map(({ payment }) => payment.row.submission));
  for (const { payment, fate } of judged.going) removePayment(store, { ...payment, fate });
  const submissions = sweepSubmissions(store, (each) => carried.has(each.id));
  return forgottenIn(step, looked, judged, submissions);
}

function isOfStage(
  { row }: KeptPayment,
  { payer }: ForgetStep,
  stage: ForgetPlace["stage"],
): boolean {
  const isBack = row.binding === null && row.route !== null;
  const { payTo } = requestOf(row).paymentRequirements;
  return stage === "payments" ? isOf(payer, row.payer) : isBack && isOf(payer, payTo);
}

function forgetRest(
  store: MemoryStore,
  { payer, isTried }: ForgetStep,
  { id: from }: ForgetPlace,
): ForgottenInStep {
  const elsewhere = [...store.usedElsewhere].filter(([, each]) => isOf(payer, each.payer));
  if (isTried) return forgottenRest(elsewhere.length, []);
  for (const [key] of elsewhere) store.usedElsewhere.delete(key);
  if (from === 0) store.pots.forget(payer);
  const messages = [...store.messages.byPlace].filter(([place]) => place > from);
  const looked = messages.slice(0, MESSAGES_TOGETHER);
  for (const [place, { data }] of looked) {
    const told = Object(JSON.parse(data));
    if (typeof told.payer === "string" && isOf(payer, told.payer)) {
      store.messages.byPlace.delete(place);
    }
  }
  return forgottenRest(
    elsewhere.length,
    looked.map(([place]) => place),
  );
}

function isOf(payer: string, name: string): boolean {
  return name.toLowerCase() === payer.toLowerCase();
}

function candidateOf(store: MemoryStore, { row, updatedMs }: KeptPayment): Candidate {
  return {
    state: row.state,
    isForOthers: row.binding === null,
    isPaidBack: isRefunded(row),
    refundState: row.refundState,
    updatedMs,
    submissionState: store.submissions.get(row.submission ?? "")?.state ?? null,
    request: () => requestOf(row),
  };
}

interface Doomed {
  readonly key: PaymentKey;
  readonly row: PaymentRow;
  readonly fate: Fate;
}

/** False where it has changed since it was looked at. */
function removePayment(store: MemoryStore, { key, row, fate }: Doomed): boolean {
  const kept = store.payments.get(key);
  if (kept === undefined || kept.row.version !== row.version) return false;
  if (fate === "buried") store.tombstones.set(key, tombstoneOf(row));
  closePayment(store, kept);
  store.payments.delete(key);
  store.responses.delete(key);
  return true;
}

/** How many have gone. */
function sweepSubmissions(
  store: MemoryStore,
  isMeant: (submission: { readonly id: string; readonly signedMs: number }) => boolean,
): number {
  const used = new Set([...store.payments.values()].map(({ row }) => row.submission ?? row.leftBy));
  const unused = [...store.submissions.values()].filter(
    (each) => each.state === "CLOSED" && isMeant(each) && !used.has(each.id),
  );
  for (const submission of unused) {
    store.closed.push(...gasOf(submission, []));
    store.submissions.delete(submission.id);
  }
  return unused.length;
}

function closePayment(store: MemoryStore, kept: KeptPayment): void {
  const { row } = kept;
  store.closed.push(...entriesOfKept(kept));
  const submission = store.submissions.get(row.submission ?? "");
  if (submission === undefined || !isCarriedBy(submission, row)) return;
  const shared = shareOf(submission, bearerOf(row));
  if (shared === undefined) return;
  store.closed.push(shared.entry);
  store.submissions.set(submission.id, { ...submission, cost: shared.left });
}
