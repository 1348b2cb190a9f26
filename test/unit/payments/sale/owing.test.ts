import { setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import { Owing, OWING_MS } from "../../../../src/payments/sale/owing.ts";
import { ManualTime } from "../../../support/manual-time.ts";

const never = new Promise<void>(() => undefined);
const he = (): string => "he";

it("lets nobody wait for what another payer's has, and all for what a dead worker has left", () => {
  const owing = new Owing(new ManualTime());
  owing.add("another", never);
  expect(owing.settled(he)).toBeUndefined();
  owing.add(null, never);
  expect(owing.settled(he)).toBeDefined();
});

it("forgets one of several that break off again and again, each two seconds behind its own", async () => {
  const time = new ManualTime();
  const owing = new Owing(time);
  for (let times = 0; times < 1_000; times += 1) owing.add("he", never);
  await time.advance(OWING_MS / 2);
  owing.add("he", never);
  await time.advance(OWING_MS - 1);
  expect(owing.settled(he)).toBeDefined();
  await time.advance(1);
  expect(owing.settled(he)).toBeUndefined();
});

it("waits for all that has broken off, and not for what does so later", async () => {
  const owing = new Owing(new ManualTime());
  const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  owing.add("he", first.promise);
  owing.add("he", second.promise);
  let isSettled = false;
  const settled = owing.settled(he)?.then(() => void (isSettled = true));
  owing.add("he", never);
  first.resolve();
  await turn();
  expect(isSettled).toBe(false);
  second.resolve();
  await settled;
});

it("waits for nothing where nothing has, or all of it is stored", async () => {
  const owing = new Owing(new ManualTime());
  expect(owing.settled(he)).toBeUndefined();
  owing.add("he", Promise.resolve());
  await owing.settled(he);
  expect(owing.settled(he)).toBeUndefined();
});

it("waits for two seconds where it is not stored", async () => {
  const time = new ManualTime();
  const owing = new Owing(time);
  owing.add("he", never);
  await time.advance(OWING_MS - 1);
  expect(owing.settled(he)).toBeDefined();
  await time.advance(1);
  expect(owing.settled(he)).toBeUndefined();
  expect(OWING_MS).toBe(2_000);
});
