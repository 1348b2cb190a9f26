/** One transfer to a payee whom several gateways sell for, each with a ledger of its own: it buys one thing. */
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { present, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type GatewaySetup, type RunningGateway } from "../support/gateway.ts";
import { freshAccount } from "../support/payer.ts";
import { overtake, pendingOn } from "../support/stranger.ts";

const PRICE = 10_000n;
const PATH = "/weather?city=Oslo";
const NOT_OURS =
  /^unexpected_settle_error: paid to the seller in a transaction that is not ours, 0x/;

let chain: Chain;

beforeAll(async () => {
  chain = await startChain();
});

afterAll(() => chain.stop());
afterEach(() => chain.rpc("evm_setAutomine", [true]));

async function open(
  count: number,
  closing: AsyncDisposableStack,
  setup: Partial<GatewaySetup> = {},
): Promise<readonly RunningGateway[]> {
  const payee = freshAccount().address;
  const started = Array.from({ length: count }, () => startGateway({ chain, payee, ...setup }));
  return (await Promise.all(started)).map((gateway) => closing.use(gateway));
}

const gauge = async ({ adminUrl }: RunningGateway, name: string): Promise<string | undefined> => {
  const text = await (await fetch(`${adminUrl}/metrics`)).text();
  return text
    .split("\n")
    .find((line) => line.startsWith(`${name} `))
    ?.split(" ")[1];
};

const byNumber = (left: number, right: number): number => left - right;

const sold = (gateways: readonly RunningGateway[]): number =>
  gateways.reduce((sum, { upstream }) => sum + upstream.length, 0);

test("three gateways sell once for it, and hold what they did not settle", async () => {
  await using closing = new AsyncDisposableStack();
  const gateways = await open(3, closing);
  const [first] = gateways;
  if (first === undefined) throw new Error("no gateway");
  const header = await sign(await richBuyer(chain), first.url + PATH);
  await chain.rpc("evm_setAutomine", [false]);
  const answers = gateways.map(({ url }) => present(url + PATH, header));
  await expect.poll(() => pendingOn(chain), { timeout: 20_000 }).toBe(3);
  await chain.rpc("evm_setAutomine", [true]);
  await chain.mine();
  const got = await Promise.all(answers);
  expect(got.map(({ status }) => status).toSorted(byNumber)).toEqual([200, 500, 500]);
  expect(sold(gateways)).toBe(1);
  expect(await chain.balanceOf(first.payee)).toBe(PRICE);
  for (const [index, { status, error }] of got.entries()) {
    const gateway = gateways[index];
    if (status === 200 || gateway === undefined) continue;
    expect(error).toMatch(NOT_OURS);
    // Again, and for something else: no 402, which would ask for more money.
    const again = await present(gateway.url + PATH, header);
    expect(again).toMatchObject({ status: 500, error });
    const elsewhere = await present(`${gateway.url}/reports/7`, header);
    expect(elsewhere).toMatchObject({ status: 500, error });
    await expect
      .poll(() => gauge(gateway, "coinslot_payments_held"), { timeout: 20_000 })
      .toBe("1");
  }
  expect(sold(gateways)).toBe(1);
}, 60_000);

/** A payment that a stranger puts on chain after it was signed here and before it is in a block. */
async function overtaken(gateway: RunningGateway) {
  const buyer = await richBuyer(chain);
  const header = await sign(buyer, gateway.url + PATH);
  await chain.rpc("evm_setAutomine", [false]);
  const answer = present(gateway.url + PATH, header);
  await expect.poll(() => pendingOn(chain), { timeout: 20_000 }).toBe(1);
  const transaction = await overtake(chain, header);
  return { buyer, answer, transaction };
}

describe("a payment that a stranger has put on chain", () => {
  test("is held, and names the transaction", async () => {
    await using closing = new AsyncDisposableStack();
    const [gateway] = await open(1, closing);
    if (gateway === undefined) throw new Error("no gateway");
    const { buyer, answer, transaction } = await overtaken(gateway);
    const { status, error } = await answer;
    expect({ status, error }).toEqual({ status: 500, error: expect.stringContaining(transaction) });
    // Who signs anew for the same is told the same, and not charged again.
    const anew = await present(gateway.url + PATH, await sign(buyer, gateway.url + PATH));
    expect(anew).toMatchObject({ status: 500, error });
    expect(sold([gateway])).toBe(0);
    expect(await chain.balanceOf(gateway.payee)).toBe(PRICE);
  }, 60_000);

  test("is delivered where that is configured", async () => {
    await using closing = new AsyncDisposableStack();
    const facilitator = `
  foreign: deliver
  listen: 127.0.0.1:0
  embedded:
    networks:
      ${chain.network.name}: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
`;
    const [gateway] = await open(1, closing, { facilitator });
    if (gateway === undefined) throw new Error("no gateway");
    const { answer, transaction } = await overtaken(gateway);
    expect(await answer).toMatchObject({ status: 200, receipt: { transaction } });
    expect(sold([gateway])).toBe(1);
  }, 60_000);
});

describe("through one facilitator of ours, which keeps one ledger", () => {
  test.each(["facilitator", "receipt"])(
    "two gateways sell once for each transfer (%s)",
    async (confirm) => {
      await using closing = new AsyncDisposableStack();
      const [hub] = await open(1, closing);
      if (hub === undefined) throw new Error("no hub");
      const told = Object(await (await fetch(`${hub.facilitatorUrl}/supported`)).json());
      expect(told).toMatchObject({
        signers: { "eip155:*": [hub.signer] },
        finalRefusals: [chain.network.name],
      });
      const facilitator = `
  remote: [{ url: "${hub.facilitatorUrl}", confirm: ${confirm} }]
  rpc: { ${chain.network.name}: ["${chain.rpcUrl}"] }
`;
      const payee = hub.payee;
      const sellers = await open(2, closing, { facilitator, payee });
      const [one] = sellers;
      if (one === undefined) throw new Error("no seller");
      for (let round = 0; round < 6; round += 1) {
        const header = await sign(await richBuyer(chain), one.url + PATH);
        const answers = await Promise.all(sellers.map(({ url }) => present(url + PATH, header)));
        expect(answers.map(({ status }) => status).toSorted(byNumber)).toEqual([200, 402]);
        const refused = answers.find(({ status }) => status === 402);
        expect(refused?.error).toMatch(/used before/);
      }
      expect(sold(sellers)).toBe(6);
      expect(await chain.balanceOf(hub.payee)).toBe(6n * PRICE);
    },
    60_000,
  );
});
