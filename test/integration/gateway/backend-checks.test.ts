import { setTimeout as pause } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { ask, askAll, group, metric, Target } from "./backend-stage.ts";
import { buy } from "./shop.ts";

/** Serves, and says of itself what `mood` says. */
async function checked(letter: string) {
  const mood = { status: 200 };
  const target = await new Target((request, response) => {
    if (request.url === "/healthz?a=1") response.statusCode = mood.status;
    response.end(letter);
  }).start();
  return { mood, target };
}

describe("active checks", () => {
  const check = { path: "/healthz?a=1", intervalMs: 20, timeoutMs: 1_000, up: 2, down: 2 };

  test("take a target out that says of itself that it is not well, and back in", async () => {
    const [a, b] = [await checked("a"), await checked("b")];
    const of = await group([a.target, b.target], { check });
    const up = async (): Promise<number> =>
      (await metric(of, "coinslot_upstream_target_up"))[
        `upstream="api",target="127.0.0.1:${a.target.port}"`
      ] ?? -1;
    a.mood.status = 500;
    await expect.poll(up).toBe(0);
    expect(await askAll(of, 10)).toEqual({ b: 10 });
    a.mood.status = 302;
    await expect.poll(up).toBe(1);
    expect(await askAll(of, 10)).toEqual({ a: 5, b: 5 });
  });

  test("find a target that is dead before any request does, and one that is back", async () => {
    const [a, b] = [await checked("a"), await checked("b")];
    const of = await group([a.target, b.target], { check });
    await a.target.stop();
    await expect
      .poll(async () => Object.values(await metric(of, "coinslot_upstream_target_up")))
      .toEqual([0, 1]);
    expect(await askAll(of, 4)).toEqual({ b: 4 });
    expect(await metric(of, "coinslot_upstream_retries_total")).toEqual({});
    await a.target.start();
    await expect
      .poll(async () => Object.values(await metric(of, "coinslot_upstream_target_up")))
      .toEqual([1, 1]);
    expect(await askAll(of, 4)).toEqual({ a: 2, b: 2 });
  });

  test("that all fail leave nobody to pay", async () => {
    const a = await checked("a");
    const of = await group([a.target], { check });
    a.mood.status = 500;
    await expect
      .poll(async () => Object.values(await metric(of, "coinslot_upstream_target_up")))
      .toEqual([0]);
    const answer = await buy(of.shop);
    expect(answer.status).toBe(503);
    expect(of.shop.facilitator.settled).toHaveLength(0);
    // What costs nothing is tried in any case.
    expect(await ask(of)).toBe("a");
  });

  test("end with the backend", async () => {
    const a = await checked("a");
    const of = await group([a.target], { check });
    await expect.poll(() => a.target.seen.length).toBeGreaterThan(1);
    await of.engine.close(AbortSignal.abort());
    const { length } = a.target.seen;
    await pause(100);
    expect(a.target.seen).toHaveLength(length);
  });
});
