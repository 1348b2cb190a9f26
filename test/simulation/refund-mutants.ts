/** Refunds, and what their buyers are told of them, without one guard. */
import { caughtBy, type Mutant } from "./mutant.ts";

const CONTRACT = "test/unit/ledger/memory-ledger.test.ts";
const SQLITE_CONTRACT = "test/unit/ledger/sqlite/sqlite-contract.test.ts";
const WORKER = "test/unit/payments/settlement/refunds.test.ts";
const ENGINE = "test/unit/payments/settlement/embedded.test.ts";
const SIGNING = "test/unit/mechanism/evm/refunder.test.ts";
const SOLANA_SIGNING = "test/unit/mechanism/solana/refunder.test.ts";
const LEAVING = "test/integration/gateway/left-before.test.ts";
const STATUS = "test/unit/x402/payment-status.test.ts";

const STEPS = "src/ledger/refunds.ts";
const RESOLUTION = "src/ledger/resolution.ts";
const REFUNDS = "src/payments/settlement/refunds.ts";

export const REFUND_MUTANTS: readonly Mutant[] = [
  caughtBy(CONTRACT, "pays back what is being paid back", {
    file: STEPS,
    find: `return refundState !== null && refundState !== "FAILED";`,
    put: `return refundState === "REFUNDED";`,
  }),
  caughtBy(CONTRACT, "signs a transfer beside that of another process", {
    file: STEPS,
    find: "if (!isOpen || facts.attempt !== before) return GONE;",
    put: "if (!isOpen) return GONE;",
  }),
  caughtBy(CONTRACT, "pays back more on a day than may be", {
    file: STEPS,
    find: "if (counted.all + amountAtomic > maxAtomic)",
    put: "if (amountAtomic > maxAtomic)",
  }),
  caughtBy(CONTRACT, "pays back by itself to one payer what all may have", {
    file: STEPS,
    find: `if (facts.isAutomatic && isMore) return { outcome: "over share" };`,
    put: "void isMore;",
  }),
  caughtBy(CONTRACT, "pays back by itself whoever was refused, or has left", {
    file: "src/ledger/deliveries.ts",
    find: "return isRefundedLast === true && isBackends === true;",
    put: "return isRefundedLast === true && isBackends !== undefined;",
  }),
  caughtBy(LEAVING, "takes the refusal of a bad request for the backend's fault", {
    file: "src/gateway/delivery.ts",
    find: "isBackends = status !== null && (status >= SERVER_ERROR || this.#isLost);",
    put: "isBackends = status !== null;",
  }),
  caughtBy(LEAVING, "takes a body that is too large for the backend's fault", {
    file: "src/gateway/delivery.ts",
    find: `isBackends: reason !== "too-large"`,
    put: `isBackends: reason !== "down"`,
  }),
  caughtBy(CONTRACT, "counts what was not paid back", {
    file: STEPS,
    find: `{ refundState: "FAILED", refundCountedMs: null }`,
    put: `{ refundState: "FAILED" }`,
  }),
  caughtBy(CONTRACT, "gives a transfer the number of one that was signed before", {
    file: STEPS,
    find: "storedFacts({ ...FRESH, ...asked, attempt })",
    put: "storedFacts({ ...FRESH, ...asked, attempt: attempt * 0 })",
  }),
  caughtBy(CONTRACT, "pays back what another seller has sold", {
    file: RESOLUTION,
    find: `  if (row.binding === null) return refused("another resource server sold it");
  if (isRefunding(row))`,
    put: "  if (isRefunding(row))",
  }),
  caughtBy(CONTRACT, "delivers what is paid back", {
    file: RESOLUTION,
    find: "return done({ ...paidBack(row, transaction), ...askedRefund(row) }, said);",
    put: "return done({ ...after(row), ...askedRefund(row) }, said);",
  }),
  caughtBy(CONTRACT, "gives again what is paid back", {
    file: RESOLUTION,
    find: "return done({ ...after(row), ...askedRefund(row), ...NOT_KEPT }, said);",
    put: "return done({ ...after(row), ...askedRefund(row) }, said);",
  }),
  caughtBy(LEAVING, "pays back by itself what a buyer has sent and not waited for", {
    file: "src/gateway/delivery.ts",
    find: "served: mayBeDone ? soldTarget(decision) : null",
    put: "served: mayBeDone ? null : null",
  }),
  caughtBy(SOLANA_SIGNING, "moves two refunds of one price to one payer as one", {
    file: "src/mechanism/solana/refunder.ts",
    find: "extra: { feePayer: feePayer(), memo },",
    put: "extra: { feePayer: feePayer(), memo: memo.slice(MEMO_DIGITS) },",
  }),
  caughtBy(CONTRACT, "pays back though a part of the answer is out", {
    file: "src/ledger/deliveries.ts",
    find: "attempts >= MAX_DELIVERY_ATTEMPTS && servedTarget === null",
    put: "attempts >= MAX_DELIVERY_ATTEMPTS && servedTarget !== undefined",
  }),
  caughtBy(CONTRACT, "forgets a payment whose refund is under way", {
    file: "src/ledger/sweep.ts",
    find: `if (refundState !== null && refundState !== "REFUNDED") return "kept";`,
    put: "void refundState;",
  }),
  caughtBy(CONTRACT, "forgets that a payment was used which was paid back", {
    file: "src/ledger/sweep.ts",
    find: `if (isPaidBack) return "buried";`,
    put: "void isPaidBack;",
  }),
  caughtBy(CONTRACT, "tells who was paid back that it was delivered", {
    file: "src/ledger/tombstone.ts",
    find: "return caller?.length === 0;",
    put: "return caller?.length === 1;",
  }),
  caughtBy(SQLITE_CONTRACT, "sells more in an hour once something of it is paid back", {
    file: "src/ledger/sqlite/sqlite-schema.ts",
    find: "WHEN NEW.state = 'FAILED' AND NEW.held_transaction IS NULL BEGIN",
    put: "WHEN NEW.state = 'FAILED' BEGIN",
  }),
  caughtBy(SQLITE_CONTRACT, "keeps of whom it forgets to whom a transfer was sent in vain", {
    file: "src/ledger/sqlite/sqlite-forgetting.ts",
    find: "WHERE lower(pay_to) = :payer AND binding IS NULL AND route IS NOT NULL",
    put: "WHERE lower(pay_to) = :payer AND binding IS NULL AND route IS NOT NULL AND state <> 'FAILED'",
  }),
  caughtBy(SQLITE_CONTRACT, "forgets all messages of a payer at once", {
    file: "src/ledger/sqlite/sqlite-forgetting.ts",
    find: "WHERE place > :from AND place <= :last AND lower(",
    put: "WHERE place > :from AND :last > 0 AND lower(",
  }),
  caughtBy(CONTRACT, "looks at all payments of a payer at once", {
    file: "src/ledger/forgetting.ts",
    find: "return isTried ? LOOKED_AT_TOGETHER : FORGOTTEN_TOGETHER;",
    put: "return isTried ? 10_000 : FORGOTTEN_TOGETHER;",
  }),
  caughtBy(CONTRACT, "erases what it may, though something of the payer is not over", {
    file: "src/ledger/forgetting.ts",
    find: "next: unfinished.length > 0 && !step.isTried ? null : next,",
    put: "next,",
  }),
  caughtBy(WORKER, "signs again as soon as the chain says that a transfer is over", {
    file: REFUNDS,
    find: "if (nowMs - sinceMs < overMs) return false;",
    put: "void overMs;",
  }),
  caughtBy(WORKER, "gives up what another transaction may carry", {
    file: REFUNDS,
    find: `if (seen.kind === "failed" && !seen.retriable)`,
    put: `if (seen.kind === "failed")`,
  }),
  caughtBy(WORKER, "does not mind a look that says otherwise", {
    file: REFUNDS,
    find: "    this.#over.delete(refund.key);\n    // The very same transfer",
    put: "    // The very same transfer",
  }),
  caughtBy(WORKER, "signs again what was refused", {
    file: REFUNDS,
    find: "if (refund.refusal === null || !isOf(refunder, request)) await this.#send(work);",
    put: "if (refund.refusal !== undefined) await this.#send(work);",
  }),
  caughtBy(WORKER, "takes for refused what a replica with another key has kept back", {
    file: REFUNDS,
    find: "if (refund.refusal === null || !isOf(refunder, request)) await this.#send(work);",
    put: "if (refund.detail === null || !isOf(refunder, request)) await this.#send(work);",
  }),
  caughtBy(
    "test/unit/config/golden.test.ts",
    "warns of nobody whose hour whoever is paid back can use up",
    {
      file: "src/config/facilitator/facilitator-review.ts",
      find: "if (all < BigInt(salesPerHour) * ATTO_IN_MICRO) return;",
      put: "if (all < BigInt(salesPerHour) * ATTO_IN_MICRO * 1_000n) return;",
    },
  ),
  caughtBy(WORKER, "takes for refused what a replica without its token does not settle", {
    file: REFUNDS,
    find: "return refunder.has(refund.asset) ? undefined : unknownToken(refund);",
    put: "return undefined;",
  }),
  caughtBy(WORKER, "tries again for ever what it has no token for", {
    file: REFUNDS,
    find: "if (!work.refunder.has(asset)) return this.#failed(refund, unknownToken(refund));",
    put: "if (!work.refunder.has(asset)) throw new Error(unknownToken(refund));",
  }),
  caughtBy(SQLITE_CONTRACT, "pays back what a reorganization may undo", {
    file: "src/ledger/sqlite/sqlite-queues.ts",
    find: "s.state <> 'CLOSED') END)",
    put: "s.state = 'OPEN') END)",
  }),
  caughtBy(WORKER, "pays back what the chain does not show", {
    file: REFUNDS,
    find: "    return !isDenied;",
    put: "    return isDenied || !isDenied;",
  }),
  caughtBy(WORKER, "does not look whether a ledger from before has forgotten a transfer", {
    file: REFUNDS,
    find: `if (seen.kind === "confirmed") return { ...drawn, moved: seen.transaction };`,
    put: "",
  }),
  caughtBy(WORKER, "signs another nonce while the one before it may be moved", {
    file: REFUNDS,
    find: `if (kind === "gone") free = { drawn, number };`,
    put: `if (kind === "gone" && number > refund.attempt) free = { drawn, number };`,
  }),
  caughtBy(WORKER, "signs with a nonce of which the chain cannot say whether it was used", {
    file: REFUNDS,
    find: `if (seen.kind === "unknown" && seen.isUnused !== true) throw new Error(seen.detail);`,
    put: "",
  }),
  caughtBy(WORKER, "signs for somebody who is on a list", {
    file: REFUNDS,
    find: "if (isBarred(network, to)) return this.#failed(refund, BARRED);",
    put: "void isBarred;",
  }),
  caughtBy(WORKER, "sends what was signed for somebody who is on a list by now", {
    file: REFUNDS,
    find: "if (this.#at.isBarred(refund.network, refund.to)) return BARRED;",
    put: "",
  }),
  caughtBy(WORKER, "joins what another process is settling", {
    file: REFUNDS,
    find: `if ((await this.#claim(refund, transfer)) !== "granted") return;`,
    put: `await this.#claim(refund, transfer);`,
  }),
  caughtBy(SIGNING, "gives the same refund another nonce each time", {
    file: "src/mechanism/evm/refunder.ts",
    find: "const nonce = refundNonce(payment, number);",
    put: "const nonce = refundNonce(payment + String(performance.now()), number);",
  }),
  caughtBy(SIGNING, "lets whoever pays choose the payee", {
    file: "src/mechanism/evm/evm.ts",
    find: "const isOurs = payerOf(request.paymentPayload) === this.refunder?.address;",
    put: "const isOurs = payerOf(request.paymentPayload) !== this.refunder?.address;",
  }),
  caughtBy(ENGINE, "takes what is paid back for income", {
    file: "src/payments/settlement/payment-verdicts.ts",
    find: "if (isTransferBack) return;",
    put: "void isTransferBack;",
  }),
  caughtBy(STATUS, "tells of any payment whose key is known", {
    file: "src/x402/payment-status.ts",
    find: "if (told.length !== right.length || !timingSafeEqual(told, right)) return null;",
    put: "if (told.length > right.length && !timingSafeEqual(told, right)) return null;",
  }),
];
