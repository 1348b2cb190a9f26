/** How what is over leaves a memory ledger: all at once, by the rules that the real ones keep. */
import { bearerOf, gasOf, shareOf } from "../../src/ledger/accounts.ts";
import { requestOf } from "../../src/ledger/payment-row.ts";
import { fateOf, type SweepStep, type Swept } from "../../src/ledger/sweep.ts";
import { digestOf } from "../../src/ledger/tombstone.ts";
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
  const doomed = [...store.payments].flatMap(([key, { row, claimedMs, updatedMs }]) => {
    const candidate = {
      state: row.state,
      isForOthers: row.binding === null,
      refundState: row.refundState,
      updatedMs,
      submissionState: store.submissions.get(row.submission ?? "")?.state ?? null,
      request: () => requestOf(row),
    };
    const fate = claimedMs < beforeMs ? fateOf(candidate, beforeMs, nowMs) : "kept";
    return fate === "kept" ? [] : [{ key, row, fate }];
  });
  if (archive !== undefined && doomed.length > 0) {
    const shown = await Promise.all(doomed.map(({ key }) => books.show(key)));
    await archive(shown.filter((each) => each !== undefined));
  }
  let payments = 0;
  for (const { key, row, fate } of doomed) {
    if (store.payments.get(key)?.row.version !== row.version) continue;
    const { binding, idempotencyKey, settledTransaction: transaction } = row;
    const caller = binding === null && idempotencyKey !== null ? digestOf(idempotencyKey) : null;
    if (fate === "buried" && transaction !== null)
      store.tombstones.set(key, { transaction, caller });
    const kept = store.payments.get(key);
    if (kept !== undefined) closePayment(store, kept);
    store.payments.delete(key);
    store.responses.delete(key);
    payments += 1;
  }
  sweepSubmissions(store, beforeMs);
  for (const [key, { seenMs }] of store.usedElsewhere) {
    if (seenMs < beforeMs) store.usedElsewhere.delete(key);
  }
  return { payments, next: undefined };
}

function sweepSubmissions(store: MemoryStore, beforeMs: number): void {
  const used = new Set([...store.payments.values()].map(({ row }) => row.submission ?? row.leftBy));
  for (const [id, { state, signedMs }] of store.submissions) {
    if (state !== "CLOSED" || signedMs >= beforeMs || used.has(id)) continue;
    const submission = store.submissions.get(id);
    if (submission !== undefined) store.closed.push(...gasOf(submission, []));
    store.submissions.delete(id);
  }
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
