import { expect, it } from "vitest";
import { agreementOf } from "../prices/agreement.ts";

it("is told alike by routes and the 402, and that is what is charged (the long one: npm run prove:prices)", async () => {
  const { disagreements, priced, unpriced, slowestMs } = await agreementOf(120, 7);
  expect(disagreements).toEqual([]);
  // Enough of both, or it would show nothing.
  expect(priced).toBeGreaterThan(100);
  expect(unpriced).toBeGreaterThan(100);
  // A machine that does ten other things takes longer; what nothing bounds takes seconds.
  expect(slowestMs).toBeLessThan(500);
});
