/** Our endpoints in version 2, as the official client of a facilitator and the official server see them. */
import { HTTPFacilitatorClient, x402ResourceServer } from "@x402/core/server";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { afterAll, beforeAll, beforeEach, afterEach, describe, expect, test } from "vitest";
import { startChain, type Chain } from "../../support/chain.ts";
import { openStage, signedV2, type Payment, type PaymentOptions, type Stage } from "./stage.ts";

let chain: Chain;
let at: Stage;
let client: HTTPFacilitatorClient;

beforeAll(async () => {
  chain = await startChain();
});
afterAll(() => chain.stop());
beforeEach(async () => {
  at = await openStage({ chain });
  client = new HTTPFacilitatorClient({ url: at.inner.url });
});
afterEach(() => at[Symbol.asyncDispose]());

const signed = (options: PaymentOptions = {}) => signedV2(chain, {}, options);

const balanceOf = ({ requirements }: Payment): Promise<bigint> => {
  return chain.balanceOf(requirements.payTo as `0x${string}`);
};

/** A seller of the official package that settles before it works. */
async function officialServer(): Promise<x402ResourceServer> {
  const server = new x402ResourceServer(client).register("eip155:84532", new ExactEvmScheme());
  await server.initialize();
  return server;
}

describe("the official client", () => {
  test("reads what is supported, of both versions", async () => {
    expect(await client.getSupported()).toEqual({
      kinds: [
        { x402Version: 1, scheme: "exact", network: "base-sepolia" },
        { x402Version: 2, scheme: "exact", network: "eip155:84532" },
      ],
      extensions: [],
      signers: { "eip155:*": [at.inner.signer] },
    });
  });

  test("has a payment verified and settled once", async () => {
    const payment = await signed();
    const { paid, wanted, payer } = payment;
    expect(await client.verify(paid, wanted)).toEqual({ isValid: true, payer: payer.address });
    const settled = await client.settle(paid, wanted);
    expect(settled).toEqual({
      success: true,
      transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
      network: "eip155:84532",
      payer: payer.address,
    });
    expect(await balanceOf(payment)).toBe(10_000n);
    expect(await client.settle(paid, wanted)).toMatchObject({
      success: false,
      errorReason: "invalid_transaction_state",
      errorMessage: expect.any(String),
      network: "eip155:84532",
    });
    expect(await balanceOf(payment)).toBe(10_000n);
  });

  test.each([1, 2])(
    "has one settled that was not verified before, in version %i",
    async (version) => {
      const payment = await signed();
      const { paid, wanted, request } = payment;
      const settled =
        version === 2
          ? await client.settle(paid, wanted)
          : (await at.inner.post("/settle", { x402Version: 1, ...request })).body;
      expect(settled).toMatchObject({ success: true });
      expect(await balanceOf(payment)).toBe(10_000n);
    },
  );

  test("settles as version 2 what was settled as version 1 no second time", async () => {
    const payment = await signed();
    const { paid, wanted, request } = payment;
    await at.inner.post("/settle", { x402Version: 1, ...request });
    expect(await client.settle(paid, wanted)).toMatchObject({ success: false });
    expect(await balanceOf(payment)).toBe(10_000n);
  });

  test("is told why a payment of more is refused, which version 1 takes", async () => {
    const payment = await signed({
      funds: 10_001n,
      overrides: { validAfter: "0", value: "10001" },
    });
    const { paid, wanted, request } = payment;
    const code = "invalid_exact_evm_payload_authorization_value_mismatch";
    expect(await client.verify(paid, wanted)).toMatchObject({
      isValid: false,
      invalidReason: code,
    });
    expect(await client.settle(paid, wanted)).toMatchObject({ success: false, errorReason: code });
    const former = await at.inner.post("/settle", { x402Version: 1, ...request });
    expect(former.body).toMatchObject({ success: true });
    expect(await balanceOf(payment)).toBe(10_001n);
  });

  test("is told what cannot be read, and does not throw", async () => {
    const { paid, wanted } = await signed();
    const other = { ...wanted, network: "base-sepolia" as never };
    expect(await client.verify(paid, other)).toMatchObject({
      isValid: false,
      invalidReason: "invalid_network",
    });
    const broken = { ...paid, payload: { signature: "0x" } };
    expect(await client.settle(broken, wanted)).toMatchObject({
      success: false,
      errorReason: "invalid_payload",
      transaction: "",
    });
  });
});

describe("a settlement that was sent, and of which nobody knows when the time is up", () => {
  const RECEIPT = "eth_getTransactionReceipt";

  test("is pending for the official server, which repeats it and then sells: one charge", async () => {
    const server = await officialServer();
    const payment = await signed();
    const { paid, wanted } = payment;
    const silence = at.proxy.inject({ method: RECEIPT, hold: true });
    const answers: unknown[] = [];
    const settle = client.settle.bind(client);
    client.settle = async (...given) => {
      const answer = await settle(...given);
      answers.push(answer);
      silence.lift();
      return answer;
    };
    const sold = await server.settlePayment(paid, wanted);
    expect(answers[0]).toEqual({
      success: false,
      errorReason: "settlement_pending",
      errorMessage: expect.any(String),
      transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
      network: "eip155:84532",
      payer: payment.payer.address,
    });
    expect(answers).toHaveLength(2);
    expect(sold).toMatchObject({ success: true, transaction: Object(answers[0]).transaction });
    expect(await balanceOf(payment)).toBe(10_000n);
    // Whoever shows it once more buys nothing with it.
    expect(await client.settle(paid, wanted)).toMatchObject({ success: false });
  }, 120_000);
});
