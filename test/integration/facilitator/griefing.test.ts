/** Payers with code against a real node and the real USDC: what they can burn, and what others notice. */
import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import { encodeFunctionData, erc20Abi, toHex, type Address } from "viem";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { SettleResponse } from "../../../src/x402/x402.ts";
import { MULTICALL3_ADDRESS, startChain, type Chain } from "../../support/chain.ts";
import { startFacilitator, type RunningFacilitator } from "../../support/facilitator.ts";
import { freshAccount, type FreshAccount } from "../../support/payer.ts";
import { delegation, LOOP, twoFacedCode, type Tell } from "../../support/two-faced-wallet.ts";
import { newPayment, patience, type Payment } from "./stage.ts";

/** Of the sixteen places of an account those for code of payers'. */
const CODE_PLACES = 4;
/** The gas limit of a transfer that runs code of the payer's. */
const WALLET_GAS = 300_000;
const TIMEOUT_MS = 60_000;
/** New payers whose payments together burn more than new payers may; and how many of them are in the air after that. */
const CROWD = 24;
const FEW = 4;

let chain: Chain;
let running: RunningFacilitator;
beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain.stop());
beforeEach(async () => {
  running = await startFacilitator({ chain });
  await running.facilitator.recover();
});
afterEach(async () => {
  await chain.rpc("evm_setAutomine", [true]);
  await running[Symbol.asyncDispose]();
});

const setCode = (address: Address, code: string) => chain.rpc("anvil_setCode", [address, code]);

/** Payments of one cent each by wallets of that code, `each` of them by every one. */
async function fromWallets(tell: Tell, count: number, each: number): Promise<readonly Payment[]> {
  const all: Payment[] = [];
  for (let wallet = 0; wallet < count; wallet += 1) {
    const { address } = freshAccount();
    await setCode(address, twoFacedCode(tell));
    await chain.fund(address, 10_000n);
    for (let payment = 0; payment < each; payment += 1) {
      all.push(await newPayment(chain, { overrides: { from: address } }));
    }
  }
  return all;
}

function settleAll(all: readonly Payment[]): Promise<SettleResponse[]> {
  const { facilitator } = running;
  const answers = all.map(({ request }) =>
    onTheWire(facilitator).settle(request, { signal: patience() }),
  );
  return Promise.all(answers);
}

/** What our account has in the node's pool. */
async function inTheAir(): Promise<
  readonly { readonly to: string; readonly gas: number; readonly input: string }[]
> {
  const content: unknown = await chain.rpc("txpool_content");
  const { pending, queued } = Object(content);
  const own = [pending, queued].flatMap((each) => {
    return Object.entries(Object(each)).flatMap(([account, transactions]) =>
      account.toLowerCase() === running.signer.toLowerCase()
        ? Object.values(Object(transactions))
        : [],
    );
  });
  return own.map((each) => {
    const { to, gas, input } = Object(each);
    return { to: String(to), gas: Number(gas), input: String(input) };
  });
}

/** Waits until so many of our transactions are in the node's pool. */
async function untilInTheAir(count: number): Promise<void> {
  while ((await inTheAir()).length < count) patience().throwIfAborted();
}

/** Waits until a transaction of ours in the node's pool carries it. */
async function untilSigned({ nonce }: Payment): Promise<void> {
  const isCarried = ({ input }: { readonly input: string }): boolean =>
    input.includes(nonce.slice(2));
  while (!(await inTheAir()).some(isCarried)) patience().throwIfAborted();
}

/** Mines, with code at the sign while the block is made, until all are answered. */
async function mineUntil<Value>(answers: Promise<Value>, sign?: Address): Promise<Value> {
  const answered = new AbortController();
  void answers.catch(() => undefined).finally(() => answered.abort());
  while (!answered.signal.aborted) {
    if ((await inTheAir()).length === 0) continue;
    if (sign !== undefined) await setCode(sign, "0x00");
    await chain.mine();
    if (sign !== undefined) await setCode(sign, "0x");
  }
  return answers;
}

/** Transactions of ours that were reverted, and the gas of each. */
async function reverted(): Promise<readonly number[]> {
  const head = Number(await chain.rpc("eth_blockNumber"));
  const found: number[] = [];
  for (let block = 0; block <= head; block += 1) {
    const receipts = await chain.rpc("eth_getBlockReceipts", [`0x${block.toString(16)}`]);
    for (const { from, status, gasUsed } of Array.isArray(receipts) ? receipts : []) {
      const isOurs = String(from).toLowerCase() === running.signer.toLowerCase();
      if (isOurs && status !== "0x1") found.push(Number(gasUsed));
    }
  }
  return found;
}

describe("a wallet that behaves only in a simulation", () => {
  test.each(["origin", "gas price"] as const)(
    "and knows it by the %s is found out",
    async (tell) => {
      const all = await fromWallets(tell, 1, 3);
      const [first] = all;
      if (first === undefined) throw new Error("three were made");
      const verdict = await onTheWire(running.facilitator).verify(first.request, patience());
      expect(verdict).toMatchObject({ isValid: false });
      const answers = await settleAll(all);
      expect(answers.every(({ success }) => !success)).toBe(true);
      expect(await chain.rpc("eth_getTransactionCount", [running.signer, "latest"])).toBe("0x0");
    },
  );

  test("by a sign of its owner's burns its gas limit once", { timeout: TIMEOUT_MS }, async () => {
    const sign = freshAccount().address;
    const all = await fromWallets({ sign }, 1, 10);
    await chain.rpc("evm_setAutomine", [false]);
    const answers = await mineUntil(settleAll(all), sign);
    expect(answers.every(({ success }) => !success)).toBe(true);
    const burnt = await reverted();
    expect(burnt).toHaveLength(1);
    expect(burnt[0]).toBeLessThanOrEqual(WALLET_GAS);
  });

  test("in a crowd burns a bounded share, and an honest buyer is served in the next block", async () => {
    const sign = freshAccount().address;
    const all = await fromWallets({ sign }, 12, 1);
    const honest = await newPayment(chain);
    await chain.rpc("evm_setAutomine", [false]);
    const settling = settleAll(all);
    await untilInTheAir(CODE_PLACES);
    const buying = settleAll([honest]);
    await untilInTheAir(CODE_PLACES + 1);
    await setCode(sign, "0x00");
    await chain.mine();
    await setCode(sign, "0x");
    expect(await buying).toMatchObject([{ success: true }]);
    await mineUntil(settling, sign);
    expect((await reverted()).length).toBe(CODE_PLACES);
    expect(await chain.rpc("eth_getTransactionCount", [running.signer, "latest"])).toBe("0x5");
    const samples = await running.metrics.registry.getSingleMetricAsString(
      "coinslot_settlement_pauses_total",
    );
    expect(samples).toContain('reason="smart-wallets"} 1');
  });
});

describe("an honest payer with code", () => {
  test("is served: a smart wallet, and an EOA that delegates to one", async () => {
    const owner = freshAccount();
    const wallet = await chain.deployWallet(owner.address);
    await chain.fund(wallet, 10_000n);
    const delegated = await delegatedPayer();
    const all = [
      await newPayment(chain, { payer: owner, overrides: { from: wallet }, funds: 0n }),
      await newPayment(chain, { payer: delegated }),
    ];
    for (const { request } of all) {
      expect(await onTheWire(running.facilitator).verify(request, patience())).toMatchObject({
        isValid: true,
      });
    }
    expect(await settleAll(all)).toMatchObject([{ success: true }, { success: true }]);
  });

  test("is refused where smart wallets are denied, and others are served", async () => {
    await using strict = await startFacilitator({ chain, smartWallets: "deny" });
    const owner = freshAccount();
    const wallet = await chain.deployWallet(owner.address);
    await chain.fund(wallet, 10_000n);
    const all = [
      await newPayment(chain, { payer: owner, overrides: { from: wallet }, funds: 0n }),
      await newPayment(chain, { payer: await delegatedPayer() }),
    ];
    for (const { request } of all) {
      const refused = { errorReason: "invalid_exact_evm_payload_signature" };
      const answer = await onTheWire(strict.facilitator).settle(request, { signal: patience() });
      expect(answer).toMatchObject({ success: false, ...refused });
      expect(answer).toMatchObject({ detail: expect.stringContaining("are not served here") });
    }
    const { request } = await newPayment(chain);
    const answer = await onTheWire(strict.facilitator).settle(request, { signal: patience() });
    expect(answer).toMatchObject({ success: true });
  });
});

describe("a payer who delegates while a batch is in the air", () => {
  test("is blamed, and the others are paid alone", { timeout: TIMEOUT_MS }, async () => {
    const target = freshAccount().address;
    await setCode(target, LOOP);
    const all: Payment[] = [];
    for (let count = 0; count < 6; count += 1) all.push(await newPayment(chain));
    const [first, poison] = all;
    if (first === undefined || poison === undefined) throw new Error("six were made");
    await chain.rpc("evm_setAutomine", [false]);
    const settling = settleAll(all);
    await untilInTheAir(2);
    const [lone, batch] = await inTheAir();
    expect([lone?.to, batch?.to]).toEqual([chain.asset, MULTICALL3_ADDRESS].map(lowerCase));
    await setCode(poison.payer.address, delegation(target));
    const answers = await mineUntil(settling);
    expect(answers.map(({ success }) => success)).toEqual([true, false, true, true, true, true]);
    expect(await reverted()).toHaveLength(1);
    // However well it behaves now.
    await setCode(target, twoFacedCode({ sign: freshAccount().address }));
    const again = await newPayment(chain, { payer: poison.payer });
    const verdict = await onTheWire(running.facilitator).verify(again.request, patience());
    expect(verdict).toMatchObject({ isValid: false, detail: expect.stringContaining("failed on") });

    const more: Payment[] = [];
    for (let count = 0; count < 3; count += 1) more.push(await newPayment(chain));
    const next = settleAll(more);
    await untilInTheAir(3);
    expect((await inTheAir()).map(({ to }) => to)).toEqual(more.map(() => lowerCase(chain.asset)));
    await mineUntil(next);
    expect(await next).toMatchObject(more.map(() => ({ success: true })));
  });
});

describe("new payers who move their tokens while a batch is in the air", () => {
  test("are few after that, and others are not", { timeout: TIMEOUT_MS }, async () => {
    const known = await newPayment(chain, { funds: 100_000n });
    expect(await settleAll([known])).toMatchObject([{ success: true }]);
    const all: Payment[] = [];
    for (let count = 0; count < CROWD; count += 1) all.push(await newPayment(chain));
    const next = await newPayment(chain, { payer: known.payer });
    const fresh: Payment[] = [];
    for (let count = 0; count < 3 * FEW; count += 1) fresh.push(await newPayment(chain));
    await chain.rpc("evm_setAutomine", [false]);
    const attacking = settleAll(all);
    for (const each of all) await untilSigned(each);
    for (const { payer } of all) await moveAway(payer.address);
    await chain.mine();
    // None of them has anything left to be signed for again.
    expect((await attacking).every(({ success }) => !success)).toBe(true);
    const samples = await running.metrics.registry.getSingleMetricAsString(
      "coinslot_settlement_pauses_total",
    );
    expect(samples).toContain('reason="new-payers"} 1');

    const newcomers = settleAll(fresh);
    await untilInTheAir(1);
    const paying = settleAll([next]);
    const before = await chain.balanceOf(known.payer.address);
    await untilSigned(next);
    const inputs = (await inTheAir()).map(({ input }) => input).join("");
    const signed = fresh.filter(({ nonce }) => inputs.includes(nonce.slice(2)));
    expect(signed.length).toBeLessThanOrEqual(FEW);
    await chain.mine();
    expect(await paying).toMatchObject([{ success: true }]);
    expect(await chain.balanceOf(known.payer.address)).toBe(before - 10_000n);
    await mineUntil(newcomers);
    expect(await newcomers).toMatchObject(fresh.map(() => ({ success: true })));
  });
});

/** By a call of its own, which stands before ours in the block. */
async function moveAway(from: Address): Promise<void> {
  const args = [MULTICALL3_ADDRESS, await chain.balanceOf(from)] as const;
  const data = encodeFunctionData({ abi: erc20Abi, functionName: "transfer", args });
  await chain.rpc("anvil_setBalance", [from, toHex(10n ** 18n)]);
  await chain.rpc("anvil_impersonateAccount", [from]);
  const bid = { maxFeePerGas: toHex(10n ** 11n), maxPriorityFeePerGas: toHex(10n ** 11n) };
  await chain.rpc("eth_sendTransaction", [{ from, to: chain.asset, data, ...bid }]);
}

/** Whose signature its delegate judges, honestly. */
async function delegatedPayer(): Promise<FreshAccount> {
  const payer = freshAccount();
  await setCode(payer.address, delegation(await chain.deployWallet(payer.address)));
  return payer;
}

function lowerCase(address: string): string {
  return address.toLowerCase();
}
