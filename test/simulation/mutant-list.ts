/** The mutants that the simulation has to catch. */
import { ACCOUNTS_MUTANTS } from "./accounts-mutants.ts";
import { CREDITS_MUTANTS } from "./credits-mutants.ts";
import { GOODS_MUTANTS } from "./goods-mutants.ts";
import type { Mutant } from "./mutant.ts";
import { NETWORK_MUTANTS } from "./network-mutants.ts";
import { OWNER_MUTANTS } from "./owner-mutants.ts";
import { REFUND_MUTANTS } from "./refund-mutants.ts";
import { RELOAD_MUTANTS } from "./reload-mutants.ts";
import { STORE_MUTANTS } from "./store-mutants.ts";
import { WORK_MUTANTS } from "./work-mutants.ts";

const IDENTIFIERS = "test/unit/payments/sale/identifiers.test.ts";
const ENDPOINTS = "test/unit/facilitator/endpoints-v2.test.ts";
const FOUND_FAULTS = "test/simulation/found-faults.test.ts";
const LEASES = "test/unit/payments/settlement/leases.test.ts";
const MACHINE = "src/ledger/machine.ts";
const JUDGEMENT = "src/ledger/payment-judgement.ts";
const WATCHES = "src/payments/settlement/account-watches.ts";
const LANE = "src/payments/settlement/account-sender.ts";
const VERDICTS = "src/payments/settlement/payment-verdicts.ts";
const SETTLING = "src/payments/sale/sale-settlement.ts";
const LEDGER = "test/support/memory-ledger.ts";

export const MUTANTS: readonly Mutant[] = [
  ...OWNER_MUTANTS,
  ...STORE_MUTANTS,
  ...GOODS_MUTANTS,
  ...ACCOUNTS_MUTANTS,
  ...CREDITS_MUTANTS,
  ...NETWORK_MUTANTS,
  ...REFUND_MUTANTS,
  ...RELOAD_MUTANTS,
  ...WORK_MUTANTS,
  {
    name: "sells for what somebody else has put on chain",
    changes: [
      {
        file: VERDICTS,
        find: `if (foreign === "deliver") return`,
        put: `if (foreign === "hold") return`,
      },
    ],
  },
  {
    name: "sends before it stores",
    changes: [
      {
        file: LANE,
        find: "(nonce) => draft.sign(nonce)",
        put: `(nonce) => {
          const made = draft.sign(nonce);
          void this.#at.mechanism.broadcast(made, new AbortController().signal).catch(() => undefined);
          return made;
        }`,
      },
    ],
  },
  {
    name: "allocates the account nonce outside the transaction",
    changes: [
      {
        file: LEDGER,
        find: "const variant = sign(nonce);",
        put: "this.#store.nextNonces.set(name, nonce + 1); const variant = sign(nonce);",
      },
    ],
  },
  {
    name: "takes the unknown for a failure",
    changes: [
      {
        file: VERDICTS,
        find: `if (said.kind === "unknown" || (fate !== "open" && fate !== "settled")) {`,
        put: `if (said.kind === "unknown" && fate === "open") {
          const refusal = { code: "unexpected_settle_error", detail: said.detail } as const;
          return this.#fail(payment, { kind: "failed", refusal, retriable: false }, false);
        }
        if (said.kind === "unknown" || (fate !== "open" && fate !== "settled")) {`,
      },
    ],
  },
  {
    name: "forgets what a payment was bound to",
    changes: [
      {
        file: JUDGEMENT,
        find: "if (row.binding === binding) return true;",
        put: "if (row.binding !== null) return true;",
      },
    ],
  },
  {
    name: "takes a transaction in a block for a payment",
    changes: [
      {
        file: "test/simulation/simulated-mechanism.ts",
        find: `const retriable = chain.timestamp(height) < authorization.validBefore;`,
        put: `if (triedIn !== undefined) return { kind: "confirmed", transaction: "0xreverted" };
    const retriable = false;`,
      },
      {
        file: "test/support/memory-ledger.ts",
        find: `return all.some((each) => each.transaction.toLowerCase() === transaction.toLowerCase());`,
        put: `return all.length > 0;`,
      },
    ],
  },
  {
    name: "answers 402 while the outcome is unknown",
    changes: [
      {
        file: SETTLING,
        find: "if (!isCertain || askedBefore !== null) {",
        put: `if (!isCertain || askedBefore !== null) {
      if (terms !== undefined) return refused("unexpected_settle_error", "unknown");`,
      },
    ],
  },
  {
    name: "drops a claim that is signed",
    changes: [
      {
        file: SETTLING,
        find: "if (!isCertain || askedBefore !== null) {",
        put: `if (!(cause instanceof FacilitatorFault) || askedBefore !== null) {`,
      },
      {
        file: MACHINE,
        find: "return row.binding !== null && isSignable(row, life) && !row.offered && !isPublic(row);",
        put: `return row.binding !== null && (isSignable(row, life) || row.state === "SIGNED");`,
      },
    ],
  },
  {
    name: "asks the upstream before the delivery is recorded",
    changes: [
      {
        file: "src/payments/sale/paywall.ts",
        find: `if (!(await this.#payments.step(key, { kind: "delivering", sale }))) return "lost";`,
        put: `void this.#payments.step(key, { kind: "delivering", sale }).catch(() => undefined);`,
      },
    ],
  },
  {
    name: "asks the upstream before the payment is settled",
    changes: [
      {
        file: MACHINE,
        find: `return unresolvedClaim(row);`,
        put: `const settlement = { transaction: "0x", network: row.network, payer: row.payer };
  const { idempotencyKey } = termsOf(row);
  if (row.state === "SIGNED") return { kind: "settled", settlement, attempts: 0, idempotencyKey };
  return unresolvedClaim(row);`,
      },
      {
        file: "src/ledger/deliveries.ts",
        find: `if (row?.state !== "SETTLED" || !isFree(row, life)) return { outcome: false };`,
        put: `if (row === undefined || !isFree(row, life)) return { outcome: false };`,
      },
    ],
  },
  {
    name: "forgets after a restart what it had signed",
    changes: [
      {
        file: WATCHES,
        find: `if (stored.state === "OPEN") this.#follow(watch, false);`,
        put: `if (stored.state === "OPEN") continue;`,
      },
    ],
  },
  {
    name: "sends once, and neither again nor better paid",
    changes: [
      {
        file: "src/payments/settlement/broadcaster.ts",
        find: "if (this.#sending !== undefined || closing.aborted || !isDue) return;",
        put: "if (this.#sending !== undefined || closing.aborted || this.#dueMs > 0) return;",
      },
      {
        file: "src/payments/settlement/submission-watch.ts",
        find: "if (!isStuck) return;",
        put: "return;",
      },
    ],
  },
  {
    name: "believes a failure at the first look",
    changes: [{ file: VERDICTS, find: "if (!isNews) await this.#fail(", put: "await this.#fail(" }],
  },
  {
    name: "ignores the lease",
    changes: [
      {
        file: LEDGER,
        find: "if (isTaken && held.holder !== this.#life) return undefined;",
        put: "",
      },
      {
        file: LEDGER,
        find: "return held?.holder === this.#life && held.epoch === epoch;",
        put: "return held !== undefined && epoch > 0;",
      },
    ],
  },
  {
    name: "delivers as often as it is asked",
    changes: [
      {
        file: JUDGEMENT,
        find: "if (attempts < MAX_DELIVERY_ATTEMPTS) return { attempts, renewals, renewedMs };",
        put: "if (attempts < Infinity) return { attempts, renewals, renewedMs };",
      },
    ],
  },
  {
    name: "sells another target after a good answer has begun",
    changes: [
      {
        file: JUDGEMENT,
        find: "return servedTarget === null || servedTarget === digestedTarget(target);",
        put: "return servedTarget === null || target !== '';",
      },
    ],
  },
  {
    name: "reaps what is signed",
    changes: [
      {
        file: MACHINE,
        find: `if (row.state === "CLAIMED" && isClaimOver && !row.offered && !isKept) {`,
        put: `if ((row.state === "CLAIMED" || row.state === "SIGNED") && isClaimOver) {`,
      },
    ],
  },
  {
    name: "never frees what a dead life claimed",
    changes: [
      {
        file: MACHINE,
        find: `if (row.state === "CLAIMED" && isClaimOver && !row.offered && !isKept) {`,
        put: `if (row.state === "CLAIMED" && isClaimOver && row.version < 0) {`,
      },
    ],
  },
  {
    name: "does not look again after a reorganization",
    changes: [
      {
        file: WATCHES,
        find: `const due = [...this.#included.values()].filter((watch) => watch.isDue(nowMs));`,
        put: `const due = [...this.#included.values()].filter((watch) => watch.isDue(nowMs + 1) && nowMs < 0);`,
      },
    ],
  },
  {
    name: "fails what is in a block that is too new to count",
    changes: [
      {
        file: "src/payments/settlement/unsigned-claims.ts",
        find: 'return found.isUnused === true ? "not used" : undefined;',
        put: 'return "not used";',
      },
    ],
    unit: LEASES,
  },
  {
    name: "shows nobody what failed after it was left behind",
    changes: [
      {
        file: MACHINE,
        find: "const submission = row.submission ?? row.leftBy;",
        put: "const { submission } = row;",
      },
    ],
    unit: LEASES,
  },
  {
    name: "forgets that a new payment is a proof as soon as it is claimed",
    changes: [
      {
        file: "src/payments/sale/payment-service.ts",
        find: "return this.#redemptions.step(key, asked);",
        put: "this.#proofs.forget(key); return this.#redemptions.step(key, asked);",
      },
    ],
    unit: "test/unit/payments/sale/owed.test.ts",
  },
  {
    name: "charges by a payment that was to be collected and was dropped",
    changes: [
      {
        file: "src/payments/sale/paywall.ts",
        find: "{ proof, signal, isNew: false }",
        put: "{ proof, signal, isNew: true }",
      },
    ],
    unit: "test/unit/payments/sale/owed.test.ts",
  },
  {
    name: "repeats a call where its node may have closed the connection",
    changes: [
      {
        file: "src/mechanism/rpc.ts",
        find: "return await this.#attempt({ method, params, fresh: true }, signal);",
        put: "return await this.#attempt({ method, params, fresh: false }, signal);",
      },
    ],
    unit: "test/unit/mechanism/rpc.test.ts",
  },
  {
    name: "takes a handshake that breaks off for a node that is not there",
    changes: [
      {
        file: "src/mechanism/rpc.ts",
        find: 'return ["broken", "ECONNRESET", "EPIPE"].includes(codeOf(error.cause));',
        put: 'return codeOf(error.cause) === "broken";',
      },
    ],
    unit: "test/unit/mechanism/rpc.test.ts",
  },
  {
    name: "cannot read an answer that begins with a byte order mark",
    changes: [
      {
        file: "src/http1/small-request.ts",
        find: '.replace(BYTE_ORDER_MARK, "")',
        put: '.replace(BYTE_ORDER_MARK, "$&")',
      },
    ],
    unit: "test/unit/mechanism/rpc.test.ts",
  },
  {
    name: "closes an upstream that a request from before two reloads still asks",
    changes: [
      {
        file: "src/app/public-side.ts",
        find: "this.#leave(engine, this.#asking.get(engine) ?? ended)",
        put: "this.#leave(engine, ended)",
      },
    ],
    unit: "test/integration/reload.test.ts",
  },
  {
    name: "forgets what is on its way out of a purse",
    changes: [
      {
        file: "src/ledger/purse.ts",
        find: "if (sumOf(unseenOf(purse.spends, reading)) + total > reading.balanceAtomic) over.push(key);",
        put: "if (total > reading.balanceAtomic) over.push(key);",
      },
    ],
  },
  {
    name: "takes what was settled a moment ago for shown by every node",
    changes: [
      {
        file: "src/ledger/purse.ts",
        find: "return askedMs - UNSEEN_MS;",
        put: "return askedMs + 0 * UNSEEN_MS;",
      },
    ],
  },
  {
    name: "leaves a claim that could not be given back to be charged later",
    changes: [
      {
        file: MACHINE,
        find: "if (unbegun !== undefined && unbegun === row.idempotencyKey) {",
        put: "if (unbegun === null) {",
      },
    ],
    unit: FOUND_FAULTS,
  },
  {
    name: "claims a purchase that another payment has claimed under its name",
    changes: [
      {
        file: MACHINE,
        find: "if (isTaken || isMisnamed(terms.request, terms, named)) return",
        put: "if (moment.nowMs < 0) return",
      },
    ],
    unit: IDENTIFIERS,
  },
  {
    name: "takes the payment of a named purchase for a proof of what another one is owed",
    changes: [
      {
        file: "src/ledger/sqlite/sqlite-redemptions.ts",
        find: "if (isMisnamed({ paymentPayload: payment }, sale, named)) return MISNAMED;",
        put: "void named;",
      },
    ],
    unit: IDENTIFIERS,
  },
  {
    name: "judges a payment before it looks for what has the name of its purchase",
    changes: [
      {
        file: "src/payments/sale/payment-service.ts",
        find: 'if (recalled.isMisnamed === true) return err("misnamed");',
        put: "",
      },
    ],
    unit: IDENTIFIERS,
  },
  {
    name: "keeps the name of a purchase for a payment that has failed",
    changes: [
      {
        file: MACHINE,
        find: "const identifier = isDoubted ? row.identifier : null;",
        put: "const { identifier } = row;",
      },
    ],
    unit: "test/unit/ledger/memory-ledger.test.ts",
  },
  {
    name: "signs an offer again that another round has taken",
    changes: [
      {
        file: "src/payments/settlement/settlement-engine.ts",
        find: 'if (taken === "ours" && (!isRepeated || this.#pending.has(key))) return;',
        put: "",
      },
    ],
    unit: "test/unit/payments/settlement/leases.test.ts",
  },
  {
    name: "counts the place of a payment twice",
    changes: [
      {
        file: "src/payments/settlement/places.ts",
        find: "this.release([item.key]);",
        put: "",
      },
    ],
    unit: "test/unit/payments/settlement/places.test.ts",
  },
  {
    name: "says that nobody has paid with what is claimed by now",
    changes: [
      {
        file: "src/payments/sale/paywall.ts",
        find: "return this.#admitOwn(presented, identified, collected);",
        put: "return collected;",
      },
    ],
    unit: "test/unit/payments/sale/owed.test.ts",
  },
  {
    name: "tells whoever settles here of a denied payer what version 1 calls him",
    changes: [
      {
        file: "src/payments/said-no.ts",
        find: "return { isValid: false, invalidReason: code, payer, detail, ...(codeV2 && { codeV2 }) };",
        put: "return { isValid: false, invalidReason: code, payer, detail, ...(codeV2 && {}) };",
      },
    ],
    unit: ENDPOINTS,
  },
  {
    name: "tells version 1 what version 2 calls a denied payer",
    changes: [
      {
        file: "src/x402/version-2.ts",
        find: `if (!("codeV2" in answer)) return answer;`,
        put: `if (answer.payer !== undefined) return answer;`,
      },
    ],
    unit: ENDPOINTS,
  },
  {
    name: "forgets a claim that it has taken without hearing so",
    changes: [
      {
        file: "src/payments/settlement/settlement-engine.ts",
        find: "const untold = [...this.#taking.values()];",
        put: "const untold: readonly OfferedPayment[] = [];",
      },
    ],
    unit: FOUND_FAULTS,
  },
];
