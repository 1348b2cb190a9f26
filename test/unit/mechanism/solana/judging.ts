/** Judges plans of transactions: builds, reads and resolves them as the mechanism does. */
import { decodeMessage, resolve } from "../../../../src/mechanism/solana/message.ts";
import {
  judge,
  type Demand,
  type SolanaJudged,
  type RuleOptions,
} from "../../../../src/mechanism/solana/rules.ts";
import type { Refusal, Result } from "../../../../src/x402/result.ts";
import { readSolanaTransaction } from "../../../../src/x402/solana-transaction.ts";
import {
  buildTransaction,
  memo,
  somePayment,
  transfer,
  unitLimit,
  unitPrice,
  type Payment,
  type Plan,
} from "../../../support/solana-messages.ts";

/** The payment that is asked for in these tests. */
export const PAYMENT = somePayment();

export function optionsFor(payment: Payment, changes: Partial<RuleOptions> = {}): RuleOptions {
  const { asset: address, decimals, tokenProgram: program } = payment;
  return {
    tokens: new Map([[address, { address, symbol: "USDC", decimals, program }]]),
    feePayers: new Set([payment.feePayer]),
    payTo: null,
    maxFeeLamports: 100_000n,
    lighthouse: "assertions",
    isDenied: () => false,
    ...changes,
  };
}

export interface Judging {
  /** What is asked for; {@link PAYMENT} where it is not said. */
  readonly payment?: Payment;
  readonly memo?: string;
  readonly options?: Partial<RuleOptions>;
}

/** Throws where the transaction cannot even be read: that is not what is tested here. */
export function judgePlan(plan: Plan, judging: Judging = {}): Result<SolanaJudged, Refusal> {
  const { payment = PAYMENT, memo } = judging;
  const transaction = readSolanaTransaction(buildTransaction(plan));
  if (!transaction.ok) throw new Error(transaction.error.detail);
  const message = decodeMessage(transaction.value);
  if (!message.ok) throw new Error(message.error.detail);
  const resolved = resolve(message.value, new Map(Object.entries(plan.tables ?? {})));
  if (resolved === undefined) throw new Error("a lookup table is missing");
  const { amount, payTo, asset, feePayer } = payment;
  const demand: Demand = { amount, payTo, asset, feePayer, memo };
  return judge(resolved, demand, optionsFor(payment, judging.options));
}

/** The refusal's sentence; `accepted` where there is none. Throws for another code than `invalid_payload`. */
export function verdict(plan: Plan, judging: Judging = {}): string {
  const judged = judgePlan(plan, judging);
  if (judged.ok) return "accepted";
  if (judged.error.code !== "invalid_payload") throw new Error(judged.error.code);
  return judged.error.detail;
}

/** The parts of a payment of `@x402/svm`; each may be exchanged. */
export interface Parts {
  readonly first?: Plan["instructions"];
  /** By default two. */
  readonly budget?: Plan["instructions"];
  readonly transfer?: Plan["instructions"];
  readonly memo?: Plan["instructions"];
  readonly last?: Plan["instructions"];
}

/** By default four instructions: limit, price, the transfer as instruction 2, and a memo that the payer signs. */
export function planOf(parts: Parts = {}): Plan {
  const instructions = [
    ...(parts.first ?? []),
    ...(parts.budget ?? [unitLimit(20_000), unitPrice(1)]),
    ...(parts.transfer ?? [transfer(PAYMENT)]),
    ...(parts.memo ?? [memo("a nonce", [PAYMENT.payer.address])]),
    ...(parts.last ?? []),
  ];
  return { instructions, feePayer: PAYMENT.feePayer, signers: [PAYMENT.payer] };
}
