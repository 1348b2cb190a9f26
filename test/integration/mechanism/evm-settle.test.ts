import { encodeFunctionData, multicall3Abi, serializeErc6492Signature, type Hex } from "viem";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { transferCall } from "../../../src/mechanism/evm/token.ts";
import { MULTICALL3_ADDRESS, startChain, type Chain } from "../../support/chain.ts";
import {
  freshAccount,
  signPayment,
  type FreshAccount,
  type SignOptions,
} from "../../support/payer.ts";
import {
  accept,
  confirm,
  draftOf,
  lookAt,
  never,
  openMechanism,
  payFor,
  signDraft,
  soon,
  unixNow,
  type EvmMechanism,
  type Payment,
} from "./settling.ts";

/** The same authorization in somebody else's transaction. */
function sameTransfer({ authorization }: Payment): Hex {
  return `0x${transferCall(authorization.words, authorization.signature, authorization.proven)}`;
}

describe("on a chain that includes transactions at once", () => {
  let chain: Chain;
  let signer: FreshAccount;
  let payer: FreshAccount;
  let payee: FreshAccount;
  let evm: EvmMechanism;

  beforeAll(async () => {
    chain = await startChain();
  });
  afterAll(() => chain.stop());
  beforeEach(async () => {
    [signer, payer, payee] = [freshAccount(), freshAccount(), freshAccount()];
    await chain.fund(signer.address, 0n, 10n ** 18n);
    await chain.fund(payer.address, 25_000n);
    evm = openMechanism(chain, signer.privateKey);
  });
  afterEach(() => chain.rpc("evm_setAutomine", [true]));

  const accepted = (
    overrides: SignOptions["overrides"] = {},
    corrupt: SignOptions["corrupt"] = (same) => same,
  ) => accept(evm, { account: payer.account, requirements: payFor(payee), overrides, corrupt });

  test("an EOA's payment is settled, and only once", async () => {
    const payment = await accepted();
    const signed = await signDraft(evm, payment);
    expect(signed).toMatchObject({ account: signer.address, accountNonce: 0 });
    await evm.broadcast(signed, never);
    expect(await confirm(evm, payment, signed, soon())).toEqual({
      kind: "confirmed",
      transaction: signed.transaction,
    });
    expect(await chain.balanceOf(payee.address)).toBe(10_000n);
    // The same bytes again are harmless, before and after a restart.
    await evm.broadcast(signed, never);
    expect(await confirm(evm, payment, signed, soon())).toMatchObject({ kind: "confirmed" });
    expect(await chain.balanceOf(payee.address)).toBe(10_000n);
    expect(await evm.accountNonce(signer.address, never)).toBe(1);
  });

  test("a smart wallet's payment is settled", async () => {
    const wallet = await chain.deployWallet(payer.address);
    await chain.fund(wallet, 10_000n);
    const payment = await accepted({ from: wallet });
    expect(payment.proven).toBe(false);
    const signed = await signDraft(evm, payment);
    await evm.broadcast(signed, never);
    expect(await confirm(evm, payment, signed, soon())).toMatchObject({ kind: "confirmed" });
    expect(await chain.balanceOf(wallet)).toBe(0n);
    expect(await chain.balanceOf(payee.address)).toBe(10_000n);
  });

  test("one whose signature is wrapped (ERC-6492) is settled with the wallet's own", async () => {
    const wallet = await chain.deployWallet(payer.address);
    await chain.fund(wallet, 10_000n);
    const corrupt: SignOptions["corrupt"] = (signed) => {
      const signature = signed.payload.signature as Hex;
      const wrapped = serializeErc6492Signature({ address: wallet, data: "0x01", signature });
      return { ...signed, payload: { ...signed.payload, signature: wrapped } };
    };
    const payment = await accepted({ from: wallet }, corrupt);
    const signed = await signDraft(evm, payment);
    await evm.broadcast(signed, never);
    expect(await confirm(evm, payment, signed, soon())).toMatchObject({ kind: "confirmed" });
    expect(await chain.balanceOf(payee.address)).toBe(10_000n);
  });

  test("more than required is settled as signed", async () => {
    const payment = await accepted({ value: "20001" });
    const signed = await signDraft(evm, payment);
    await evm.broadcast(signed, never);
    expect(await confirm(evm, payment, signed, soon())).toMatchObject({ kind: "confirmed" });
    expect(await chain.balanceOf(payee.address)).toBe(20_001n);
  });

  test("a settlement is confirmed after a restart from the stored request alone", async () => {
    const requirements = payFor(payee);
    const paymentPayload = await signPayment({ account: payer.account, requirements });
    const request = { paymentPayload, paymentRequirements: requirements };
    const checked = evm.check(request, unixNow());
    if (!checked.ok) throw new Error(checked.error.detail);
    const payment = { ...checked.value, fault: null };
    const signed = await signDraft(evm, payment);
    await evm.broadcast(signed, never);
    const reborn = openMechanism(chain, signer.privateKey);
    const parsed = reborn.parse(request);
    if (!parsed.ok) throw new Error(parsed.error.detail);
    expect(
      await confirm(reborn, { ...payment, authorization: parsed.value }, signed, soon()),
    ).toMatchObject({
      kind: "confirmed",
    });
  });

  test("a fixed gas limit is enough and is what was simulated under", async () => {
    const gasUsed: bigint[] = [];
    // The first payment to a recipient makes two new storage slots, the second one.
    for (let index = 0; index < 2; index += 1) {
      const payment = await accepted();
      expect(await evm.inspect(payment, never)).toMatchObject({ ok: true });
      const signed = await signDraft(evm, payment);
      await evm.broadcast(signed, never);
      expect(await confirm(evm, payment, signed, soon())).toMatchObject({ kind: "confirmed" });
      const receipt = await chain.rpc("eth_getTransactionReceipt", [signed.transaction]);
      gasUsed.push(BigInt((receipt as { gasUsed: string }).gasUsed));
    }
    expect(gasUsed[0]).toBeLessThan(104_000n);
    expect(gasUsed[1]).toBeLessThan(87_000n);
  });

  test("a transaction that reverts has failed, and the payer keeps the money", async () => {
    const payment = await accepted();
    const signed = await signDraft(evm, payment);
    await chain.setBlacklisted(payer.address, true);
    await evm.broadcast(signed, never);
    expect(await confirm(evm, payment, signed, soon())).toEqual({
      kind: "failed",
      refusal: {
        code: "invalid_transaction_state",
        detail: "the transaction was reverted",
      },
      retriable: true,
    });
    expect(await chain.balanceOf(payer.address)).toBe(25_000n);
  });

  test("a payment that somebody else submitted first is confirmed with their transaction", async () => {
    const payment = await accepted();
    const signed = await signDraft(evm, payment);
    const theirs = await chain.submit(chain.asset, sameTransfer(payment));
    await evm.broadcast(signed, never);
    expect(await confirm(evm, payment, signed, soon())).toEqual({
      kind: "confirmed",
      transaction: theirs,
      sender: expect.stringMatching(/^0x/),
    });
    expect(await chain.balanceOf(payee.address)).toBe(10_000n);
  });

  test("a nonce spent on another transfer beside a payment that looks the same has failed", async () => {
    const payment = await accepted();
    const signed = await signDraft(evm, payment);
    const { nonce } = payment.authorization;
    // The payer signs the same nonce to itself, and another payment of the same amount to the payee.
    const toSelf = await accept(evm, {
      account: payer.account,
      requirements: payFor(payer),
      overrides: { nonce },
    });
    const another = await accepted();
    const args = [
      [toSelf, another].map((part) => ({
        target: chain.asset,
        allowFailure: false,
        callData: sameTransfer(part),
      })),
    ] as const;
    const data = encodeFunctionData({ abi: multicall3Abi, functionName: "aggregate3", args });
    await chain.submit(MULTICALL3_ADDRESS, data);
    await evm.broadcast(signed, never);
    expect(await confirm(evm, payment, signed, soon())).toEqual({
      kind: "failed",
      refusal: {
        code: "invalid_transaction_state",
        detail: "the authorization's nonce was used for another transfer",
      },
      retriable: false,
    });
    // The other one did pay, once.
    expect(await chain.balanceOf(payee.address)).toBe(10_000n);
  });
});

describe("on a chain that includes transactions when told to", () => {
  let chain: Chain;
  let evm: EvmMechanism;
  let payer: FreshAccount;
  let payee: FreshAccount;
  let signer: FreshAccount;

  beforeEach(async () => {
    chain = await startChain();
    [signer, payer, payee] = [freshAccount(), freshAccount(), freshAccount()];
    await chain.fund(signer.address, 0n, 10n ** 18n);
    await chain.fund(payer.address, 10_000n);
    await chain.rpc("evm_setAutomine", [false]);
    evm = openMechanism(chain, signer.privateKey);
  });
  afterEach(() => chain.stop());

  const accepted = () => accept(evm, { account: payer.account, requirements: payFor(payee) });

  test("a settlement in no block yet is unknown, and confirmed once it is in one", async () => {
    const payment = await accepted();
    const signed = await signDraft(evm, payment);
    await evm.broadcast(signed, never);
    expect(await evm.accountNonce(signer.address, never)).toBe(1);
    expect(await lookAt(evm, payment, signed)).toEqual({
      kind: "unknown",
      detail: "the transaction is not in a block yet",
    });
    // Sent again while it is pending: the node has it already.
    await evm.broadcast(signed, never);
    await chain.mine();
    expect(await confirm(evm, payment, signed, soon())).toMatchObject({ kind: "confirmed" });
  });

  test("confirming waits for the block and answers when it comes", async () => {
    const payment = await accepted();
    const signed = await signDraft(evm, payment);
    let polls = 0;
    const watching = openMechanism(chain, signer.privateKey, {
      observer: (method) => {
        if (method === "eth_getTransactionReceipt" && (polls += 1) === 3) void chain.mine();
      },
    });
    await evm.broadcast(signed, never);
    expect(await confirm(watching, payment, signed, soon())).toMatchObject({ kind: "confirmed" });
    expect(polls).toBeGreaterThan(3);
  });

  test("as many blocks as configured must hold it", async () => {
    const careful = openMechanism(chain, signer.privateKey, { confirmations: 3 });
    const payment = await accepted();
    const signed = await signDraft(careful, payment);
    await careful.broadcast(signed, never);
    await chain.mine(2);
    expect(await lookAt(careful, payment, signed)).toEqual({
      kind: "unknown",
      detail: "in a block, with 2 of 3 confirmations",
    });
    await chain.mine();
    expect(await confirm(careful, payment, signed, soon())).toMatchObject({ kind: "confirmed" });
  });

  test("an authorization that was never used has failed once the chain is past it", async () => {
    const payment = await accepted();
    const signed = await signDraft(evm, payment);
    const late = openMechanism(chain, signer.privateKey, { clock: () => unixNow() + 120 });
    expect(await lookAt(late, payment, signed)).toMatchObject({
      kind: "unknown",
    });
    await chain.setNextBlockTimestamp(unixNow() + 120);
    await chain.mine();
    expect(await confirm(late, payment, signed, soon())).toEqual({
      kind: "failed",
      refusal: { code: "invalid_transaction_state", detail: "the authorization expired unused" },
      retriable: false,
    });
  });

  test("a payment submitted by somebody else is found even when ours never got into a block", async () => {
    const payment = await accepted();
    const signed = await signDraft(evm, payment);
    const theirs = await chain.submit(chain.asset, sameTransfer(payment));
    const late = openMechanism(chain, signer.privateKey, { clock: () => unixNow() + 120 });
    await chain.setNextBlockTimestamp(unixNow() + 120);
    await chain.mine();
    expect(await confirm(late, payment, signed, soon())).toEqual({
      kind: "confirmed",
      transaction: theirs,
      sender: expect.stringMatching(/^0x/),
    });
  });

  test("a chain that goes away is an operational fault, not an outcome", async () => {
    const payment = await accepted();
    const signed = await signDraft(evm, payment);
    await evm.broadcast(signed, never);
    await chain.stop();
    await expect(lookAt(evm, payment, signed)).rejects.toMatchObject({
      code: "CHAIN_UNREACHABLE",
      message: expect.stringContaining("ECONN"),
    });
    await expect(evm.broadcast(signed, never)).rejects.toMatchObject({
      code: "CHAIN_UNREACHABLE",
    });
  });
});

describe("on a chain with a block each second", () => {
  test("many settlements with account nonces of our own are all confirmed", async () => {
    const chain = await startChain({ blockTime: 1 });
    const signer = freshAccount();
    const payee = freshAccount();
    await chain.fund(signer.address, 0n, 10n ** 18n);
    const evm = openMechanism(chain, signer.privateKey);
    const payers = Array.from({ length: 12 }, freshAccount);
    await Promise.all(payers.map(({ address }) => chain.fund(address, 10_000n)));
    const first = await evm.accountNonce(signer.address, never);
    const outcomes = await Promise.all(
      payers.map(async ({ account }, index) => {
        const payment = await accept(evm, { account, requirements: payFor(payee) });
        expect(await evm.inspect(payment, never)).toMatchObject({ ok: true });
        const draft = await draftOf(evm, [payment]);
        const signed = draft.sign(first + index);
        await evm.broadcast(signed, never);
        return confirm(evm, payment, signed, soon());
      }),
    );
    expect(outcomes.map(({ kind }) => kind)).toEqual(outcomes.map(() => "confirmed"));
    expect(await chain.balanceOf(payee.address)).toBe(120_000n);
    await chain.stop();
  });
});
