/**
 * What is accepted, run by the real runtime: whatever happens to it there, our fee payer pays the network fee
 * that was told and nothing else, and what succeeds pays the payee. Lighthouse cannot be had here; what stands
 * in for it only reads, too.
 */
import { address, getTransactionDecoder, lamports } from "@solana/kit";
import * as fc from "fast-check";
import { LiteSVM } from "litesvm";
import { expect, test } from "vitest";
import { LIGHTHOUSE_PROGRAM, SYSTEM_PROGRAM } from "../../../../src/mechanism/solana/programs.ts";
import { decodeBase58, ADDRESS_BYTES } from "../../../../src/x402/solana-address.ts";
import {
  buildTransaction,
  createAccount,
  destinationOf,
  integer,
  layOut,
  loadedAccountsLimit,
  memo,
  somePayment,
  sourceOf,
  testKey,
  transfer,
  unitLimit,
  unitPrice,
  walletGuard,
  type Plan,
} from "../../../support/solana-messages.ts";
import { lighthouseStandIn } from "../../../support/solana/lighthouse-stand-in.ts";
import { judgePlan, verdict } from "./judging.ts";

const FEE_PAYER = testKey(1);
const PAYMENT = somePayment({ feePayer: FEE_PAYER.address });
const FUNDS = 10n ** 10n;
const TOKENS = 1_000_000n;

const key = (text: string): Uint8Array => decodeBase58(text, ADDRESS_BYTES) ?? new Uint8Array(0);

function put(svm: LiteSVM, where: string, owner: string, data: Uint8Array): void {
  svm.setAccount({
    address: address(where),
    data,
    executable: false,
    lamports: lamports(FUNDS),
    programAddress: address(owner),
    space: BigInt(data.length),
  });
}

/** A chain with the mint, a payer who has tokens, and a payee who may have an account already. */
function chainFor(hasDestination: boolean): LiteSVM {
  const svm = new LiteSVM();
  svm.addProgram(address(LIGHTHOUSE_PROGRAM), lighthouseStandIn());
  const nobody = new Uint8Array(36);
  const mint = [...nobody, ...integer(TOKENS, 8), PAYMENT.decimals, 1, ...nobody];
  put(svm, PAYMENT.asset, PAYMENT.tokenProgram, Uint8Array.from(mint));
  const tokens = (owner: string, amount: bigint): Uint8Array => {
    const rest = [...nobody, 1, ...new Uint8Array(12), ...new Uint8Array(8), ...nobody];
    return Uint8Array.from([...key(PAYMENT.asset), ...key(owner), ...integer(amount, 8), ...rest]);
  };
  put(svm, sourceOf(PAYMENT), PAYMENT.tokenProgram, tokens(PAYMENT.payer.address, TOKENS));
  if (hasDestination) {
    put(svm, destinationOf(PAYMENT), PAYMENT.tokenProgram, tokens(PAYMENT.payTo, 0n));
  }
  for (const wallet of [FEE_PAYER, PAYMENT.payer]) {
    put(svm, wallet.address, SYSTEM_PROGRAM, new Uint8Array(0));
  }
  return svm;
}

function tokensAt(svm: LiteSVM, where: string): bigint {
  const account = svm.getAccount(address(where));
  return account.exists ? Buffer.from(account.data).readBigUInt64LE(64) : 0n;
}

interface Outcome {
  readonly error: string | null;
  readonly feePayerPaid: bigint;
  readonly payeeGot: bigint;
}

function run(plan: Plan, hasDestination = true): Outcome {
  const svm = chainFor(hasDestination);
  const signers = [FEE_PAYER, PAYMENT.payer];
  const text = buildTransaction({ ...plan, blockhash: svm.latestBlockhash(), signers });
  const transaction = getTransactionDecoder().decode(Buffer.from(text, "base64"));
  const result = svm.sendTransaction(transaction);
  return {
    error: "err" in result ? String(result.err()) : null,
    feePayerPaid: FUNDS - (svm.getBalance(address(FEE_PAYER.address)) ?? 0n),
    payeeGot: tokensAt(svm, destinationOf(PAYMENT)),
  };
}

const layouts = ["x402", "svm", "phantom"] as const;
const versions = ["legacy", 0, 1] as const;

test.each(layouts.flatMap((layout) => versions.map((version) => ({ layout, version }))))(
  "$layout in version $version costs what was told, and pays",
  ({ layout, version }) => {
    const plan = layOut(layout, PAYMENT, { version });
    const judged = judgePlan(plan, { payment: PAYMENT });
    if (!judged.ok) throw new Error(judged.error.detail);
    expect(run(plan)).toEqual({
      error: null,
      feePayerPaid: judged.value.networkFeeLamports,
      payeeGot: PAYMENT.amount,
    });
  },
);

test("ComputeBudget does nothing in version 1, and without a limit a message has none", () => {
  const plan = layOut("svm", PAYMENT, { version: 1 });
  const instructions = [unitLimit(1_400_000), unitPrice(1_000_000), ...plan.instructions];
  expect(run({ ...plan, instructions })).toMatchObject({ error: null, feePayerPaid: 10_001n });
});

const { payer, feePayer } = PAYMENT;
const extras = [
  memo("hello", [payer.address]),
  createAccount(PAYMENT),
  createAccount(PAYMENT, { data: [0] }),
  createAccount(PAYMENT, { data: [] }),
  walletGuard(feePayer),
  walletGuard(payer.address),
  loadedAccountsLimit(4_000_000),
  loadedAccountsLimit(64),
];

test("whatever is accepted costs no more than was told, and pays where it succeeds", () => {
  const limits = fc.option(fc.integer({ min: 0, max: 1_400_000 }), { nil: undefined });
  const plans = fc
    .record({ limit: limits, price: fc.nat(2_000_000), chosen: fc.subarray(extras) })
    .chain(({ limit, price, chosen }) => {
      const budget = [...(limit === undefined ? [] : [unitLimit(limit)]), unitPrice(price)];
      const all = [transfer(PAYMENT), ...budget, ...chosen];
      return fc.record({
        instructions: fc.shuffledSubarray(all, { minLength: all.length }),
        version: fc.constantFrom("legacy" as const, 0 as const),
        hasLimit: fc.constant(limit !== undefined),
      });
    });
  fc.assert(
    fc.property(plans, fc.boolean(), ({ hasLimit, ...built }, hasDestination) => {
      const plan: Plan = { ...built, feePayer, signers: [] };
      const judged = judgePlan(plan, { payment: PAYMENT });
      fc.pre(judged.ok);
      if (!judged.ok) return;
      const { error, feePayerPaid, payeeGot } = run(plan, hasDestination);
      const told = judged.value.networkFeeLamports;
      expect(feePayerPaid).toBeLessThanOrEqual(told);
      if (hasLimit && feePayerPaid > 0n) expect(feePayerPaid).toBe(told);
      expect(payeeGot).toBe(error === null ? PAYMENT.amount : 0n);
    }),
    { numRuns: 60 },
  );
});

test("an account that the fee payer funds would indeed cost more, which is why it is refused", () => {
  const funded = createAccount(PAYMENT, { funder: feePayer });
  const bad: Plan = { instructions: [funded, transfer(PAYMENT)], feePayer, signers: [] };
  expect(verdict(bad, { payment: PAYMENT })).toMatch(/uses the fee payer's account/);
  expect(run(bad, false)).toEqual({
    error: null,
    // The account's rent, besides the network fee.
    feePayerPaid: 2_039_280n + 10_000n,
    payeeGot: PAYMENT.amount,
  });
});
