import { describe, expect, test } from "vitest";
import { ask, askAll, group, lettered, metric, moody, nobody, Target } from "./backend-stage.ts";
import { buy, receiptOf } from "./shop.ts";

describe("requests are spread", () => {
  test("by weight, in turn", async () => {
    const targets = [await lettered("a"), await lettered("b")];
    const of = await group(targets, { weights: [3, 1] });
    expect(await askAll(of, 40)).toEqual({ a: 30, b: 10 });
  });

  test("away from a target that is slow, by the number of open requests", async () => {
    const held: (() => void)[] = [];
    const slow = await new Target((_request, response) => {
      held.push(() => response.end("slow"));
    }).start();
    const of = await group([slow, await lettered("fast")], { balance: "least-requests" });
    const first = Promise.all([ask(of), ask(of)]);
    await expect.poll(() => held.length).toBeGreaterThan(0);
    expect(await askAll(of, 20)).toEqual({ fast: 20 });
    for (const release of held) release();
    await first;
  });

  test("by the client's address, which stays with its target when another one leaves", async () => {
    const targets = [await lettered("a"), await lettered("b"), await lettered("c")];
    const trusted = [{ address: "127.0.0.1", prefixBits: 32 }];
    const of = await group(targets, { balance: "hash(ip)" }, { trusted });
    const clients = Array.from({ length: 30 }, (_, index) => `192.0.2.${index}`);
    const home = async (): Promise<string[]> => {
      const answers: string[] = [];
      for (const client of clients) {
        answers.push(await ask(of, { headers: ["X-Forwarded-For", client] }));
      }
      return answers;
    };
    const before = await home();
    expect(new Set(before)).toEqual(new Set(["a", "b", "c"]));
    expect(await home()).toEqual(before);
    await targets[0]?.stop();
    const after = await home();
    expect(after.every((letter) => letter === "b" || letter === "c")).toBe(true);
    expect(after.filter((letter, index) => letter !== before[index])).toHaveLength(
      before.filter((letter) => letter === "a").length,
    );
  });
});

describe("a target that cannot be reached", () => {
  test("is left alone after three tries, costs no answer, and is back when it is", async () => {
    const [a, b] = [await lettered("a"), await lettered("b")];
    const of = await group([a, b]);
    await a.stop();
    expect(await askAll(of, 20)).toEqual({ b: 20 });
    expect(await metric(of, "coinslot_upstream_target_up")).toEqual({
      [`upstream="api",target="127.0.0.1:${a.port}"`]: 0,
      [`upstream="api",target="127.0.0.1:${b.port}"`]: 1,
    });
    expect(await metric(of, "coinslot_upstream_retries_total")).toEqual({
      'upstream="api",reason="connect-failure"': 3,
    });
    await a.start();
    expect(await askAll(of, 10)).toEqual({ b: 10 });
  });

  test("costs no answer to what was paid for, or must not be sent twice", async () => {
    const b = await lettered("b");
    const of = await group([await nobody(), b]);
    for (let number = 1; number <= 4; number += 1) {
      expect(await buy(of.shop, { method: "POST", body: ["x"] }, number)).toMatchObject({
        status: 200,
      });
    }
    expect(await askAll(of, 4, { method: "POST", body: ["x"] })).toEqual({ b: 4 });
    expect(b.seen).toHaveLength(8);
  });

  test("is not asked again where the configuration says so", async () => {
    const retry = { attempts: 1, methods: [], on: [] };
    const of = await group([await nobody(), await lettered("b")], { retry });
    expect(await askAll(of, 4)).toEqual({ b: 2, 502: 2 });
  });
});

describe("when no target can be reached", () => {
  test("nobody pays: 503 before the payment is looked at", async () => {
    const of = await group([await nobody(), await nobody()]);
    for (let count = 0; count < 4; count += 1) await ask(of);
    const answer = await buy(of.shop);
    expect(answer.status).toBe(503);
    expect(receiptOf(answer)).toBeUndefined();
    expect(of.shop.facilitator.settled).toHaveLength(0);
  });

  test("the first target that is back serves everybody", async () => {
    const [a, b] = [await lettered("a"), await lettered("b")];
    const of = await group([a, b]);
    await Promise.all([a.stop(), b.stop()]);
    for (let count = 0; count < 4; count += 1) expect(await ask(of)).toBe("502");
    expect((await buy(of.shop)).status).toBe(503);
    await b.start();
    // A try of the two that they get together may be b's.
    await expect.poll(() => ask(of)).toBe("b");
    expect(await buy(of.shop)).toMatchObject({ status: 200, body: Buffer.from("b") });
  });
});

describe("a target that answers badly", () => {
  test("is left alone, and asked again after a while", async () => {
    const mood = moody();
    const of = await group([await mood.target, await lettered("b")]);
    mood.status = 503;
    expect(await askAll(of, 20)).toEqual({ 503: 5, b: 15 });
    mood.status = 200;
    expect(await askAll(of, 4)).toEqual({ b: 4 });
    of.clock.aheadMs = 5_000;
    expect(await askAll(of, 4)).toEqual({ moody: 2, b: 2 });
  });

  test("is not tried out by what was paid for, as long as it can be avoided", async () => {
    const mood = moody();
    const bad = await mood.target;
    const of = await group([bad, await lettered("b")]);
    mood.status = 503;
    await askAll(of, 10);
    of.clock.aheadMs = 5_000;
    const before = bad.seen.length;
    for (let number = 1; number <= 5; number += 1) {
      expect((await buy(of.shop, {}, number)).status).toBe(200);
    }
    expect(bad.seen).toHaveLength(before);
  });

  test("is asked all the same where the others are no better", async () => {
    const moods = [moody(), moody()];
    const targets = await Promise.all(moods.map(({ target }) => target));
    const of = await group(targets);
    for (const mood of moods) mood.status = 500;
    expect(await askAll(of, 20)).toEqual({ 500: 20 });
    for (const mood of moods) mood.status = 502;
    expect(await askAll(of, 20)).toEqual({ 502: 20 });
    const [first = 0, second = 0] = targets.map(({ seen }) => seen.length);
    expect(Math.min(first, second)).toBeGreaterThan(10);
    for (const mood of moods) mood.status = 200;
    expect((await buy(of.shop)).status).toBe(200);
  });

  test("is left alone for as long as half of the targets are there", async () => {
    const moods = [moody(), moody(), moody(), moody()];
    const targets = await Promise.all(moods.map(({ target }) => target));
    const of = await group(targets);
    for (const mood of moods.slice(1)) mood.status = 502;
    await askAll(of, 100);
    const up = Object.values(await metric(of, "coinslot_upstream_target_up"));
    expect([up[0], up.filter((value) => value === 1).length]).toEqual([1, 2]);
    expect(await askAll(of, 10)).toEqual({ moody: 5, 502: 5 });
  });

  test("is the only one: it stays, and what it answers is passed on", async () => {
    const mood = moody();
    const of = await group([await mood.target]);
    mood.status = 503;
    expect(await askAll(of, 20)).toEqual({ 503: 20 });
    expect((await buy(of.shop)).status).toBe(503);
    expect(of.shop.facilitator.settled).toHaveLength(1);
  });
});
