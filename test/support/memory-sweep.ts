/** How what is over leaves a memory ledger: all at once, by the rules that the real ones keep. */
import { bearerOf, gasOf, shareOf } from "../../src/ledger/accounts.ts";
import {
  forgottenIn,
  judgeForgetting,
  lookedAt,
  type ForgetStep,
  type Forgotten,
} from "../../src/ledger/forgetting.ts";
import { requestOf, type PaymentRow } from "../../src/ledger/payment-row.ts";
import { refundSummary } from "../../src/ledger/refunds.ts";
import {
  fateOf,
  type Candidate,
  type Fate,
  type SweepStep,
  type Swept,
} from "../../src/ledger/sweep.ts";
import { digestOf } from "../../src/ledger/tombstone.ts";
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

export function forgetInMemory(store: MemoryStore, nowMs: number, step: ForgetStep): Forgotten {
  const isHis = (name: string): boolean => name.toLowerCase() === step.payer.toLowerCase();
  const his = [...store.payments].filter(([, { row }]) => isHis(row.payer));
  const back = new Set(his.map(([, { row }]) => refundSummary(row)?.transfer));
  const payments = [...store.payments].filter(
    ([key, { row }]) => isHis(row.payer) || back.has(key),
  );
  const newest = payments.toReversed().slice(0, lookedAt(step));
  const known = newest.map(([key, kept]) => ({
    ...candidateOf(store, kept),
    key,
    row: kept.row,
    isDoubted: kept.row.lookAgainMs !== null,
  }));
  const judged = judgeForgetting(known, nowMs);
  const elsewhere = [...store.usedElsewhere].filter(([, { payer }]) => isHis(payer));
  const counted = { submissions: 0, usedElsewhere: elsewhere.length };
  if (step.isTried || judged.unfinished.length > 0)
    return forgottenIn(step, known.length, judged, counted);
  const carried = new Set(judged.going.map(({ payment }) => payment.row.submission));
  for (const { payment, fate } of judged.going) removePayment(store, { ...payment, fate });
  const submissions = sweepSubmissions(store, ({ id }) => carried.has(id));
  for (const [key] of elsewhere) store.usedElsewhere.delete(key);
  for (const [place, { data }] of store.messages.byPlace) {
    const { payer } = Object(JSON.parse(data));
    if (typeof payer === "string" && isHis(payer)) store.messages.byPlace.delete(place);
  }
  return forgottenIn(step, known.length, judged, { ...counted, submissions });
}

function candidateOf(store: MemoryStore, { row, updatedMs }: KeptPayment): Candidate {
  return {
    state: row.state,
    isForOthers: row.binding === null,
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
  const { binding, idempotencyKey, settledTransaction: transaction } = row;
  const caller = binding === null && idempotencyKey !== null ? digestOf(idempotencyKey) : null;
  if (fate === "buried" && transaction !== null) store.tombstones.set(key, { transaction, caller });
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
