import { parseTransaction } from "viem";
import { describe, expect, test } from "vitest";
import { BALANCE_CACHE_SECONDS } from "../../../src/mechanism/evm/gas-balance.ts";
import { startChain } from "../../support/chain.ts";
import { freshAccount } from "../../support/payer.ts";
import {
  accept,
  confirm,
  draftOf,
  never,
  openMechanism,
  payFor,
  signDraft,
  soon,
  unixNow,
} from "./settling.ts";

describe("network fees", () => {
  test("above the cap are refused before anything is signed", async () => {
    const chain = await startChain();
    const payer = freshAccount();
    const evm = openMechanism(chain, freshAccount().privateKey, { maxFeePerGasWei: 1n });
    const payment = await accept(evm, {
      account: payer.account,
      requirements: payFor(freshAccount()),
    });
    await expect(draftOf(evm, [payment])).rejects.toMatchObject({ code: "CHAIN_FEE" });
    await chain.stop();
  });

  test("that our account cannot pay are refused before anything is signed, until it is refilled", async () => {
    const chain = await startChain();
    const [signer, payer, payee] = [freshAccount(), freshAccount(), freshAccount()];
    await chain.fund(payer.address, 10_000n);
    const asked: string[] = [];
    let now = unixNow();
    const evm = openMechanism(chain, signer.privateKey, {
      clock: () => now,
      observer: (method) => asked.push(method),
    });
    const payment = await accept(evm, { account: payer.account, requirements: payFor(payee) });
    const refusal = await draftOf(evm, [payment]).catch((error: unknown) => error);
    expect(refusal).toMatchObject({
      code: "CHAIN_GAS",
      message: expect.stringContaining(`base-sepolia: ${signer.address} has 0 wei left`),
    });
    expect(String(refusal)).not.toContain(signer.privateKey.slice(2));
    // Asked once for a while, however many payments come.
    await expect(draftOf(evm, [payment])).rejects.toMatchObject({ code: "CHAIN_GAS" });
    expect(asked.filter((method) => method === "eth_getBalance")).toHaveLength(1);
    expect(asked).not.toContain("eth_sendRawTransaction");

    await chain.fund(signer.address, 0n, 10n ** 18n);
    now += BALANCE_CACHE_SECONDS;
    const signed = await signDraft(evm, payment);
    expect(signed.accountNonce).toBe(0);
    await evm.broadcast(signed, never);
    expect(await confirm(evm, payment, signed, soon())).toMatchObject({ kind: "confirmed" });
    expect(await chain.balanceOf(payee.address)).toBe(10_000n);
    await chain.stop();
  });

  test("that our account can pay only so often let only so many of a burst through", async () => {
    const chain = await startChain();
    const [signer, payer] = [freshAccount(), freshAccount()];
    const requirements = payFor(freshAccount());
    await chain.fund(signer.address, 0n, 10n ** 18n);
    const rich = openMechanism(chain, signer.privateKey);
    const payment = await accept(rich, { account: payer.account, requirements });
    const { raw } = await signDraft(rich, payment);
    const { gas = 0n, maxFeePerGas = 0n } = parseTransaction(`0x${raw.slice(2)}`);
    expect(gas * maxFeePerGas).toBeGreaterThan(0n);

    await chain.fund(signer.address, 0n, 3n * gas * maxFeePerGas);
    const poor = openMechanism(chain, signer.privateKey);
    const drafts = await Promise.allSettled(
      Array.from({ length: 8 }, () => draftOf(poor, [payment])),
    );
    expect(drafts.filter(({ status }) => status === "fulfilled")).toHaveLength(3);
    await chain.stop();
  });
});
