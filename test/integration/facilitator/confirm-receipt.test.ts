/**
 * Remote facilitators whose word is compared with a real chain: real USDC on anvil, read by the observer
 * that the product uses.
 */
import { onTheWire } from "../../../src/facilitator/wire-facilitator.ts";
import type { ServerResponse } from "node:http";
import { pad, toHex } from "viem";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { SettleOptions } from "../../../src/payments/facilitator.ts";
import type { RemoteOptions } from "../../../src/facilitator/remote.ts";
import { createEvmObserver } from "../../../src/mechanism/evm/evm.ts";
import { encodePaymentHeader } from "../../../src/x402/header.ts";
import { payerOf } from "../../../src/x402/payment-key.ts";
import { cancelAuthorization } from "../../support/cancellation.ts";
import { startChain, STRANGER, type Chain } from "../../support/chain.ts";
import { faultOf } from "../../support/fault-of.ts";
import {
  startScriptedFacilitator,
  type FacilitatorReply,
} from "../../support/scripted-facilitator.ts";
import { submitAsStranger } from "../../support/stranger.ts";
import { newPayment, openMesh, openRemote, patience, type Payment } from "./stage.ts";

let chain: Chain;
beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain.stop());

const NOWHERE = `0x${"ab".repeat(32)}`;

/** What an honest facilitator does: the transaction, by an account of its own. */
const submit = ({ request }: Payment) =>
  submitAsStranger(chain, encodePaymentHeader(request.paymentPayload));

async function meshBefore(reply: () => FacilitatorReply, options: Partial<RemoteOptions> = {}) {
  const closing = new AsyncDisposableStack();
  onTestFinished(() => closing.disposeAsync());
  const facilitator = await startScriptedFacilitator(reply);
  closing.defer(() => facilitator.close());
  const { network } = chain;
  const observer = createEvmObserver({
    network,
    assets: [network.asset],
    rpcUrls: [chain.rpcUrl],
    clock: () => Math.floor(Date.now() / 1000),
  });
  closing.defer(() => observer.close());
  const remote = openRemote(facilitator.url, closing, { confirm: "receipt", ...options });
  remote.word.record({ signers: { "eip155:*": [STRANGER] } }, Date.now());
  const mesh = openMesh({ remotes: [remote], observers: new Map([[network.name, observer]]) });
  return { mesh, facilitator };
}

const handing = (signal = patience()): SettleOptions => ({
  signal,
  idempotencyKey: "key",
  onHandOver: async () => undefined,
});

const claim = (transaction: string): FacilitatorReply => ({
  status: 200,
  body: { success: true, transaction },
});

/** A facilitator that settles, and then names a transaction; null: its answer is lost. */
function settledAs(payment: Payment, name: (transaction: string) => string | null) {
  const submitted = Promise.withResolvers<string>();
  const answer = async (response: ServerResponse): Promise<void> => {
    const transaction = name(await submitted.promise);
    if (transaction === null) response.destroy();
    else response.end(JSON.stringify({ success: true, transaction }));
  };
  const raw = (response: ServerResponse): void => {
    submitted.resolve(submit(payment));
    void answer(response);
  };
  return { reply: { raw }, transaction: submitted.promise };
}

const broken: FacilitatorReply = { raw: (response) => void response.destroy() };

describe("a success that the chain shows", () => {
  test("counts, in the transaction that moved the money", async () => {
    for (const isNamed of [true, false]) {
      const payment = await newPayment(chain);
      const settling = settledAs(payment, (transaction) => (isNamed ? transaction : NOWHERE));
      const { mesh } = await meshBefore(() => settling.reply);
      expect(await onTheWire(mesh).settle(payment.request, handing())).toEqual({
        success: true,
        transaction: await settling.transaction,
        network: chain.network.name,
        payer: payerOf(payment.request.paymentPayload),
      });
    }
  });

  test("counts as soon as it is in a block", async () => {
    const payment = await newPayment(chain);
    const { mesh, facilitator } = await meshBefore(() => claim(NOWHERE));
    const settling = onTheWire(mesh).settle(payment.request, handing());
    await expect.poll(() => facilitator.calls.length).toBe(1);
    const transaction = await submit(payment);
    expect(await settling).toMatchObject({ success: true, transaction });
  });
});

describe("a success that the chain does not show", () => {
  test("is unknown while the authorization can still be used", async () => {
    const payment = await newPayment(chain);
    const { mesh } = await meshBefore(() => claim(NOWHERE));
    const fault = await faultOf(
      onTheWire(mesh).settle(payment.request, handing(AbortSignal.timeout(1_500))),
    );
    expect(fault).toMatchObject({ kind: "unknown", code: "unexpected_settle_error" });
  });

  test("is unknown when it names another payment's transaction", async () => {
    const [paid, unpaid] = [await newPayment(chain), await newPayment(chain)];
    const transaction = await submit(paid);
    const { mesh } = await meshBefore(() => claim(transaction));
    const fault = await faultOf(
      onTheWire(mesh).settle(unpaid.request, handing(AbortSignal.timeout(1_500))),
    );
    expect(fault).toMatchObject({ kind: "unknown" });
  });

  test("is failed when the payer cancelled the authorization", async () => {
    const payment = await newPayment(chain);
    const { mesh } = await meshBefore(() => claim(NOWHERE));
    const { account: signer, address: authorizer } = payment.payer;
    await cancelAuthorization(chain, {
      authorizer,
      signer,
      nonce: pad(toHex(BigInt(payment.nonce))),
    });
    expect(await onTheWire(mesh).settle(payment.request, handing())).toMatchObject({
      success: false,
      errorReason: "invalid_transaction_state",
      detail: expect.stringContaining("cancelled"),
    });
  });
});

describe("an answer that was lost", () => {
  test("is found on the chain", async () => {
    const payment = await newPayment(chain);
    const settling = settledAs(payment, () => null);
    const { mesh, facilitator } = await meshBefore(() => settling.reply, {
      confirm: "facilitator",
    });
    const answer = await onTheWire(mesh).settle(payment.request, handing());
    expect(answer).toMatchObject({ success: true, transaction: await settling.transaction });
    expect(facilitator.calls.length).toBe(1);
  });

  test("is found on the chain by the next process, before anybody is asked", async () => {
    const payment = await newPayment(chain);
    const { mesh, facilitator } = await meshBefore(() => broken);
    let handedOverAt: number | null = null;
    const onHandOver = async (_name: string, head: number | null): Promise<void> => {
      handedOverAt = head;
    };
    const handingOver = { ...handing(AbortSignal.timeout(1_000)), onHandOver };
    const lost = faultOf(onTheWire(mesh).settle(payment.request, handingOver));
    expect(await lost).toMatchObject({ kind: "unknown" });
    const transaction = await submit(payment);
    const asking = { ...handing(), askedBefore: facilitator.url, handedOverAt };
    expect(await onTheWire(mesh).settle(payment.request, asking)).toMatchObject({ transaction });
    expect(facilitator.calls.length).toBe(1);
  });
});
