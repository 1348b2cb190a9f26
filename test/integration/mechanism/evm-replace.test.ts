import { parseTransaction } from "viem";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { blocksOf } from "../../../src/mechanism/evm/network-blocks.ts";
import { NONCE_CHECK_SECONDS } from "../../../src/mechanism/evm/look-memory.ts";
import type { SignedTransaction } from "../../../src/mechanism/mechanism.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freshAccount, type FreshAccount } from "../../support/payer.ts";
import {
  accept,
  lookAt,
  never,
  openMechanism,
  payFor,
  settle,
  signDraft,
  soon,
  submissionOf,
  unixNow,
  type EvmMechanism,
  type Payment,
} from "./settling.ts";

let chain: Chain;
let evm: EvmMechanism;
let signer: FreshAccount;
let payee: FreshAccount;

beforeEach(async () => {
  chain = await startChain();
  [signer, payee] = [freshAccount(), freshAccount()];
  await chain.fund(signer.address, 0n, 10n ** 19n);
  await chain.rpc("evm_setAutomine", [false]);
  evm = openMechanism(chain, signer.privateKey);
});
afterEach(() => chain.stop());

async function newPayment(): Promise<Payment> {
  const payer = freshAccount();
  await chain.fund(payer.address, 10_000n);
  return accept(evm, { account: payer.account, requirements: payFor(payee) });
}

function read({ raw }: SignedTransaction) {
  const parsed = parseTransaction(`0x${raw.slice(2)}`);
  const { to, data, gas, nonce = 0, maxFeePerGas = 0n, maxPriorityFeePerGas = 0n } = parsed;
  return { call: { to, data, gas, nonce }, maxFeePerGas, maxPriorityFeePerGas };
}

/** The base fee of every block from the next one on, until it is set again. */
async function setBaseFee(wei: bigint): Promise<void> {
  await chain.rpc("anvil_setNextBlockBaseFeePerGas", [`0x${wei.toString(16)}`]);
}

async function raised(by: EvmMechanism, payment: Payment, ...variants: SignedTransaction[]) {
  const variant = await by.raise(submissionOf(payment, ...variants), never);
  if (variant === undefined) throw new Error("the cap allows more");
  return variant;
}

describe("a settlement that is too cheap for the next blocks", () => {
  test("is replaced by the same call for the same account nonce, and either hash counts", async () => {
    const payment = await newPayment();
    const first = await signDraft(evm, payment);
    await evm.broadcast(first, never);
    // The price grows beyond what was signed for.
    const dear = read(first).maxFeePerGas * 3n;
    await setBaseFee(dear);
    await chain.mine();
    expect(await lookAt(evm, payment, first)).toMatchObject({ kind: "unknown" });

    // By another process, from what is stored.
    const reborn = openMechanism(chain, signer.privateKey);
    const second = await raised(reborn, payment, first);
    expect(second.transaction).not.toBe(first.transaction);
    expect(second).toMatchObject({ account: signer.address, accountNonce: 0 });
    expect(read(second).call).toEqual(read(first).call);
    expect(read(second).maxFeePerGas).toBeGreaterThanOrEqual(dear);
    await reborn.broadcast(second, never);
    await setBaseFee(dear);
    await chain.mine();
    const submission = submissionOf(payment, first, second);
    const look = await evm.look(submission, soon());
    expect(look).toMatchObject({
      payments: [{ kind: "confirmed", transaction: second.transaction }],
      included: { transaction: second.transaction },
      isSpent: true,
    });
    expect(await chain.balanceOf(payee.address)).toBe(10_000n);
  });

  test("may be included all the same as it was before it was replaced", async () => {
    const payment = await newPayment();
    const first = await signDraft(evm, payment);
    const second = await raised(evm, payment, first);
    await evm.broadcast(first, never);
    await chain.mine();
    // Too late: what the node says of it means "may have been sent".
    await evm.broadcast(second, never);
    expect(await settle(evm, submissionOf(payment, first, second), soon())).toEqual([
      { kind: "confirmed", transaction: first.transaction },
    ]);
  });

  test("is raised by an eighth at least, as nodes ask, each time again", async () => {
    const payment = await newPayment();
    const variants = [await signDraft(evm, payment)];
    for (let index = 0; index < 3; index += 1) {
      const last = variants.at(-1);
      if (last === undefined) throw new Error("there is one");
      await evm.broadcast(last, never);
      const next = await raised(evm, payment, ...variants);
      expect(read(next).maxFeePerGas * 8n).toBeGreaterThanOrEqual(read(last).maxFeePerGas * 9n);
      const [tip, before] = [read(next).maxPriorityFeePerGas, read(last).maxPriorityFeePerGas];
      expect(tip * 8n).toBeGreaterThanOrEqual(before * 9n);
      variants.push(next);
    }
    // The node took each in the place of the one before.
    const known = variants.map(({ transaction }) =>
      chain.rpc("eth_getTransactionByHash", [transaction]),
    );
    expect(await Promise.all(known)).toMatchObject([
      null,
      null,
      { hash: variants[2]?.transaction, blockNumber: null },
      null,
    ]);
  });

  test("is not raised beyond our cap", async () => {
    const payment = await newPayment();
    const first = await signDraft(evm, payment);
    const { maxFeePerGas } = read(first);
    const frugal = openMechanism(chain, signer.privateKey, { maxFeePerGasWei: maxFeePerGas });
    expect(await frugal.raise(submissionOf(payment, first), never)).toBeUndefined();
    const spare = openMechanism(chain, signer.privateKey, { maxFeePerGasWei: 2n * maxFeePerGas });
    expect(await spare.raise(submissionOf(payment, first), never)).toBeDefined();
    await setBaseFee(3n * maxFeePerGas);
    await chain.mine();
    const late = openMechanism(chain, signer.privateKey, { maxFeePerGasWei: 2n * maxFeePerGas });
    expect(await late.raise(submissionOf(payment, first), never)).toBeUndefined();
  });

  test("is not raised to what the account cannot pay", async () => {
    const payment = await newPayment();
    const first = await signDraft(evm, payment);
    await chain.fund(signer.address, 0n, 1n);
    const poor = openMechanism(chain, signer.privateKey);
    await expect(poor.raise(submissionOf(payment, first), never)).rejects.toMatchObject({
      code: "CHAIN_GAS",
    });
  });

  test("of several payments is raised as one", async () => {
    const payments = [await newPayment(), await newPayment()];
    const first = await signDraft(evm, ...payments);
    const second = await evm.raise(submissionOf(payments, first), never);
    if (second === undefined) throw new Error("the cap allows more");
    expect(read(second).call).toEqual(read(first).call);
    await evm.broadcast(second, never);
    await chain.mine();
    const outcomes = await settle(evm, submissionOf(payments, first, second), soon());
    expect(outcomes.map(({ kind }) => kind)).toEqual(["confirmed", "confirmed"]);
  });

  test("that is stored as other bytes than ours is an error, not a transaction", async () => {
    const payment = await newPayment();
    const first = await signDraft(evm, payment);
    for (const changed of [
      { ...first, accountNonce: 1 },
      { ...first, raw: "what" },
    ]) {
      await expect(evm.raise(submissionOf(payment, changed), never)).rejects.toThrow(TypeError);
    }
  });
});

describe("an account nonce that another transaction has used", () => {
  test("is told after a while, and the payment may go with another one", async () => {
    const payment = await newPayment();
    const first = await signDraft(evm, payment);
    // The same key somewhere else.
    const other = { to: payee.address, gas: 21_000n, maxFeePerGas: 10n ** 11n };
    const raw = await signer.account.signTransaction({
      ...other,
      chainId: chain.chainId,
      nonce: 0,
      maxPriorityFeePerGas: 1n,
      type: "eip1559",
    });
    await chain.rpc("eth_sendRawTransaction", [raw]);
    await chain.mine();
    let now = unixNow();
    const asked: string[] = [];
    const watching = openMechanism(chain, signer.privateKey, {
      clock: () => now,
      observer: (method) => asked.push(method),
    });
    const submission = submissionOf(payment, first);
    await watching.look(submission, soon());
    asked.length = 0;
    expect(await watching.look(submission, soon())).toMatchObject({
      payments: [{ kind: "unknown" }],
      isSpent: false,
    });
    expect(asked).toEqual(["eth_getTransactionReceipt"]);
    now += NONCE_CHECK_SECONDS;
    // Twice in a row, as a failure has to be found.
    for (let index = 0; index < 2; index += 1) {
      expect(await watching.look(submission, soon())).toMatchObject({
        payments: [{ kind: "failed", retriable: true }],
        included: null,
        isSpent: true,
      });
    }
    const again = await signDraft(watching, payment);
    expect(again.accountNonce).toBe(1);
    await watching.broadcast(again, never);
    await chain.mine();
    expect(await settle(watching, submissionOf(payment, again), soon())).toMatchObject([
      { kind: "confirmed" },
    ]);
  });
});

describe("a reorganization", () => {
  test("takes a settlement back until it is final, and its bytes bring it in again", async () => {
    const payment = await newPayment();
    const signed = await signDraft(evm, payment);
    const submission = submissionOf(payment, signed);
    await chain.mine(3);
    const snapshot = await chain.rpc("evm_snapshot");
    await evm.broadcast(signed, never);
    await chain.mine(2);
    expect(await evm.look(submission, soon())).toMatchObject({
      payments: [{ kind: "confirmed" }],
      included: { confirmations: 1, isFinal: false },
    });
    // The second look at an included settlement knows its depth.
    expect((await evm.look(submission, soon())).included).toMatchObject({ confirmations: 2 });

    await chain.rpc("evm_revert", [snapshot]);
    await chain.mine(2);
    expect(await evm.look(submission, soon())).toMatchObject({
      payments: [{ kind: "unknown" }],
      included: null,
      isSpent: false,
    });
    await evm.broadcast(signed, never);
    await chain.mine();
    expect(await evm.look(submission, soon())).toMatchObject({
      payments: [{ kind: "confirmed", transaction: signed.transaction }],
    });
    const { finalAfter } = blocksOf("base-sepolia");
    await chain.mine(Number(finalAfter) - 2);
    expect((await evm.look(submission, soon())).included?.isFinal).toBe(false);
    await chain.mine();
    expect((await evm.look(submission, soon())).included).toMatchObject({
      transaction: signed.transaction,
      confirmations: Number(finalAfter),
      isFinal: true,
    });
  });

  test("that puts a payer's other transfer first leaves the payment to another transaction", async () => {
    const payer = freshAccount();
    await chain.fund(payer.address, 10_000n);
    const sign = (to: FreshAccount) =>
      accept(evm, { account: payer.account, requirements: payFor(to) });
    const payment = await sign(payee);
    const elsewhere = await sign(freshAccount());
    const signed = await signDraft(evm, payment);
    const submission = submissionOf(payment, signed);
    const snapshot = await chain.rpc("evm_snapshot");
    await evm.broadcast(signed, never);
    await chain.mine();
    expect(await lookAt(evm, payment, signed)).toMatchObject({ kind: "confirmed" });
    await chain.rpc("evm_revert", [snapshot]);
    const other = await signDraft(evm, elsewhere);
    const foreign = freshAccount();
    await chain.fund(foreign.address, 0n, 10n ** 18n);
    const stranger = openMechanism(chain, foreign.privateKey);
    const theirs = await signDraft(stranger, elsewhere);
    expect(other.accountNonce).toBe(0);
    await stranger.broadcast(theirs, never);
    await chain.mine();
    await evm.broadcast(signed, never);
    await chain.mine();
    expect(await settle(evm, submission, soon())).toMatchObject([
      { kind: "failed", refusal: { detail: "the transaction was reverted" }, retriable: true },
    ]);
  });
});
