/**
 * One authorization in both envelopes, at two replicas with two workers each on one ledger: one charge and one request
 * to the backend, and nothing for whoever has read the payment on the chain.
 */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { encodeHeaderJson } from "../../../src/x402/header.ts";
import { paymentV2 } from "../../../src/x402/version-2.ts";
import type { PaymentPayload, PaymentRequirements } from "../../../src/x402/x402.ts";
import { paymentsIn, THIEF_ADDRESS } from "../../chaos/thief.ts";
import { quote, richBuyer } from "../../support/buyer.ts";
import { signPayment } from "../../support/payer.ts";
import { startPostgres } from "../../support/postgres.ts";
import { Site, type Served } from "../../support/serve.ts";
import { PRICE, SOLANA_ENV, SolanaStage } from "../../support/solana-stage.ts";
import { Connection, startBackend, startSeller, workerOf, type Backend } from "./stage.ts";

// Eight processes start first, on a machine that may have much else to do.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

/** Larger than an answer that is kept: whoever presents the payment again gets nothing. */
const LARGE = "x".repeat(70_000);
const LITTLE = "it will rain";
const COPIES = 50;
/** How long a replica may take to be ready, milliseconds. */
const START_MS = 60_000;

const ROUTES = `  GET /large: { price: $0.01, description: Much, repeat: none }
  GET /little: { price: $0.01, description: Not much }
  GET /who/*: free
`;

interface Market {
  readonly env: Readonly<Record<string, string>>;
  yaml(backend: Backend): string;
  /** A payment that nobody has shown as yet. */
  pay(requirements: PaymentRequirements): Promise<PaymentPayload>;
  /** What stands of the newest payment on the chain, as everybody can read it. */
  seen(): Promise<PaymentPayload>;
  /** Atomic units that the payee got so far. */
  paid(): Promise<bigint>;
}

async function openEvm(closing: AsyncDisposableStack): Promise<Market> {
  const seller = await startSeller();
  const { chain, env, payee } = seller;
  closing.use(chain);
  return {
    env,
    yaml: (backend) => seller.yaml(backend, ROUTES),
    async pay(requirements) {
      const { account } = await richBuyer(chain);
      return signPayment({ account, requirements });
    },
    async seen() {
      const block = await chain.rpc("eth_getBlockByNumber", ["latest", true]);
      const [{ input }] = Object(block).transactions;
      const [stolen] = paymentsIn(input, chain);
      if (stolen === undefined) throw new Error("nothing was paid");
      return stolen.paymentPayload;
    },
    paid: () => chain.balanceOf(payee.address),
  };
}

async function openSolana(closing: AsyncDisposableStack): Promise<Market> {
  const stage = closing.use(await SolanaStage.open());
  const payment = (transaction: string): PaymentPayload => {
    return { x402Version: 1, scheme: "exact", network: "solana-devnet", payload: { transaction } };
  };
  return {
    env: SOLANA_ENV,
    yaml: ({ url }) =>
      stage.yaml(stage.embedded, {
        upstreamUrl: url,
        routes: ROUTES,
        more: "workers: 2\nlogging: { level: debug }",
      }),
    pay: async (requirements) => payment(stage.pay(requirements)),
    seen: async () => payment(stage.node.sent.at(-1) ?? ""),
    paid: async () => (await stage.moved()).paid,
  };
}

/** The headers that show a payment in each envelope: first that of version 1. */
function inBoth(paymentPayload: PaymentPayload, paymentRequirements: PaymentRequirements) {
  const envelope = paymentV2({ paymentPayload, paymentRequirements });
  return [
    { "X-PAYMENT": encodeHeaderJson(paymentPayload) },
    { "PAYMENT-SIGNATURE": encodeHeaderJson(envelope) },
  ] as const;
}

/** So many connections, of each replica as many, and of each of its workers some. */
async function connect(
  replicas: readonly Served[],
  closes: AsyncDisposableStack,
  from?: string,
): Promise<readonly Connection[]> {
  const all = Array.from({ length: COPIES }, (_, index) => {
    const served = replicas[index % replicas.length] as Served;
    return { served, connection: closes.use(new Connection(served.url, from)) };
  });
  const taken = await Promise.all(
    all.map(async (each) => `${each.served.url} ${await workerOf(each.served, each.connection)}`),
  );
  expect(new Set(taken).size).toBe(replicas.length * 2);
  return all.map(({ connection }) => connection);
}

/** Shows one payment on all connections at once: in turn by pairs, so that each replica is shown both envelopes. */
function show(
  path: string,
  headers: ReturnType<typeof inBoth>,
  connections: readonly Connection[],
) {
  return connections.map((each, index) => each.get(path, headers[(index >> 1) % 2]));
}

describe.each([
  ["EVM", openEvm],
  ["Solana", openSolana],
])("a payment on %s, at two workers of two replicas", (_, open) => {
  const closing = new AsyncDisposableStack();
  const asked = Promise.withResolvers<void>();
  const delivery = Promise.withResolvers<void>();
  let market: Market;
  let backend: Backend;
  let replicas: readonly [Served, Served];

  beforeAll(async () => {
    const { url: store } = closing.use(await startPostgres());
    market = await open(closing);
    backend = closing.use(
      await startBackend(async ({ url }, response) => {
        if (url === "/large") return void response.end(LARGE);
        if (url === "/little") {
          asked.resolve();
          await delivery.promise;
        }
        response.end(LITTLE);
      }),
    );
    const one = closing.use(await Site.create({ store }));
    const publicUrl = `http://127.0.0.1:${one.port}`;
    const other = closing.use(await Site.create({ store, publicUrl }));
    const serve = async (site: Site): Promise<Served> => {
      const served = await site.serve(market.yaml(backend), market.env);
      await served.untilReady(200, START_MS);
      return served;
    };
    // One after the other: the first makes the tables.
    replicas = [await serve(one), await serve(other)];
  });

  afterAll(() => closing.disposeAsync());

  it("is one in both envelopes, shown 50 times at once", async () => {
    await using closes = new AsyncDisposableStack();
    const requirements = await quote(`${replicas[0].url}/large`);
    const headers = inBoth(await market.pay(requirements), requirements);
    const connections = await connect(replicas, closes);
    const paidBefore = await market.paid();
    const answers = await Promise.all(show("/large", headers, connections));
    const statuses = answers.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(1);
    expect(statuses.filter((status) => status === 402 || status === 500)).toHaveLength(COPIES - 1);
    expect(backend.seen.filter((path) => path === "/large")).toEqual(["/large"]);
    expect((await market.paid()) - paidBefore).toBe(PRICE);
  });

  it("buys nothing for a thief, in either envelope, before it is delivered and after", async () => {
    await using closes = new AsyncDisposableStack();
    const requirements = await quote(`${replicas[0].url}/little`);
    const [v1, v2] = inBoth(await market.pay(requirements), requirements);
    const thieves = await connect(replicas, closes, THIEF_ADDRESS);
    const paidBefore = await market.paid();
    using mine = new Connection(replicas[0].url);
    using mineElsewhere = new Connection(replicas[1].url);
    const bought = mine.get("/little", v1);
    await asked.promise;
    const stolen = inBoth(await market.seen(), requirements);
    const before = show("/little", stolen, thieves);
    // Some of them wait for the end of the delivery; the others are more than may.
    await Promise.race(before);
    delivery.resolve();
    expect(await bought).toMatchObject({ status: 200, text: LITTLE });
    const loot = await Promise.all(before);
    loot.push(...(await Promise.all(show("/little", stolen, thieves))));
    for (const { status, text } of loot) {
      expect([402, 500]).toContain(status);
      expect(text).not.toContain(LITTLE);
    }
    // It is the buyer's still, in the other envelope on the other replica.
    expect(await mineElsewhere.get("/little", v2)).toMatchObject({ status: 200, text: LITTLE });
    expect(backend.seen.filter((path) => path === "/little")).toEqual(["/little"]);
    expect((await market.paid()) - paidBefore).toBe(PRICE);
  });
});
