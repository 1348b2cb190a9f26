/** Purchases on Solana: settled in the gateway's own process, and by a facilitator elsewhere. */
import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { start, type Running } from "../../src/app.ts";
import { decodeBase58, encodeBase58 } from "../../src/x402/solana-address.ts";
import { challengeOf, showSignIn, signChallenge } from "../support/sign-in.ts";
import { testKey } from "../support/solana-messages.ts";
import { secretOf } from "../support/solana-requests.ts";
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

  // To its payer's signature, and to nobody else's.
  for (const [key, status] of [[BUYER, 200] as const, [testKey(9), 402] as const]) {
    const signMessage = async (message: Uint8Array) => key.sign(message);
    const signing = { publicKey: key.address, signMessage };
    const header = await signChallenge(await challengeOf(weather), signing);
    expect(await showSignIn(weather, header)).toMatchObject({ status });
    const asBuyer = await signChallenge(await challengeOf(weather), signing, (told) => {
      return { ...told, address: BUYER.address };
    });
    expect(await showSignIn(weather, asBuyer)).toMatchObject({ status });
  }
  expect(await stage.moved()).toEqual(sales(sold));
  expect(stage.served).toBe(Number(sold));
}

describe("several fee payers", () => {
  it("take turns when one runs out of SOL, and a buyer with an older offer is not turned away for good", async () => {
    const [own, other] = [FEE_PAYER, testKey(7)];
    await using alone = await SolanaStage.open();
    const { node } = alone;
    node.fundSol(other.address, 1_000_000_000n);
    const OTHER_KEY = encodeBase58(Buffer.from(secretOf(7), "hex"));
    const facilitator = alone.embedded.replace("env:SOLANA_KEY", "env:SOLANA_KEY, env:OTHER_KEY");
    const own402 = `listen: 127.0.0.1:0\npublicUrl: http://localhost:8402\nstore: sqlite:`;
    const folder = await mkdtemp(join(tmpdir(), "coinslot-solana-"));
    closing.defer(() => rm(folder, { recursive: true, force: true }));
    const text = `${own402}${join(folder, "ledger.db")}\n${alone.yaml(facilitator)}`;
    const running = await start(configOf(text, { ...SOLANA_ENV, OTHER_KEY }), "test");
    closing.defer(() => running.close());
    const weather = `${urlOf(running.addresses.gateway[0])}/weather`;

    const older = await alone.quote(weather);
    expect(older.extra).toEqual({ feePayer: own.address });
    node.setLamports(own.address, 5_000n);
    expect(await alone.present(weather, alone.pay(older))).toMatchObject({ status: 500 });
    expect((await alone.moved()).paid).toBe(0n);

    const newer = await untilNamed(alone, weather, other.address);
    expect(await alone.present(weather, alone.pay(newer))).toMatchObject({ status: 200 });
    expect((await alone.moved()).paid).toBe(PRICE);

    // Filled up again, it settles what names it, whichever is offered now.
    node.setLamports(own.address, 1_000_000_000n);
    expect(await alone.present(weather, alone.pay(older))).toMatchObject({ status: 200 });
    expect((await alone.moved()).paid).toBe(2n * PRICE);
  });
});

/** The offer, once it names that fee payer: a changed one is noticed within a quarter of a second. */
async function untilNamed(at: SolanaStage, weather: string, feePayer: string) {
  for (;;) {
    const offer = await at.quote(weather);
    if (offer.extra?.["feePayer"] === feePayer) return offer;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
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
    expect(error).toContain("payments on solana-devnet are not taken at the moment");
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
