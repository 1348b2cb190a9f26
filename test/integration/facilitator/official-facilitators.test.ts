/**
 * Our gateway behind the official facilitator of each version, unmodified, on a real chain: payments that came in either
 * version are judged, settled and told by both.
 */
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Payment, SettleOptions } from "../../../src/payments/facilitator.ts";
import type { FacilitatorRouter } from "../../../src/facilitator/facilitator-router.ts";
import type { FacilitatorRequest } from "../../../src/x402/x402.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startNpmFacilitator } from "../../support/npm-facilitator.ts";
import {
  startOfficialFacilitator,
  type OfficialFacilitator,
} from "../../support/official-facilitator.ts";
import { freshAccount } from "../../support/payer.ts";
import { newPayment, openMesh, openRemote, patience, transactionOf } from "./stage.ts";

let chain: Chain;
let official: OfficialFacilitator;
let npm: Awaited<ReturnType<typeof startNpmFacilitator>>;

beforeAll(async () => {
  // The older package looks for its transaction once in each block, and misses it for good where no more come.
  chain = await startChain({ blockTime: 1 });
  [official, npm] = await Promise.all([
    startOfficialFacilitator(chain),
    startNpmFacilitator(chain),
  ]);
});
afterAll(async () => {
  await official[Symbol.asyncDispose]();
  await npm[Symbol.asyncDispose]();
  await chain.stop();
});

const EXTENSION = { info: { id: "a-payment-of-the-test" } };

/** A payment that came in that version, of a payer who has so much, to a payee who has nothing. */
async function paymentIn(version: number, funds = 10_000n) {
  const payTo = freshAccount().address;
  const made = await newPayment(chain, {
    funds,
    requirements: { payTo },
    // Clients of version 2 write it so.
    ...(version === 2 && { overrides: { validAfter: "0" } }),
  });
  const { paymentPayload, paymentRequirements } = made.request;
  const extensions = version === 2 ? { extensions: { "payment-identifier": EXTENSION } } : {};
  const request: FacilitatorRequest = {
    paymentPayload: { ...paymentPayload, ...extensions, x402Version: version },
    paymentRequirements,
  };
  return { payTo, payer: made.payer.address, request };
}

function meshBefore(url: string): FacilitatorRouter {
  const closing = new AsyncDisposableStack();
  onTestFinished(() => closing.disposeAsync());
  return openMesh({ remotes: [openRemote(url, closing)] });
}

function read(mesh: FacilitatorRouter, request: FacilitatorRequest): Payment {
  const payment = mesh.read(request);
  if (!payment.ok) throw new Error(payment.error.detail);
  return payment.value;
}

const settling = (): SettleOptions => ({
  signal: patience(),
  idempotencyKey: "key",
  onHandOver: async () => undefined,
});

describe.each([
  ["x402 1.2.0", () => npm.url],
  ["@x402/core 2", () => official.url],
])("behind the facilitator of %s", (_, urlOf) => {
  test.each([1, 2])("a payment of version %i is judged and settled", async (version) => {
    const mesh = meshBefore(urlOf());
    const { payTo, payer, request } = await paymentIn(version);
    const payment = read(mesh, request);
    expect(await mesh.verify(payment, patience())).toMatchObject({ ok: true });
    const answer = await mesh.settle(payment, settling());
    expect(answer).toMatchObject({ success: true, network: "base-sepolia", payer });
    expect(await chain.balanceOf(payTo)).toBe(10_000n);
    const { succeeded, events } = await transactionOf(chain, answer.transaction);
    expect(succeeded).toBe(true);
    expect(events.map(({ eventName }) => eventName)).toEqual(["AuthorizationUsed", "Transfer"]);
  });

  test.each([1, 2])(
    "one of version %i without the money is refused in our words",
    async (version) => {
      const mesh = meshBefore(urlOf());
      const { request, payTo } = await paymentIn(version, 1n);
      expect(await mesh.verify(read(mesh, request), patience())).toMatchObject({
        ok: false,
        error: { code: "insufficient_funds" },
      });
      expect(await chain.balanceOf(payTo)).toBe(0n);
    },
  );
});

test("a settlement alone is sent as the facilitator lists it", async () => {
  const mesh = meshBefore(official.url);
  await mesh.supported(patience());
  for (const version of [1, 2]) {
    const { payTo, request } = await paymentIn(version);
    const before = official.calls.length;
    expect(await mesh.settle(read(mesh, request), settling())).toMatchObject({ success: true });
    expect(await chain.balanceOf(payTo)).toBe(10_000n);
    const [call, ...others] = official.calls.slice(before);
    expect(others).toEqual([]);
    const { resource: url } = request.paymentRequirements;
    expect(call).toMatchObject({
      path: "/settle",
      body: {
        x402Version: 2,
        paymentPayload: { x402Version: 2, resource: { url } },
        paymentRequirements: { network: "eip155:84532", amount: "10000" },
      },
    });
  }
});

test("what is sent and not seen yet is asked for again there, with the same words", async () => {
  await using impatient = await startOfficialFacilitator(chain, 200);
  const mesh = meshBefore(impatient.url);
  const { payTo, request } = await paymentIn(2);
  const settlements = () => impatient.calls.filter(({ path }) => path === "/settle");
  await chain.rpc("evm_setIntervalMining", [0]);
  onTestFinished(() => chain.rpc("evm_setIntervalMining", [1]).then(() => undefined));
  const answer = mesh.settle(read(mesh, request), settling());
  await expect.poll(() => settlements().length, { timeout: 10_000 }).toBe(2);
  await chain.mine();
  expect(await answer).toMatchObject({ success: true });
  expect(await chain.balanceOf(payTo)).toBe(10_000n);
  expect(new Set(settlements().map(({ body }) => JSON.stringify(body))).size).toBe(1);
});
