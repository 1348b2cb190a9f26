import { parseTransaction, type Hex } from "viem";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Confirmation, SignedTransaction } from "../../../src/mechanism/mechanism.ts";
import { transferCall } from "../../../src/mechanism/evm/token.ts";
import { MULTICALL3_ADDRESS, startChain, type Chain } from "../../support/chain.ts";
import { freshAccount, type FreshAccount } from "../../support/payer.ts";
import { delegation, twoFacedCode } from "../../support/two-faced-wallet.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import {
  accept,
  never,
  openMechanism,
  payFor,
  settle,
  signDraft,
  soon,
  submissionOf,
  type EvmMechanism,
  type Payment,
} from "./settling.ts";

const PRICE = 10_000n;

let chain: Chain;
let signer: FreshAccount;
let payee: FreshAccount;
let evm: EvmMechanism;

beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain.stop());
beforeEach(async () => {
  [signer, payee] = [freshAccount(), freshAccount()];
  await chain.fund(signer.address, 0n, 10n ** 19n);
  evm = openMechanism(chain, signer.privateKey);
});
afterEach(() => chain.rpc("evm_setAutomine", [true]));

async function richPayer(atomic = PRICE): Promise<FreshAccount> {
  const payer = freshAccount();
  await chain.fund(payer.address, atomic);
  return payer;
}

async function payment(payer?: FreshAccount, to: FreshAccount = payee): Promise<Payment> {
  const { account } = payer ?? (await richPayer());
  return accept(evm, { account, requirements: payFor(to) });
}

async function paymentsOf(count: number): Promise<readonly Payment[]> {
  const payments: Payment[] = [];
  for (let index = 0; index < count; index += 1) payments.push(await payment());
  return payments;
}

/** Sends and follows; the verdicts in order. */
async function carry(payments: readonly Payment[], signed: SignedTransaction) {
  await evm.broadcast(signed, never);
  return settle(evm, submissionOf(payments, signed), soon());
}

function transactionOf({ raw }: SignedTransaction) {
  const { to, gas = 0n, value = 0n } = parseTransaction(`0x${raw.slice(2)}`);
  return { to: String(to).toLowerCase(), gas, value };
}

async function gasUsed({ transaction }: SignedTransaction): Promise<number> {
  const receipt = await chain.rpc("eth_getTransactionReceipt", [transaction]);
  return Number((receipt as { gasUsed: Hex }).gasUsed);
}

const prepare = (payments: readonly Payment[]) => evm.prepare(payments, signer.address, never);
const kindsOf = (outcomes: readonly Confirmation[]) => outcomes.map(({ kind }) => kind);
const REFUSED = {
  code: "invalid_transaction_state",
  detail: "the token refused the transfer, one of several in its transaction",
};

describe("payments together", () => {
  test("one goes straight to the token", async () => {
    const payments = await paymentsOf(1);
    const signed = await signDraft(evm, ...payments);
    expect(transactionOf(signed)).toEqual({
      to: chain.asset.toLowerCase(),
      gas: 200_000n,
      value: 0n,
    });
    expect(kindsOf(await carry(payments, signed))).toEqual(["confirmed"]);
  });

  test("two are paid in one transaction to Multicall3", async () => {
    const payments = await paymentsOf(2);
    const signed = await signDraft(evm, ...payments);
    expect(transactionOf(signed)).toMatchObject({
      to: MULTICALL3_ADDRESS.toLowerCase(),
      value: 0n,
    });
    const { transaction } = signed;
    expect(await carry(payments, signed)).toEqual([
      { kind: "confirmed", transaction },
      { kind: "confirmed", transaction },
    ]);
    expect(await chain.balanceOf(payee.address)).toBe(2n * PRICE);
  });

  test("fifty fit, each within its share of the gas, and cost little more than half as much", async () => {
    expect(evm.maxTogether).toBe(50);
    const lone = await paymentsOf(1);
    const alone = await signDraft(evm, ...lone);
    await carry(lone, alone);
    // The dearest kind: no payee has held the token before, and every payer keeps some of it.
    const dear: Payment[] = [];
    for (let index = 0; index < 50; index += 1) {
      dear.push(await payment(await richPayer(2n * PRICE), freshAccount()));
    }
    const signed = await signDraft(evm, ...dear);
    expect(new Set(kindsOf(await carry(dear, signed)))).toEqual(new Set(["confirmed"]));
    expect((await gasUsed(signed)) / 50).toBeLessThan(75_000);
    expect(transactionOf(signed).gas).toBeGreaterThan(50n * 75_000n);

    const usual = await paymentsOf(50);
    const second = await signDraft(evm, ...usual);
    expect(new Set(kindsOf(await carry(usual, second)))).toEqual(new Set(["confirmed"]));
    expect((await gasUsed(second)) / 50).toBeLessThan(47_500);
    expect(await chain.balanceOf(payee.address)).toBe(51n * PRICE);
  });

  test("more than fit are refused before anything is asked", async () => {
    const payments = Array.from({ length: 51 }, () => undefined);
    const [one] = await paymentsOf(1);
    if (one === undefined) throw new Error("one was made");
    await expect(
      evm.prepare(
        payments.map(() => one),
        signer.address,
        never,
      ),
    ).rejects.toThrow("at most 50 payments go together");
  });

  test("of one payer to one payee of one value are each paid once", async () => {
    const payer = await richPayer(2n * PRICE);
    const payments = [await payment(payer), await payment(payer)];
    const signed = await signDraft(evm, ...payments);
    expect(kindsOf(await carry(payments, signed))).toEqual(["confirmed", "confirmed"]);
    expect(await chain.balanceOf(payer.address)).toBe(0n);
  });
});

describe("a payment that fails in the simulation", () => {
  test("is left out; the others go", async () => {
    const [first, last] = [await payment(), await payment()];
    const poor = await payment(freshAccount());
    const { draft, leftOut } = await prepare([first, poor, last]);
    expect(leftOut).toEqual([1]);
    const signed = draft?.sign(await evm.accountNonce(signer.address, never));
    if (signed === undefined) throw new Error("two were left");
    // What is signed has the gas that was simulated.
    expect(transactionOf(signed).gas).toBe(60_000n + 3n * 120_000n);
    expect(kindsOf(await carry([first, last], signed))).toEqual(["confirmed", "confirmed"]);
  });

  test("leaves one other to go straight to the token", async () => {
    const payer = await richPayer();
    const { draft, leftOut } = await prepare([await payment(payer), await payment(payer)]);
    expect(leftOut).toEqual([1]);
    const signed = draft?.sign(0);
    if (signed === undefined) throw new Error("one was left");
    expect(transactionOf(signed).to).toBe(chain.asset.toLowerCase());
  });

  test("leaves nothing to sign when all fail", async () => {
    const payments = [await payment(freshAccount()), await payment(freshAccount())];
    expect(await prepare(payments)).toEqual({ draft: undefined, leftOut: [0, 1] });
  });

  test("is each one when the node will not run so large a call", async () => {
    await using proxy = await startRpcProxy(chain.rpcUrl);
    const behind = openMechanism(chain, signer.privateKey, { rpcUrls: [proxy.url] });
    const refused = proxy.inject({
      method: "eth_call",
      when: ({ params }) => "gas" in Object(params[0]),
      error: { code: -32_000, message: "gas limit is too high" },
    });
    const payments = await paymentsOf(2);
    expect(await behind.prepare(payments, signer.address, never)).toEqual({
      draft: undefined,
      leftOut: [0, 1],
    });
    expect(refused.hits).toBe(1);
  });

  test("costs the account nothing: what was set aside is for what is signed", async () => {
    const poor = [await payment(freshAccount()), await payment(freshAccount())];
    const [good] = await paymentsOf(1);
    if (good === undefined) throw new Error("one was made");
    const { raw } = await signDraft(evm, good);
    const { gas = 0n, maxFeePerGas = 0n } = parseTransaction(`0x${raw.slice(2)}`);
    const frugal = freshAccount();
    await chain.fund(frugal.address, 0n, 2n * gas * maxFeePerGas);
    const spare = openMechanism(chain, frugal.privateKey);
    for (let index = 0; index < 5; index += 1) {
      expect((await spare.prepare(poor, frugal.address, never)).draft).toBeUndefined();
    }
    expect((await spare.prepare([good], frugal.address, never)).draft).toBeDefined();
  });
});

describe("a payer with code", () => {
  test("whose signature only that code can judge goes alone", async () => {
    const owner = freshAccount();
    const wallet = await chain.deployWallet(owner.address);
    await chain.fund(wallet, PRICE);
    const fromWallet = await accept(evm, {
      account: owner.account,
      requirements: payFor(payee),
      overrides: { from: wallet },
    });
    const others = await paymentsOf(2);
    const { leftOut } = await evm.prepare([fromWallet, ...others], signer.address, never);
    expect(leftOut).toEqual([0]);
  });

  test("that is a delegated EOA (EIP-7702) goes alone, however it behaves in the simulation", async () => {
    const payer = await richPayer();
    const delegate = freshAccount().address;
    const code = await chain.rpc("eth_getCode", [
      await chain.deployWallet(payer.address),
      "latest",
    ]);
    await chain.rpc("anvil_setCode", [delegate, code]);
    await chain.rpc("anvil_setCode", [payer.address, `0xef0100${delegate.slice(2)}`]);
    const delegated = await payment(payer);
    expect(delegated.proven).toBe(true);
    const others = await paymentsOf(2);
    const { leftOut } = await evm.prepare(
      [others[0], delegated, others[1]].flatMap((each) => each ?? []),
      signer.address,
      never,
    );
    expect(leftOut).toEqual([1]);
    expect((await evm.prepare([delegated], signer.address, never)).leftOut).toEqual([]);
  });

  test("is simulated as it would be sent before it is signed", async () => {
    const sign = freshAccount().address;
    const payer = await richPayer();
    const delegate = freshAccount().address;
    await chain.rpc("anvil_setCode", [delegate, twoFacedCode({ sign })]);
    await chain.rpc("anvil_setCode", [payer.address, delegation(delegate)]);
    const delegated = await payment(payer);
    const inspected = await evm.inspect(delegated, never);
    if (!inspected.ok) throw new Error(inspected.error.detail);
    expect(inspected.value.runsCode).toBe(true);
    expect((await prepare([inspected.value])).draft).toBeDefined();
    await chain.rpc("anvil_setCode", [sign, "0x00"]);
    expect(await prepare([inspected.value])).toMatchObject({ draft: undefined, refused: {} });
  });

  test("burns nobody else's gas", async () => {
    const payer = await richPayer();
    const delegate = freshAccount().address;
    // JUMPDEST, PUSH1 0, JUMP: an endless loop.
    await chain.rpc("anvil_setCode", [delegate, "0x5b600056"]);
    await chain.rpc("anvil_setCode", [payer.address, `0xef0100${delegate.slice(2)}`]);
    const wallet = freshAccount();
    await chain.rpc("anvil_setCode", [wallet.address, "0x5b600056"]);
    const unproven = await accept(evm, {
      account: payer.account,
      requirements: payFor(payee),
      overrides: { from: wallet.address },
    });
    const burning = await payment(payer);
    expect([burning.proven, unproven.proven]).toEqual([true, false]);
    const others = await paymentsOf(2);
    const { draft, leftOut } = await prepare([burning, unproven, ...others]);
    expect(leftOut).toEqual([0, 1]);
    const signed = draft?.sign(await evm.accountNonce(signer.address, never));
    if (signed === undefined) throw new Error("two were left");
    expect(transactionOf(signed).gas).toBe(60_000n + 2n * 120_000n);
    expect(kindsOf(await carry(others, signed))).toEqual(["confirmed", "confirmed"]);
    expect(await prepare([unproven, unproven])).toEqual({ draft: undefined, leftOut: [0, 1] });
  });

  test("is found by asking for each code where the node does not run code that is in no block", async () => {
    await using proxy = await startRpcProxy(chain.rpcUrl);
    const behind = openMechanism(chain, signer.privateKey, { rpcUrls: [proxy.url] });
    const odd = proxy.inject({
      method: "eth_call",
      when: ({ params }) => !("to" in Object(params[0])),
      result: "0x",
    });
    const payments = await paymentsOf(2);
    expect((await behind.prepare(payments, signer.address, never)).leftOut).toEqual([]);
    expect(odd.hits).toBe(1);
    expect(proxy.count("eth_getCode")).toBe(2);
  });
});

describe("a payment that fails on chain beside others", () => {
  test("may be carried by another transaction as long as its authorization is open", async () => {
    await chain.rpc("evm_setAutomine", [false]);
    const mover = await richPayer();
    const others = await paymentsOf(2);
    const moved = await payment(mover);
    const payments = [others[0], moved, others[1]].flatMap((each) => each ?? []);
    const signed = await signDraft(evm, ...payments);
    // The payer spends the money in a transaction that comes first.
    const elsewhere = await payment(mover, freshAccount());
    await chain.submit(chain.asset, callOf(elsewhere));
    await evm.broadcast(signed, never);
    await chain.mine();
    const { transaction } = signed;
    const confirmed = { kind: "confirmed", transaction };
    expect(await settle(evm, submissionOf(payments, signed), soon())).toEqual([
      confirmed,
      { kind: "failed", refusal: REFUSED, retriable: true },
      confirmed,
    ]);
    expect(await chain.balanceOf(payee.address)).toBe(2n * PRICE);

    // With money again, the same authorization goes in another transaction.
    await chain.fund(mover.address, PRICE);
    const again = await signDraft(evm, moved);
    await evm.broadcast(again, never);
    await chain.mine();
    expect(kindsOf(await settle(evm, submissionOf(moved, again), soon()))).toEqual(["confirmed"]);
  });

  test("because somebody else submitted it is confirmed with their transaction", async () => {
    const payments = await paymentsOf(3);
    const signed = await signDraft(evm, ...payments);
    const [, second] = payments;
    if (second === undefined) throw new Error("three were made");
    const theirs = await chain.submit(chain.asset, callOf(second));
    const { transaction } = signed;
    expect(await carry(payments, signed)).toEqual([
      { kind: "confirmed", transaction },
      { kind: "confirmed", transaction: theirs, sender: expect.stringMatching(/^0x/) },
      { kind: "confirmed", transaction },
    ]);
    expect(await chain.balanceOf(payee.address)).toBe(3n * PRICE);
  });
});

describe("several accounts of ours", () => {
  test("sign each for themselves, with what each of them holds", async () => {
    const second = freshAccount();
    const both = openMechanism(chain, signer.privateKey, {
      keys: [signer.privateKey, second.privateKey],
    });
    expect(both.accounts).toEqual([signer.address, second.address]);
    const [first, other] = await paymentsOf(2);
    if (first === undefined || other === undefined) throw new Error("two were made");
    const poor = both.prepare([other], second.address, never);
    await expect(poor).rejects.toMatchObject({ code: "CHAIN_GAS" });
    const { draft } = await both.prepare([first], signer.address, never);
    expect(draft?.sign(0)).toMatchObject({ account: signer.address });

    await chain.fund(second.address, 0n, 10n ** 18n);
    const third = openMechanism(chain, signer.privateKey, {
      keys: [signer.privateKey, second.privateKey],
    });
    const lowerCase = second.address.toLowerCase();
    const signed = (await third.prepare([other], lowerCase, never)).draft?.sign(0);
    if (signed === undefined) throw new Error("it was prepared");
    expect(signed.account).toBe(second.address);
    await third.broadcast(signed, never);
    const outcomes = await settle(third, submissionOf(other, signed), soon());
    expect(kindsOf(outcomes)).toEqual(["confirmed"]);
    const sent = await chain.rpc("eth_getTransactionByHash", [signed.transaction]);
    expect(sent).toMatchObject({ from: lowerCase });
  });

  test("that are not ours sign nothing", async () => {
    const payments = await paymentsOf(1);
    await expect(evm.prepare(payments, payee.address, never)).rejects.toThrow("no account of ours");
  });

  test("have a balance and a price to show", async () => {
    const wallet = await evm.balance(signer.address, never);
    expect(wallet).toMatchObject({
      address: signer.address,
      balanceAtomic: 10n ** 19n,
      decimals: 18,
    });
    expect(wallet.settlementAtomic).toBeGreaterThan(100_000n);
    expect(wallet.settlementAtomic).toBeLessThan(10n ** 16n);
  });
});

test("without Multicall3 each payment goes alone", async () => {
  const code = await chain.rpc("eth_getCode", [MULTICALL3_ADDRESS, "latest"]);
  await chain.rpc("anvil_setCode", [MULTICALL3_ADDRESS, "0x"]);
  await evm.probe(never);
  expect(evm.maxTogether).toBe(1);
  await chain.rpc("anvil_setCode", [MULTICALL3_ADDRESS, code]);
  await evm.probe(never);
  expect(evm.maxTogether).toBe(50);
});

/** The same authorization in somebody else's transaction. */
function callOf({ authorization }: Payment): Hex {
  return `0x${transferCall(authorization.words, authorization.signature, authorization.proven)}`;
}
