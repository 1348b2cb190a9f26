/** Refunds that the gateway sends: each once, whatever kills it, and no more than may be paid back on one day. */
import { createServer, type RequestListener, type Server } from "node:http";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { TAKEN_FOR_MS } from "../../src/ledger/outbox.ts";
import { present, PURSE, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import { startPostgres, type PostgresServer } from "../support/postgres.ts";
import { Site, type Finished, type Served } from "../support/serve.ts";
import { pendingOn } from "../support/stranger.ts";
import {
  SECRET,
  startWebhookReceiver,
  type WebhookReceiver,
} from "../unit/webhooks/webhook-receiver.ts";
import { runHere } from "./cli/run-here.ts";

/** Gateways are processes that are started and ended several times, on a machine that may be busy. */
vi.setConfig({ testTimeout: 240_000 });

const ETHER = 10n ** 18n;
const PRICE = 10_000n;
/** What the key for refunds has: a dollar. */
const FLOAT = 1_000_000n;
/** What one that was killed had taken is nobody else's before {@link TAKEN_FOR_MS}. */
const POLL = { timeout: 40_000 + TAKEN_FOR_MS };
/** Several rounds of those who look what is to be paid back, milliseconds. */
const NOT_FINAL_MS = 3_000;

let chain: Chain;
let postgres: PostgresServer;
let backend: Server;
let backendUrl: string;
let handler: RequestListener;

const fine: RequestListener = (_request, response) => void response.end("fine");
const broken: RequestListener = (_request, response) => void response.writeHead(503).end("later");

beforeAll(async () => {
  [chain, postgres] = await Promise.all([startChain(), startPostgres()]);
  backend = createServer((request, response) => handler(request, response));
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  backendUrl = `http://127.0.0.1:${port}`;
});

afterAll(async () => {
  await Promise.all([chain.stop(), postgres.stop(), drain(backend, AbortSignal.timeout(1_000))]);
});

beforeEach(() => {
  handler = broken;
});

afterEach(async () => {
  await chain.rpc("evm_setAutomine", [true]);
  await chain.mine();
});

/** A gateway with keys of its own, whose balances are nobody else's. */
class Shop implements AsyncDisposable {
  readonly signer = freshAccount();
  readonly refunder = freshAccount();
  readonly payee = freshAccount().address;
  readonly site: Site;
  readonly #webhooks: string;

  private constructor(site: Site, webhooks: string) {
    this.site = site;
    this.#webhooks = webhooks;
  }

  /** @param webhook where all that happens is told */
  static async open(
    store: Store,
    rules = "maxPerDay: $100",
    workers = 1,
    webhook?: string,
  ): Promise<Shop> {
    const options = store === "SQLite" ? {} : { store: await postgres.database() };
    const told = `webhooks: { shop: { url: "${webhook}", secrets: env:WEBHOOK_SECRET } }`;
    const shop = new Shop(await Site.create(options), webhook === undefined ? "" : told);
    await chain.fund(shop.signer.address, 0n, ETHER);
    await chain.fund(shop.refunder.address, FLOAT);
    await shop.list("# nobody");
    await shop.write(rules, workers);
    return shop;
  }

  /** Who may not pay. */
  list(entry: string): Promise<void> {
    return writeFile(join(this.site.folder, "denied.txt"), `${entry}\n`);
  }

  async write(rules: string, workers = 1, network = "base-sepolia"): Promise<void> {
    await this.site.write(`
upstream: ${backendUrl}
payTo: "${this.payee}"
accept: [${network}]
facilitator:
  embedded:
    networks:
      ${network}: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
refunds: { signer: { evm: env:REFUNDER }, ${rules} }
payers: { deny: denied.txt }
unmatched: deny
shutdown: 1s
workers: ${workers}
routes:
  GET /weather: { price: $0.01, description: Weather }
${this.#webhooks}
`);
  }

  get env(): Readonly<Record<string, string>> {
    const keys = { SIGNER: this.signer.privateKey, REFUNDER: this.refunder.privateKey };
    return { ...keys, WEBHOOK_SECRET: SECRET };
  }

  async start(): Promise<Served> {
    const served = await this.site.launch(this.env);
    await served.untilReady();
    return served;
  }

  payments(...options: readonly string[]): Promise<Finished> {
    return runHere(["payments", this.site.file, ...options], this.env);
  }

  async listed(...options: readonly string[]): Promise<readonly Record<string, never>[]> {
    const { stdout } = await this.payments(...options, "--json");
    return Object(JSON.parse(stdout)).payments;
  }

  /** What the ledger tells of one payment. */
  async shown(key: string): Promise<Record<string, never>> {
    return JSON.parse((await this.payments("--show", key, "--json")).stdout);
  }

  async books(): Promise<readonly Line[]> {
    const { stdout } = await runHere(["books", this.site.file, "--format", "json"], this.env);
    return Object(JSON.parse(stdout)).lines;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.site[Symbol.asyncDispose]();
  }
}

type Store = "SQLite" | "PostgreSQL";

interface Line {
  readonly account: string;
  readonly debitAtomic: string;
  readonly creditAtomic: string;
}

function sum(lines: readonly Line[], name: string, side: "debitAtomic" | "creditAtomic"): bigint {
  const named = lines.filter(({ account }) => account === name);
  return named.reduce((total, line) => total + BigInt(line[side]), 0n);
}

/** What is sold is paid back once no reorganization can be expected to undo it: after 30 blocks. */
const makeFinal = () => chain.mine(30);

/** A payment that each attempt to deliver has failed for. */
async function undelivered(
  shop: Shop,
  { url }: Served,
  buyer?: FreshAccount,
): Promise<{ readonly buyer: FreshAccount; readonly header: string; readonly key: string }> {
  const payer = buyer ?? (await richBuyer(chain));
  const header = await sign(payer, `${url}/weather`);
  for (const _attempt of [1, 2, 3]) {
    expect((await present(`${url}/weather`, header)).status).toBe(503);
  }
  await makeFinal();
  const [payment] = await shop.listed("--payer", payer.address);
  return { buyer: payer, header, key: String(payment?.["key"]) };
}

describe.each(["SQLite", "PostgreSQL"] as const)("on %s", (store) => {
  test("a refund is sent once, and the books are what the chain says", async () => {
    await using shop = await Shop.open(store);
    const served = await shop.start();
    const { buyer, header, key } = await undelivered(shop, served);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
    const asked = await shop.payments("--resolve", key, "--refund", "--note", "sorry");
    expect(asked).toMatchObject({ code: 0, stderr: "" });
    expect(asked.stdout).toMatch(/^to be refunded: a running gateway sends it/);
    await expect.poll(() => chain.balanceOf(buyer.address), POLL).toBe(PURSE);
    await expect
      .poll(async () => (await shop.shown(key))["refund"], POLL)
      .toMatchObject({ state: "REFUNDED", transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/) });
    handler = fine;
    expect(await present(`${served.url}/weather`, header)).toMatchObject({
      status: 402,
      error: "invalid_transaction_state: this payment was refunded by the seller; sign a new one",
    });
    for (const [verb, reason] of [
      ["--refund", "paid back already"],
      ["--deliver", "paid back already"],
    ] as const) {
      expect(await shop.payments("--resolve", key, verb)).toMatchObject({
        code: 1,
        stderr: `not resolved: it is ${reason}\n`,
      });
    }
    expect((await shop.payments("--undelivered")).stdout).toBe("no payments\n");

    const spent = async () =>
      ETHER - BigInt(String(await chain.rpc("eth_getBalance", [shop.signer.address, "latest"])));
    await expect
      .poll(async () => sum(await shop.books(), "gas wallets", "creditAtomic"), POLL)
      .toBe(await spent());
    const lines = await shop.books();
    expect(sum(lines, "refund gas", "debitAtomic")).toBeGreaterThan(0n);
    expect(sum(lines, "payees", "debitAtomic")).toBe(await chain.balanceOf(shop.payee));
    expect(sum(lines, "refunds", "debitAtomic")).toBe(PRICE);
    expect(sum(lines, "refund wallets", "creditAtomic")).toBe(
      FLOAT - (await chain.balanceOf(shop.refunder.address)),
    );
    expect(sum(lines, "settled for others", "debitAtomic")).toBe(0n);
    expect(await served.end("SIGTERM")).toBe(0);
  });

  test("it is never sent twice, whenever the gateway is killed", async () => {
    await using shop = await Shop.open(store);
    let served = await shop.start();
    const sold = [];
    for (let count = 0; count < 3; count += 1) sold.push(await undelivered(shop, served));
    await chain.rpc("evm_setAutomine", [false]);
    for (const { key } of sold) {
      expect(await shop.payments("--resolve", key, "--refund")).toMatchObject({ code: 0 });
    }
    // Sent, and not yet in a block: the node forgets it, too.
    await expect.poll(() => pendingOn(chain), POLL).toBeGreaterThan(0);
    await served.end("SIGKILL");
    await chain.rpc("anvil_dropAllTransactions");
    await chain.rpc("evm_setAutomine", [true]);
    for (const afterMs of [0, 40, 150, 400]) {
      served = await shop.start();
      await pause(afterMs);
      await served.end("SIGKILL");
    }
    served = await shop.start();
    for (const { buyer } of sold) {
      await expect.poll(() => chain.balanceOf(buyer.address), POLL).toBe(PURSE);
    }
    for (const { key } of sold) {
      await expect
        .poll(async () => (await shop.shown(key))["refund"], POLL)
        .toMatchObject({ state: "REFUNDED" });
    }
    expect(await chain.balanceOf(shop.refunder.address)).toBe(FLOAT - 3n * PRICE);
    expect(sum(await shop.books(), "refund wallets", "creditAtomic")).toBe(3n * PRICE);
    expect(await served.end("SIGTERM")).toBe(0);
  });

  test("by itself after the last failed delivery, up to what may be paid back on one day", async () => {
    await using shop = await Shop.open(store, "maxPerDay: $0.015, automatic: true");
    const served = await shop.start();
    const first = await undelivered(shop, served);
    await expect.poll(() => chain.balanceOf(first.buyer.address), POLL).toBe(PURSE);
    const second = await undelivered(shop, served);
    await expect
      .poll(async () => (await shop.shown(second.key))["refund"], POLL)
      .toMatchObject({ state: "FAILED", detail: expect.stringContaining("refunds.maxPerDay") });
    expect(await chain.balanceOf(second.buyer.address)).toBe(PURSE - PRICE);
    expect(await chain.balanceOf(shop.refunder.address)).toBe(FLOAT - PRICE);
    const { stdout } = await shop.payments("--show", second.key);
    expect(stdout).toContain(`--resolve ${second.key}`);
    const byHand = ["--resolve", second.key, "--refund", "--by-hand"];
    expect(await shop.payments(...byHand)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining("marked as paid back"),
    });
    expect(sum(await shop.books(), "refunds", "debitAtomic")).toBe(2n * PRICE);
    expect(await served.end("SIGTERM")).toBe(0);
  });
});

/** What became of one payment, as a receiver that has taken each message at least once knows it. */
function toldOf({ received }: WebhookReceiver, key: string): readonly string[] {
  const ofIt = received.flatMap((each, at) => (each.data["payment"] === key ? [{ each, at }] : []));
  const taken = new Map<string, { readonly type: string; readonly at: number }>();
  for (const { each, at } of ofIt) {
    if (each.status === 204 && !taken.has(each.id)) taken.set(each.id, { type: each.type, at });
  }
  // Not even an attempt of one is made before the one before it was taken.
  const ids = [...new Set(ofIt.map(({ each }) => each.id))];
  for (const [index, id] of ids.entries()) {
    const begun = ofIt.find(({ each }) => each.id === id)?.at ?? 0;
    const before = ids[index - 1];
    if (before !== undefined) expect(taken.get(before)?.at ?? Infinity).toBeLessThan(begun);
  }
  return ids.map((id) => taken.get(id)?.type ?? "not taken");
}

test.each(["SQLite", "PostgreSQL"] as const)(
  "webhooks come at least once and in order, under kill -9 and to who fails half the time: %s",
  async (store) => {
    let calls = 0;
    // Of each two attempts one fails, in no order that fits the messages.
    const fails = (): boolean => [true, false, false, true, true, false][(calls += 1) % 6] === true;
    await using receiver = await startWebhookReceiver(() => (fails() ? 503 : 204));
    const rules = "maxPerDay: $100, automatic: true";
    await using shop = await Shop.open(store, rules, store === "SQLite" ? 2 : 1, receiver.url);
    let served = await shop.start();
    const sales: { readonly key: string; readonly header: string }[] = [];
    for (const afterMs of store === "SQLite" ? [0, 60] : [0, 60, 250]) {
      sales.push(await undelivered(shop, served));
      await pause(afterMs);
      await served.end("SIGKILL");
      served = await shop.start();
    }
    // An attempt that the crash has undone is made again: it was told of only if it was stored.
    for (const { header } of sales) await present(`${served.url}/weather`, header);
    const refunded = [
      "payment.sold",
      ...Array.from({ length: 3 }, () => "payment.undelivered"),
      "payment.refunded",
    ];
    for (const { key } of sales) {
      await expect.poll(() => toldOf(receiver, key), POLL).toEqual(refunded);
    }
    const [sold] = receiver.received;
    expect(sold?.data).toMatchObject({
      network: "base-sepolia",
      payTo: shop.payee,
      amount: "0.01",
      amountAtomic: "10000",
      symbol: "USDC",
      decimals: 6,
      route: "GET /weather",
      transaction: expect.stringMatching(/^0x[0-9a-f]{64}$/),
    });

    // Told again when it is asked for, under the same id; what was not taken is said.
    const { length } = receiver.received;
    const webhooks = (...words: readonly string[]): Promise<Finished> =>
      runHere(["webhooks", shop.site.file, ...words], shop.env);
    expect((await webhooks()).stdout).toBe("nothing waits, and nothing was given up\n");
    expect((await webhooks("--replay", "--failed")).stdout).toBe("0 messages are sent again\n");
    const id = sold?.id ?? "";
    expect(await webhooks("--replay", "--id", id)).toMatchObject({
      code: 0,
      stdout: "1 message is sent again\n",
    });
    await expect
      .poll(() => receiver.received.slice(length).map((each) => each.id), POLL)
      .toContain(id);
    const listed = await webhooks("--all", "--json");
    expect(JSON.parse(listed.stdout).messages).toHaveLength(5 * sales.length);
    expect(listed.stdout).toContain(id);
    calls = 0;
    expect(await webhooks("--test")).toMatchObject({ code: 0 });
    expect(receiver.received.at(-1)).toMatchObject({
      type: "coinslot.test",
      data: { receiver: "shop" },
    });
    expect(await served.end("SIGTERM")).toBe(0);
  },
);

test("by itself on a network that a reload has added", async () => {
  const rules = "maxPerDay: $100, automatic: true";
  await using shop = await Shop.open("SQLite");
  // Which is another chain than the one that answers.
  await shop.write(rules, 1, "avalanche-fuji");
  const served = await shop.site.launch(shop.env);
  await served.untilReady(503);
  await shop.write(rules);
  await expect
    .poll(async () => (await fetch(`${served.adminUrl}/-/reload`, { method: "POST" })).status, POLL)
    .toBe(200);
  await served.untilReady();
  const { buyer } = await undelivered(shop, served);
  await expect.poll(() => chain.balanceOf(buyer.address), POLL).toBe(PURSE);
  expect(await served.end("SIGTERM")).toBe(0);
});

test("a payer whom the token has blocked gets nothing, and that is shown", async () => {
  await using shop = await Shop.open("SQLite");
  const served = await shop.start();
  const { buyer, key } = await undelivered(shop, served);
  await chain.setBlacklisted(buyer.address, true);
  expect(await shop.payments("--resolve", key, "--refund")).toMatchObject({ code: 0 });
  await expect
    .poll(async () => (await shop.shown(key))["refund"], POLL)
    .toMatchObject({ state: "SENDING", detail: expect.stringMatching(/blacklist/i) });
  // What is on its way cannot be decided otherwise.
  for (const verb of [["--refund"], ["--refund", "--by-hand"], ["--deliver"], ["--goods"]]) {
    expect(await shop.payments("--resolve", key, ...verb)).toMatchObject({
      code: 1,
      stderr: "not resolved: it is being refunded\n",
    });
  }
  expect(await chain.balanceOf(shop.refunder.address)).toBe(FLOAT);
  await chain.setBlacklisted(buyer.address, false);
  // The same transfer, while it counts.
  await expect.poll(() => chain.balanceOf(buyer.address), POLL).toBe(PURSE);
  expect(await served.end("SIGTERM")).toBe(0);
});

test("a payer who is on a list by now gets nothing, and that is shown", async () => {
  await using shop = await Shop.open("SQLite");
  const served = await shop.start();
  const { buyer, key } = await undelivered(shop, served);
  const reload = async (entry: string) => {
    await shop.list(entry);
    expect((await fetch(`${served.adminUrl}/-/reload`, { method: "POST" })).status).toBe(200);
  };
  await reload(buyer.address);
  expect(await shop.payments("--resolve", key, "--refund")).toMatchObject({ code: 0 });
  await expect
    .poll(async () => (await shop.shown(key))["refund"], POLL)
    .toMatchObject({ state: "FAILED", detail: expect.stringContaining("payers.deny") });
  expect(await chain.balanceOf(shop.refunder.address)).toBe(FLOAT);
  await reload("# nobody any more");
  expect(await shop.payments("--resolve", key, "--refund")).toMatchObject({ code: 0 });
  await expect.poll(() => chain.balanceOf(buyer.address), POLL).toBe(PURSE);
  expect(await served.end("SIGTERM")).toBe(0);
});

test("a receipt of each version leads to what becomes of its payment, behind workers as well", async () => {
  await using shop = await Shop.open("SQLite", "maxPerDay: $100", 2);
  const served = await shop.start();
  const weather = `${served.url}/weather`;
  const payer = await richBuyer(chain);
  const header = await sign(payer, weather);
  handler = fine;
  const bought = await fetch(weather, { headers: { "X-PAYMENT": header } });
  expect(bought.status).toBe(200);
  const link = /<([^>]*\/\.well-known\/x402\/payments\/[^>]*)>; rel="status"/;
  const url = link.exec(bought.headers.get("link") ?? "")?.[1] ?? "";
  const told = async (asked = url) => {
    const answer = await fetch(asked);
    expect(answer.headers.get("cache-control")).toBe("no-store");
    return { status: answer.status, body: await answer.json() };
  };
  const transaction = expect.stringMatching(/^0x[0-9a-f]{64}$/);
  const paid = { network: "base-sepolia", asset: chain.asset, amount: "10000", transaction };
  const body = { ...paid, state: "delivered", refundTransaction: null };
  // It is stored behind the answer.
  await expect.poll(() => told(), POLL).toEqual({ status: 200, body });
  // Of nobody who was told none, and of no other payment.
  const end = url.slice(-4);
  for (const wrong of [
    `${url.slice(0, -4)}${end === "AAAA" ? "BBBB" : "AAAA"}`,
    `${url}.`,
    `${served.url}/.well-known/x402/payments/x`,
  ]) {
    expect(await told(wrong)).toMatchObject({ status: 404 });
  }
  expect((await fetch(url, { method: "POST" })).status).toBe(405);

  const key = String((await shop.listed("--payer", payer.address))[0]?.["key"]);
  expect(await shop.payments("--resolve", key, "--refund")).toMatchObject({ code: 0 });
  expect(await told()).toMatchObject({ body: { state: "refunding" } });
  await pause(NOT_FINAL_MS);
  expect(await chain.balanceOf(payer.address)).toBe(PURSE - PRICE);
  await makeFinal();
  await expect
    .poll(async () => (await told()).body, POLL)
    .toMatchObject({ state: "refunded", transaction, refundTransaction: transaction });
  expect(await chain.balanceOf(payer.address)).toBe(PURSE);

  const second = await sign(await richBuyer(chain), weather, { version: 2 });
  const answer = await fetch(weather, { headers: { "PAYMENT-SIGNATURE": second } });
  const receipt = decodeReceipt(answer.headers.get("payment-response") ?? "");
  const named = Object(receipt)["extensions"]?.["payment-status"]?.info.url;
  expect(answer.headers.get("link")).toContain(`<${named}>; rel="status"`);
  await expect.poll(() => told(named), POLL).toMatchObject({ body: { state: "delivered" } });
  expect(await served.end("SIGTERM")).toBe(0);
});

function decodeReceipt(text: string): unknown {
  return JSON.parse(Buffer.from(text, "base64").toString());
}

test("an answer that is taken for the goods is delivered", async () => {
  await using shop = await Shop.open("SQLite");
  const served = await shop.start();
  handler = (_request, response) => void response.writeHead(404).end("no such city");
  const header = await sign(await richBuyer(chain), `${served.url}/weather`);
  expect((await present(`${served.url}/weather`, header)).status).toBe(404);
  // An attempt that has failed is stored a moment after its answer.
  await expect.poll(() => shop.listed("--undelivered"), POLL).toHaveLength(1);
  const [payment] = await shop.listed("--undelivered");
  const key = String(payment?.["key"]);
  expect(await shop.payments("--resolve", key, "--goods")).toMatchObject({ code: 0, stderr: "" });
  expect(await shop.listed("--undelivered")).toEqual([]);
  expect((await shop.shown(key))["state"]).toBe("DELIVERED");
  expect(await served.end("SIGTERM")).toBe(0);
});
