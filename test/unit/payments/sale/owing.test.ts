import { setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import { Owing, OWING_MS } from "../../../../src/payments/sale/owing.ts";
import { ManualTime } from "../../../support/manual-time.ts";

const never = new Promise<void>(() => undefined);

it("waits for all that has broken off, and not for what does so later", async () => {
  const owing = new Owing(new ManualTime());
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  owing.add(first.promise);
  owing.add(second.promise);
  let isSettled = false;
  const settled = owing.settled()?.then(() => void (isSettled = true));
  owing.add(never);
  first.resolve();
  await turn();
  expect(isSettled).toBe(false);
  second.resolve();
  await settled;
});

it("waits for nothing where nothing has, or all of it is stored", async () => {
  const owing = new Owing(new ManualTime());
  expect(owing.settled()).toBeUndefined();
  owing.add(Promise.resolve());
  await owing.settled();
  expect(owing.settled()).toBeUndefined();
});

it("waits for two seconds where it is not stored", async () => {
  const time = new ManualTime();
  const owing = new Owing(time);
  owing.add(never);
  await time.advance(OWING_MS - 1);
  expect(owing.settled()).toBeDefined();
  await time.advance(1);
  expect(owing.settled()).toBeUndefined();
  expect(OWING_MS).toBe(2_000);
});
