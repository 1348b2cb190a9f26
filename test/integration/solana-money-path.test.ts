/** What becomes of one Solana payment through faults, repeats and crashes: charged once, sold once. */
import { randomBytes } from "node:crypto";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { SolanaStage, sales, SOLANA_ENV } from "../support/solana-stage.ts";
import { startPostgres, type PostgresServer } from "../support/postgres.ts";
import { Site, type Served } from "../support/serve.ts";

/** Gateways are processes, and slots take real time. */
const TIMEOUT_MS = 60_000;
/** Where slot 0 stands in a transaction of two signatures: behind their count. */
const [SLOT_0, SIGNATURE_BYTES] = [1, 64];

const closing = new AsyncDisposableStack();
let stage: SolanaStage;

beforeEach(async () => {
  stage = await SolanaStage.open();
  return () => stage[Symbol.asyncDispose]();
});

afterAll(() => closing.disposeAsync());

async function openShop(site: Site): Promise<{ served: Served; weather: string }> {
  const served = await site.serve(stage.yaml(), SOLANA_ENV);
  await served.untilReady();
  return { served, weather: `${served.url}/weather` };
}

/** The same message with other bytes where our signature goes. */
function varied(transaction: string): string {
  const bytes = Buffer.from(transaction, "base64");
  randomBytes(SIGNATURE_BYTES).copy(bytes, SLOT_0);
  return bytes.toString("base64");
}

describe("one message", { timeout: TIMEOUT_MS }, () => {
  test("settles once, however its slot 0 and its base64 are varied, a thousand times", async () => {
    await using site = await Site.create();
    const { weather } = await openShop(site);
    const transaction = stage.pay(await stage.quote(weather));
    const unpadded = transaction.replace(/=+$/, "");
    const spellings = (one: string): readonly string[] => [
      one,
      one.replaceAll("+", "-").replaceAll("/", "_"),
      unpadded,
      `${one}\n`,
      `${one}====`,
    ];
    const all = Array.from({ length: 1_000 }, (_, index) => {
      const spelled = spellings(index % 2 === 0 ? varied(transaction) : transaction);
      return spelled[index % spelled.length] ?? transaction;
    });
    const statuses = new Map<number, number>();
    for (let first = 0; first < all.length; first += 50) {
      const some = all.slice(first, first + 50);
      const answers = await Promise.all(some.map((each) => stage.present(weather, each)));
      for (const { status } of answers) statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
    expect(await stage.moved()).toEqual(sales(1n));
    expect(stage.served).toBe(1);
    // Sold once and given again from what was kept, at most three times; everybody else is refused.
    expect(statuses.get(200)).toBeGreaterThanOrEqual(1);
    expect(statuses.get(200)).toBeLessThanOrEqual(4);
    expect(stage.node.sent.length).toBeGreaterThan(0);
    expect(new Set(stage.node.sent).size).toBe(1);
  });

  test("succeeds once when it is settled fifty times at once", async () => {
    await using site = await Site.create();
    await using other = await Site.create();
    const settleUrl = `http://127.0.0.1:${other.port}/settle`;
    const facilitator = `\n  listen: 127.0.0.1:${other.port}${stage.embedded}`;
    const served = await site.serve(stage.yaml(facilitator), SOLANA_ENV);
    await served.untilReady();
    const requirements = await stage.quote(`${served.url}/weather`);
    const transaction = stage.pay(requirements);
    const { network } = requirements;
    const body = JSON.stringify({
      x402Version: 1,
      paymentPayload: { x402Version: 1, scheme: "exact", network, payload: { transaction } },
      paymentRequirements: requirements,
    });
    const headers = { "Content-Type": "application/json" };
    const settle = async () =>
      Object(await (await fetch(settleUrl, { method: "POST", headers, body })).json());
    const answers = await Promise.all(Array.from({ length: 50 }, settle));
    const won = answers.filter(({ success }) => success === true);
    expect(won).toHaveLength(1);
    for (const { success, errorReason, transaction: id } of answers) {
      if (success !== true) expect([errorReason, id]).toEqual(["invalid_transaction_state", ""]);
    }
    expect(await stage.moved()).toEqual(sales(1n));
  });
});

describe("a settlement", { timeout: TIMEOUT_MS }, () => {
  test("is sent again when the node loses the transaction", async () => {
    await using site = await Site.create();
    const { weather } = await openShop(site);
    const transaction = stage.pay(await stage.quote(weather));
    const lost = stage.node.inject({ method: "sendTransaction", lose: true, times: 1 });
    expect(await stage.present(weather, transaction)).toMatchObject({ status: 200, text: "sunny" });
    expect(lost.hits).toBe(1);
    expect(stage.node.sent.length).toBeGreaterThan(1);
    expect(new Set(stage.node.sent).size).toBe(1);
    expect(await stage.moved()).toEqual(sales(1n));
  });

  test.each([
    ["a broken connection", { drop: true }],
    ["HTTP 503", { status: 503 }],
    ["nonsense", { status: 200, body: "<html>busy</html>" }],
  ] as const)("counts when the answer to its broadcast is lost: %s", async (_, fault) => {
    await using site = await Site.create();
    const { weather } = await openShop(site);
    const transaction = stage.pay(await stage.quote(weather));
    stage.node.inject({ method: "sendTransaction", at: "answer", times: 2, ...fault });
    expect(await stage.present(weather, transaction)).toMatchObject({ status: 200, text: "sunny" });
    expect(stage.served).toBe(1);
    expect(await stage.moved()).toEqual(sales(1n));
  });

  test("fails for certain soon after the blockhash has expired, and the buyer may sign anew", async () => {
    await using site = await Site.create();
    const { weather } = await openShop(site);
    const asked = await stage.quote(weather);
    const transaction = stage.pay(asked);
    const lost = stage.node.inject({ method: "sendTransaction", lose: true, times: 1_000 });
    const answer = stage.present(weather, transaction);
    await lost.hit();
    stage.node.tick(160);
    const expiredMs = performance.now();
    const { status, text, receipt } = await answer;
    const toldMs = performance.now() - expiredMs;
    expect(status).toBe(402);
    expect(Object(JSON.parse(text)).error).toMatch(/^invalid_transaction_state: .*expired/);
    expect(receipt).toMatchObject({ success: false, transaction: "" });
    // Seconds, where a blockhash alone takes a minute: the bound is far above what it takes.
    expect(toldMs).toBeLessThan(15_000);
    expect(await stage.moved()).toEqual(sales(0n));
    lost.lift();
    expect(await stage.present(weather, stage.pay(asked))).toMatchObject({ status: 200 });
    expect(await stage.moved()).toEqual(sales(1n));
  });

  test("does not fail because of a node that is behind", async () => {
    await using site = await Site.create();
    const { weather } = await openShop(site);
    // So slow that the blockhash outlives the four attempts.
    stage.node.setSlotMs(100);
    const transaction = stage.pay(await stage.quote(weather));
    const lag = stage.node.inject({ method: "isBlockhashValid", lagSlots: 140, times: 1_000 });
    const lost = stage.node.inject({ method: "sendTransaction", lose: true, times: 3 });
    expect(await stage.present(weather, transaction)).toMatchObject({ status: 200, text: "sunny" });
    expect(lost.hits).toBe(3);
    lag.lift();
    expect(await stage.moved()).toEqual(sales(1n));
  });

  test("goes on without a websocket", async () => {
    await using site = await Site.create();
    stage.node.setWebsocket("refused");
    const { weather } = await openShop(site);
    const transaction = stage.pay(await stage.quote(weather));
    expect(await stage.present(weather, transaction)).toMatchObject({ status: 200, text: "sunny" });
    expect(await stage.moved()).toEqual(sales(1n));
  });
});

describe("a gateway that is killed", { timeout: TIMEOUT_MS }, () => {
  test("between signing and confirmation settles in its next life, and delivers for the same payment", async () => {
    await using site = await Site.create();
    const { served, weather } = await openShop(site);
    const transaction = stage.pay(await stage.quote(weather));
    // Signed and sent, and never in a block: the node forgets it.
    const lost = stage.node.inject({ method: "sendTransaction", lose: true, times: 1_000 });
    const answer = stage.present(weather, transaction).catch(() => "lost");
    await lost.hit();
    await served.end("SIGKILL");
    expect(await answer).toBe("lost");
    expect(await stage.moved()).toEqual(sales(0n));
    lost.lift();
    // Nobody asks: recovery sends the stored bytes.
    const next = await openShop(site);
    await stage.node.asked("sendTransaction");
    await paidOnce();
    expect(stage.served).toBe(0);
    expect(await stage.present(next.weather, transaction)).toMatchObject({
      status: 200,
      text: "sunny",
      receipt: { success: true },
    });
    expect(stage.served).toBe(1);
    expect(await stage.moved()).toEqual(sales(1n));
  });

  test("and started again after the blockhash has expired tells the failure, and charges nothing", async () => {
    await using site = await Site.create();
    const { served, weather } = await openShop(site);
    const transaction = stage.pay(await stage.quote(weather));
    const lost = stage.node.inject({ method: "sendTransaction", lose: true, times: 10_000 });
    const answer = stage.present(weather, transaction).catch(() => "lost");
    await lost.hit();
    await served.end("SIGKILL");
    expect(await answer).toBe("lost");
    stage.node.tick(200);
    lost.lift();
    const next = await openShop(site);
    const { status, text } = await stage.present(next.weather, transaction);
    expect(status).toBe(402);
    expect(Object(JSON.parse(text)).error).toMatch(/expired/);
    expect(await stage.moved()).toEqual(sales(0n));
    expect(stage.served).toBe(0);
  });
});

describe("two replicas with one fee payer", { timeout: TIMEOUT_MS }, () => {
  let postgres: PostgresServer;

  beforeAll(async () => {
    postgres = await startPostgres();
    closing.defer(() => postgres.stop());
  }, TIMEOUT_MS);

  test("sell one message once, and settle for each other", async () => {
    const store = await postgres.database();
    await using one = await Site.create({ store });
    await using two = await Site.create({ store, publicUrl: `http://127.0.0.1:${one.port}` });
    const [first, second] = [await openShop(one), await openShop(two)];
    const asked = await stage.quote(first.weather);
    const transaction = stage.pay(asked);
    const both = [first.weather, second.weather, first.weather, second.weather];
    const answers = await Promise.all(both.map((url) => stage.present(url, varied(transaction))));
    expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThanOrEqual(1);
    expect(stage.served).toBe(1);
    expect(await stage.moved()).toEqual(sales(1n));

    // Only one of them holds the fee payer, whichever is asked.
    for (const url of [first.weather, second.weather]) {
      expect(await stage.present(url, stage.pay(asked))).toMatchObject({ status: 200 });
    }
    expect(await stage.moved()).toEqual(sales(3n));
  });
});

/** Until the payee has the price. */
async function paidOnce(): Promise<void> {
  const deadline = AbortSignal.timeout(TIMEOUT_MS);
  while ((await stage.moved()).paid === 0n && !deadline.aborted) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
