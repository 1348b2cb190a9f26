import { describe, expect, test } from "vitest";
import { buy, errorOf, openShop, type Shop, type ShopOptions } from "./shop.ts";
import { backend, send, type Answer } from "./stage.ts";

const RATE = { requests: 3, perMs: 60_000 };

async function shopOf(options: ShopOptions = {}): Promise<Shop> {
  const origin = await backend((_request, response) => void response.end("goods"));
  return openShop(origin, { unpaidRate: RATE, ...options });
}

/** Presents payment 1, 2, 3 …, one after the other. */
async function buyEach(shop: Shop, numbers: readonly number[]): Promise<readonly Answer[]> {
  const answers: Answer[] = [];
  for (const number of numbers) answers.push(await buy(shop, {}, number));
  return answers;
}

async function ask(shop: Shop, times: number, headers: readonly string[] = []): Promise<number[]> {
  const statuses: number[] = [];
  for (let index = 0; index < times; index += 1) {
    statuses.push((await send(shop.port, { path: "/paid", headers })).status);
  }
  return statuses;
}

const from = (address: string): string[] => ["X-Forwarded-For", address];

const refuse = async () =>
  ({ isValid: false, invalidReason: "insufficient_funds", payer: "" }) as const;

describe("an address that does not pay", () => {
  test("is answered 429 and told when to come again", async () => {
    const shop = await shopOf();
    expect(await ask(shop, 5)).toEqual([402, 402, 402, 429, 429]);
    const answer = await send(shop.port, { path: "/paid" });
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(15);
    expect(answer.headers["cache-control"]).toBe("no-store");
    expect(errorOf(answer)).toContain("too many requests without payment");
    expect(await shop.metrics.registry.metrics()).toContain(
      'coinslot_http_requests_total{route="/*",code="429",outcome="limited"} 3',
    );
  });

  test("is counted for what it sends in place of a payment, too", async () => {
    const shop = await shopOf();
    expect(await ask(shop, 4, ["X-PAYMENT", "garbage"])).toEqual([400, 400, 400, 429]);
  });

  test("is served what is free", async () => {
    const shop = await shopOf();
    await ask(shop, 4);
    for (let index = 0; index < 10; index += 1) {
      expect((await send(shop.port, { path: "/free" })).status).toBe(200);
    }
  });

  test("can read in a browser why", async () => {
    const shop = await shopOf({ cors: "any" });
    await ask(shop, 3);
    const { status, headers } = await send(shop.port, { path: "/paid" });
    expect([status, headers["access-control-allow-origin"]]).toEqual([429, "*"]);
  });

  test("is sold to as soon as it pays", async () => {
    const shop = await shopOf();
    expect(await ask(shop, 4)).toEqual([402, 402, 402, 429]);
    const numbers = Array.from({ length: 10 }, (_, index) => index + 1);
    const answers = await buyEach(shop, numbers);
    expect(answers.map(({ status }) => status)).toEqual(numbers.map(() => 200));
  });

  test("is not looked at any more when its payments are refused", async () => {
    const shop = await shopOf();
    const { facilitator } = shop;
    facilitator.onVerify = refuse;
    const answers = await buyEach(shop, [1, 2, 3, 4, 5]);
    expect(answers.map(({ status }) => status)).toEqual([402, 402, 402, 429, 429]);
    expect(facilitator.verified).toHaveLength(3);
    expect(errorOf(answers[3] ?? answers[0]!)).toContain("it was not looked at");
    // Asking for the price is another thing.
    expect(await ask(shop, 1)).toEqual([402]);
  });

  test("has to wait for payments that were refused at the same time", async () => {
    const shop = await shopOf();
    const { facilitator } = shop;
    const judged = Promise.withResolvers<void>();
    facilitator.onVerify = async () => {
      await judged.promise;
      return refuse();
    };
    const numbers = Array.from({ length: 9 }, (_, index) => index + 1);
    const under = numbers.map((number) => buy(shop, {}, number));
    await expect.poll(() => facilitator.verified.length).toBe(9);
    judged.resolve();
    await Promise.all(under);
    const answer = await buy(shop, {}, 10);
    expect(answer.status).toBe(429);
    // Six over the limit, and one more: seven times twenty seconds, but nobody waits much longer than a minute.
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(50);
    expect(facilitator.verified).toHaveLength(9);
  });

  test("gets through with a payment that is being settled", async () => {
    const shop = await shopOf();
    const { facilitator } = shop;
    const chain = Promise.withResolvers<void>();
    const settled = facilitator.onSettle;
    facilitator.onSettle = async (...args) => {
      await chain.promise;
      return settled(...args);
    };
    const first = buy(shop, {}, 1);
    await expect.poll(() => facilitator.settled.length).toBe(1);
    const { onVerify } = facilitator;
    facilitator.onVerify = refuse;
    const refused = await buyEach(shop, [2, 3, 4, 5]);
    expect(refused.map(({ status }) => status)).toEqual([402, 402, 402, 429]);
    facilitator.onVerify = onVerify;
    const again = buy(shop, {}, 1);
    chain.resolve();
    const answers = await Promise.all([first, again]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(facilitator.settled).toHaveLength(1);
  });

  test("is another one behind a trusted proxy", async () => {
    const trusted = [{ address: "127.0.0.1", prefixBits: 32 }];
    const shop = await shopOf({ trusted });
    expect(await ask(shop, 4, from("192.0.2.1"))).toEqual([402, 402, 402, 429]);
    expect(await ask(shop, 4, from("192.0.2.2"))).toEqual([402, 402, 402, 429]);
    // What it writes before that is its own.
    expect(await ask(shop, 1, from("192.0.2.9, 192.0.2.2"))).toEqual([429]);
  });

  test("cannot become another one by saying so", async () => {
    const shop = await shopOf();
    expect(await ask(shop, 3, ["X-Forwarded-For", "192.0.2.1"])).toEqual([402, 402, 402]);
    expect(await ask(shop, 1, ["X-Forwarded-For", "192.0.2.2"])).toEqual([429]);
  });

  test("may go on where there is no limit", async () => {
    const shop = await shopOf({ unpaidRate: null });
    expect(new Set(await ask(shop, 50))).toEqual(new Set([402]));
  });
});
