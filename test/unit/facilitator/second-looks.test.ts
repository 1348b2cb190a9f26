import { expect, test } from "vitest";
import { SecondLooks } from "../../../src/facilitator/second-looks.ts";
import { faultOf } from "../../support/fault-of.ts";
import { examplePayment } from "../ledger/example-payment.ts";
import { LeapingTime } from "../payments/settlement/leaping-time.ts";

const look = async () => undefined;
const keyOf = (number: number) => examplePayment(number).key;

test("one payment is looked for once in a while, whoever shows it", async () => {
  const time = new LeapingTime();
  const looks = new SecondLooks(time);
  let count = 0;
  const counted = async () => void (count += 1);
  for (let pass = 0; pass < 3; pass += 1) {
    for (let shown = 0; shown < 10; shown += 1) await looks.take(keyOf(1), counted);
    time.nowMs += 5_000;
  }
  expect(count).toBe(3);
  await looks.take(keyOf(2), counted);
  expect(count).toBe(4);
});

test("no more than eight are looked for at the same time, and then others again", async () => {
  const looks = new SecondLooks(new LeapingTime());
  const end = Promise.withResolvers<undefined>();
  const running = Array.from({ length: 8 }, (_, number) => {
    return looks.take(keyOf(number), () => end.promise);
  });
  expect(await faultOf(looks.take(keyOf(9), look))).toMatchObject({ kind: "unknown" });
  end.resolve(undefined);
  await Promise.all(running);
  expect(await looks.take(keyOf(9), look)).toBeUndefined();
});

test("a look that fails makes room for another one", async () => {
  const looks = new SecondLooks(new LeapingTime());
  for (let number = 0; number < 20; number += 1) {
    const failing = looks.take(keyOf(number), () => Promise.reject(new Error("a bug")));
    await expect(failing).rejects.toThrow("a bug");
  }
});

test("a thousand payments are remembered, and the oldest forgotten", async () => {
  const looks = new SecondLooks(new LeapingTime());
  const looked: number[] = [];
  const take = (number: number) => looks.take(keyOf(number), async () => void looked.push(number));
  for (let number = 0; number <= 1_000; number += 1) await take(number);
  looked.length = 0;
  await take(1);
  await take(0);
  expect(looked).toEqual([0]);
});
