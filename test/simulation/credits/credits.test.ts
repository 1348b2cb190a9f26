/** A short form; `npm run simulate -- --credits` tries more seeds. */
import { expect, test } from "vitest";
import { runCredits } from "./credits-seeds.ts";

const SEEDS = 60;

test("balances are spent or paid back once, whoever dies, and no buyer pays for it", async () => {
  const { violations, answered, crashes, refused, refunded } = await runCredits(1, SEEDS);
  expect(violations).toEqual([]);
  // Else nothing was tried.
  expect(answered).toBeGreaterThan(1_000);
  expect(refused).toBeGreaterThan(100);
  expect(crashes).toBeGreaterThan(10);
  expect(refunded).toBeGreaterThan(100);
});
