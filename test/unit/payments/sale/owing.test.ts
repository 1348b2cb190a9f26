import { setImmediate as turn } from "node:timers/promises";
import { expect, it } from "vitest";
import { MAX_BEGUN, Owing, OWING_MS } from "../../../../src/payments/sale/owing.ts";
import { ManualTime } from "../../../support/manual-time.ts";

const never = new Promise<void>(() => undefined);
const he = () => ({ payer: "he", binding: "GET /file" });

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

it("has whoever delivers look first, of a sale that was begun, and waits for what that tells", async () => {
  let looks = 0;
  const owing = new Owing(new ManualTime(), async () => {
    looks += 1;
    await turn();
    owing.add("he", told.promise);
  });
  const told = Promise.withResolvers<void>();
  expect(owing.settled(he)).toBeUndefined();
  owing.begin(() => ({ payer: "he", binding: "GET /other" }));
  owing.begin(() => ({ payer: "another", binding: "GET /file" }));
  expect([owing.settled(he), looks]).toEqual([undefined, 0]);
  owing.begin(he);
  let isSettled = false;
  const settled = owing.settled(he)?.then(() => void (isSettled = true));
  for (let turns = 0; turns < 5; turns += 1) await turn();
  expect([isSettled, looks]).toEqual([false, 1]);
  told.resolve();
  await settled;
});

it("remembers so many sales, and the last of them", () => {
  const owing = new Owing(new ManualTime(), () => never);
  const sale = (number: number) => () => ({ payer: "he", binding: `GET /${number}` });
  owing.begin(sale(0));
  owing.begin(sale(1));
  owing.begin(sale(0));
  for (let number = 2; number < MAX_BEGUN + 1; number += 1) owing.begin(sale(number));
  expect(owing.settled(sale(1))).toBeUndefined();
  expect(owing.settled(sale(0))).toBeDefined();
  expect(owing.settled(sale(2))).toBeDefined();
});
