import { isDeepStrictEqual } from "node:util";
import { describe, expect, test } from "vitest";
import type { PaymentPayload } from "../../../src/x402/x402.ts";
import { DeclaredInput } from "../../../src/gateway/declared-input.ts";
import { examplePayment, PAYER } from "../../unit/ledger/example-payment.ts";
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

const isNumber = (payment: PaymentPayload, number: number): boolean =>
  isDeepStrictEqual(payment, examplePayment(number).request.paymentPayload);

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

  test("is counted for payments of requests that lack what is declared", async () => {
    const queryParams = { city: { type: "string", required: true } };
    const input = new DeclaredInput({ queryParams }, [{ kind: "rest" }]);
    const shop = await shopOf({ sold: { input } });
    const answers = await buyEach(shop, [1, 2, 3, 4]);
    expect(answers.map(({ status }) => status)).toEqual([400, 400, 400, 429]);
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
    await expect.poll(() => shop.gateway.work.inFlight).toBe(2);
    chain.resolve();
    const answers = await Promise.all([first, again]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200]);
    expect(facilitator.settled).toHaveLength(1);
  });

  test("gets no further with payments that only the chain can judge than with refused ones", async () => {
    const shop = await shopOf({ unpaidRate: null, unprovenRate: RATE });
    const { facilitator } = shop;
    facilitator.isDoubtful = ({ paymentPayload }) => !isNumber(paymentPayload, 10);
    const judged = Promise.withResolvers<void>();
    facilitator.onVerify = async ({ paymentPayload }) => {
      if (isNumber(paymentPayload, 10)) return { isValid: true, payer: PAYER };
      await judged.promise;
      return refuse();
    };
    const under = [1, 2, 3].map((number) => buy(shop, {}, number));
    await expect.poll(() => facilitator.verified.length).toBe(3);
    const answer = await buy(shop, {}, 4);
    expect(answer.status).toBe(429);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(15);
    expect(errorOf(answer)).toContain("it was not looked at");
    // Nothing of it was written, and what is proven is sold.
    expect(facilitator.verified).toHaveLength(3);
    expect((await buy(shop, {}, 10)).status).toBe(200);
    judged.resolve();
    const statuses = (await Promise.all(under)).map(({ status }) => status);
    expect(statuses).toEqual([402, 402, 402]);
    expect((await buy(shop, {}, 4)).status).toBe(429);
  });

  test("may have as many of them as it likes when they are good", async () => {
    const shop = await shopOf({ unpaidRate: null, unprovenRate: RATE });
    shop.facilitator.isDoubtful = () => true;
    const numbers = Array.from({ length: 7 }, (_, index) => index + 1);
    const answers = await buyEach(shop, numbers);
    expect(answers.map(({ status }) => status)).toEqual(numbers.map(() => 200));
  });

  test("is told from others by whoever judges its payments", async () => {
    const shop = await shopOf({ trusted: [{ address: "127.0.0.1", prefixBits: 32 }] });
    const { facilitator } = shop;
    const addresses = ["192.0.2.1", "192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"];
    for (const [index, address] of addresses.entries()) {
      await buy(shop, { headers: from(address) }, index + 1);
    }
    const [first, again, other, six, sameNetwork] = facilitator.clients;
    expect(first).toBeTypeOf("string");
    expect([again, sameNetwork]).toEqual([first, six]);
    expect(new Set([first, other, six]).size).toBe(3);
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
