import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { startChain, type Chain } from "../../support/chain.ts";
import { freshAccount, type FreshAccount } from "../../support/payer.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
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
  type EvmMechanism,
} from "./settling.ts";

const [SYNC, PLAIN] = ["eth_sendRawTransactionSync", "eth_sendRawTransaction"];

let chain: Chain;
let signer: FreshAccount;
let payee: FreshAccount;
let asked: string[];

beforeEach(async () => {
  chain = await startChain();
  [signer, payee] = [freshAccount(), freshAccount()];
  await chain.fund(signer.address, 0n, 10n ** 19n);
  asked = [];
});
afterEach(() => chain.stop());

/** As after the start of a process, which asks what its endpoints offer. */
async function probed(...rpcUrls: readonly string[]): Promise<EvmMechanism> {
  const evm = openMechanism(chain, signer.privateKey, {
    rpcUrls,
    observer: (method) => asked.push(method),
  });
  await evm.probe(never);
  asked.length = 0;
  return evm;
}

async function newPayment(evm: EvmMechanism) {
  const payer = freshAccount();
  await chain.fund(payer.address, 10_000n);
  return accept(evm, { account: payer.account, requirements: payFor(payee) });
}

describe("a node that answers when the bytes are in a block", () => {
  test("needs one call to send and one to look", async () => {
    const evm = await probed(chain.rpcUrl);
    const payment = await newPayment(evm);
    const signed = await signDraft(evm, payment);
    asked.length = 0;
    expect(await evm.broadcast(signed, never)).toBe("included");
    expect(await lookAt(evm, payment, signed)).toMatchObject({ kind: "confirmed" });
    expect(asked).toEqual([SYNC, "eth_getTransactionReceipt"]);
    // Once more, after a restart: what the node says means that it may have been sent.
    expect(await evm.broadcast(signed, never)).toBe("sent");
    expect(await chain.balanceOf(payee.address)).toBe(10_000n);
  });

  test("that makes no block in time has the bytes all the same", async () => {
    await chain.rpc("evm_setAutomine", [false]);
    const evm = await probed(chain.rpcUrl);
    const payment = await newPayment(evm);
    const signed = await signDraft(evm, payment);
    expect(await evm.broadcast(signed, never)).toBe("sent");
    expect(asked.slice(-2)).toEqual([SYNC, PLAIN]);
    await chain.mine();
    expect(await confirm(evm, payment, signed, soon())).toMatchObject({ kind: "confirmed" });
  });

  test("does not hold up other calls, nor what is sent elsewhere, with a block each second", async () => {
    await chain.rpc("evm_setIntervalMining", [1]);
    await using sync = await startRpcProxy(chain.rpcUrl, { sync: true });
    await using plain = await startRpcProxy(chain.rpcUrl);
    const evm = await probed(plain.url, sync.url);
    const payments = await Promise.all(Array.from({ length: 40 }, () => newPayment(evm)));
    const first = await evm.accountNonce(signer.address, never);
    const held = sync.inject({ method: SYNC, hold: true });
    const drafts = await Promise.all(payments.map((payment) => draftOf(evm, [payment])));
    const signed = drafts.map((draft, index) => draft.sign(first + index));
    const sendings = signed.map((each) => evm.broadcast(each, never));
    await held.hit();
    // While the waiting calls wait, the bytes are everywhere and all else is answered.
    await plain.asked(PLAIN, 40);
    const outcomes = await Promise.all(
      payments.flatMap((payment, index) => {
        const each = signed[index];
        return each === undefined ? [] : [confirm(evm, payment, each, soon())];
      }),
    );
    expect(new Set(outcomes.map(({ kind }) => kind))).toEqual(new Set(["confirmed"]));
    expect(sync.count(SYNC)).toBeLessThan(40);
    held.lift();
    await Promise.all(sendings);
    expect(await chain.balanceOf(payee.address)).toBe(400_000n);
  });
});

describe("several endpoints", () => {
  test("all get the same bytes", async () => {
    await using first = await startRpcProxy(chain.rpcUrl);
    await using second = await startRpcProxy(chain.rpcUrl);
    const evm = await probed(first.url, second.url);
    const signed = await signDraft(evm, await newPayment(evm));
    expect(await evm.broadcast(signed, never)).toBe("sent");
    await second.asked(PLAIN, 1);
    for (const { questions } of [first, second]) {
      const sent = questions.filter(({ method }) => method === PLAIN);
      expect(sent.map(({ params }) => params)).toEqual([[signed.raw]]);
    }
  });

  test("are not waited for once one of them has the bytes", async () => {
    await using first = await startRpcProxy(chain.rpcUrl);
    await using second = await startRpcProxy(chain.rpcUrl);
    const evm = await probed(first.url, second.url);
    first.inject({ method: PLAIN, hold: true });
    const payment = await newPayment(evm);
    const signed = await signDraft(evm, payment);
    expect(await evm.broadcast(signed, soon())).toBe("sent");
    expect(await confirm(evm, payment, signed, soon())).toMatchObject({ kind: "confirmed" });
  });

  test("have all failed only when none took the bytes", async () => {
    await using first = await startRpcProxy(chain.rpcUrl);
    await using second = await startRpcProxy(chain.rpcUrl);
    const evm = await probed(first.url, second.url);
    const payment = await newPayment(evm);
    const signed = await signDraft(evm, payment);
    const lost = first.inject({ method: PLAIN, drop: true });
    const refused = second.inject({
      method: PLAIN,
      error: { code: -32_000, message: "insufficient funds" },
      times: 1,
    });
    await expect(evm.broadcast(signed, never)).rejects.toThrow("insufficient funds");
    expect([lost.hits > 0, refused.hits]).toEqual([true, 1]);
    expect(await evm.broadcast(signed, never)).toBe("sent");
    expect(await confirm(evm, payment, signed, soon())).toMatchObject({ kind: "confirmed" });
  });
});
