/** Purchases on Solana: settled in the gateway's own process, and by a facilitator elsewhere. */
import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { start, type Running } from "../../src/app.ts";
import { decodeBase58 } from "../../src/x402/solana-address.ts";
import { testKey } from "../support/solana-messages.ts";
import {
  BUYER,
  FEE_PAYER,
  PAYEE,
  PRICE,
  sales,
  SOLANA_ENV,
  SolanaStage,
} from "../support/solana-stage.ts";
import { USDC_DEVNET } from "../support/solana/set-up.ts";
import { configOf } from "../unit/app/config-of.ts";

const closing = new AsyncDisposableStack();
let stage: SolanaStage;
let sold = 0n;

beforeAll(async () => {
  stage = closing.use(await SolanaStage.open());
});

afterAll(() => closing.disposeAsync());

interface Shop {
  readonly weather: string;
  readonly listing: string;
  readonly facilitatorUrl: string;
  readonly running: Running;
}

/** A gateway in this process; `facilitator` is YAML, below that key. */
async function openShop(facilitator: string): Promise<Shop> {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-solana-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const own = `listen: 127.0.0.1:0
publicUrl: http://localhost:8402
store: sqlite:${join(folder, "ledger.db")}
`;
  const running = await start(configOf(own + stage.yaml(facilitator), SOLANA_ENV), "test");
  closing.defer(() => running.close());
  const { gateway, facilitator: endpoints } = running.addresses;
  const url = urlOf(gateway[0]);
  const [weather, listing] = [`${url}/weather`, `${url}/discovery/resources`];
  return { weather, listing, facilitatorUrl: urlOf(endpoints), running };
}

const embeddedShop = () => openShop(`\n  listen: 127.0.0.1:0${stage.embedded}`);

function urlOf(address: AddressInfo | null | undefined): string {
  return `http://127.0.0.1:${address?.port ?? 0}`;
}

async function buyOnce({ weather }: Shop): Promise<void> {
  const asked = await stage.quote(weather);
  expect(asked).toMatchObject({
    scheme: "exact",
    network: "solana-devnet",
    maxAmountRequired: PRICE.toString(),
    asset: USDC_DEVNET,
    payTo: PAYEE.address,
    extra: { feePayer: FEE_PAYER.address },
  });
  const transaction = stage.pay(asked);
  const bought = await stage.present(weather, transaction);
  expect(bought).toMatchObject({
    status: 200,
    text: "sunny",
    receipt: { success: true, network: "solana-devnet", payer: BUYER.address },
  });
  expect(decodeBase58(String(bought.receipt?.["transaction"]), 64)).toBeDefined();
  sold += 1n;
  expect(await stage.moved()).toEqual(sales(sold));
  expect(stage.served).toBe(Number(sold));

  // The kept answer, for nothing; and nobody is charged or served twice.
  expect(await stage.present(weather, transaction)).toMatchObject({ status: 200, text: "sunny" });
  expect(await stage.moved()).toEqual(sales(sold));
  expect(stage.served).toBe(Number(sold));
}

describe("a route that is paid on Solana", () => {
  it("is sold once for a transaction that is settled in this process", async () => {
    const shop = await embeddedShop();
    await buyOnce(shop);
    expect(shop.running.wallets).toMatchObject([
      { network: "solana-devnet", funds: expect.stringMatching(/^has 0\.9\d* SOL|^has 1 SOL/) },
    ]);
  });

  it("is sold for a transaction that a facilitator elsewhere settles, with that one's fee payer", async () => {
    const facilitator = await embeddedShop();
    const shop = await openShop(`\n  remote: ["${facilitator.facilitatorUrl}"]`);
    expect(shop.running.feePayers).toEqual([
      { network: "solana-devnet", address: FEE_PAYER.address },
    ]);
    await buyOnce(shop);
  });

  it("is sold by receipt: what that facilitator claims is looked up on the chain", async () => {
    const facilitator = await embeddedShop();
    const shop = await openShop(`
  remote: [{ url: "${facilitator.facilitatorUrl}", confirm: receipt }]
  rpc: { solana-devnet: ["${stage.node.rpcUrl}"] }`);
    const before = stage.node.count("getTransaction");
    await buyOnce(shop);
    expect(stage.node.count("getTransaction")).toBeGreaterThan(before);
  });

  it("is not for sale, and says so with 503, while its facilitator cannot be asked", async () => {
    const shop = await openShop(`\n  remote: ["http://127.0.0.1:9"]`);
    const response = await fetch(shop.weather);
    expect([response.status, response.headers.get("Retry-After")]).toEqual([503, "2"]);
    const { error } = Object(await response.json());
    expect(error).toContain("who pays the network fee on solana-devnet");
    const listed = await fetch(shop.listing);
    expect(Object(await listed.json()).items).toEqual([]);
  });

  it("refuses a transaction for somebody else's fee payer, and asks for the right one", async () => {
    const { weather } = await embeddedShop();
    const asked = await stage.quote(weather);
    const stranger = { ...asked, extra: { feePayer: testKey(9).address } };
    const { status, text } = await stage.present(weather, stage.pay(stranger));
    expect(status).toBe(402);
    expect(Object(JSON.parse(text)).error).toMatch(/^invalid_payload: /);
    expect(Object(JSON.parse(text)).accepts).toEqual([asked]);
  });
});
