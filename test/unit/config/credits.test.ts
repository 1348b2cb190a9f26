/** What is prepaid, as the file says it. */
import { expect, test } from "vitest";
import { GATEWAY, parse, ROUTES } from "./fixture.ts";

test("nothing is prepaid where the file says nothing of it", () => {
  expect(parse(GATEWAY + ROUTES).credits).toBeNull();
});

test("packs are kept as they are written, and a dollar of all balances is at risk", () => {
  expect(parse(`${GATEWAY}${ROUTES}credits: { packs: [$5, "$0.50"] }`).credits).toEqual({
    packs: ["$5", "$0.50"],
    atRisk: 1_000_000n,
  });
});

test("what is at risk is counted in millionths, as every token that is prepaid", () => {
  const written = "credits: { packs: [$1, $2, $3, $4, $5, $6, $7, $8], atRisk: $0.000001 }";
  expect(parse(`${GATEWAY}${ROUTES}${written}`).credits).toMatchObject({ atRisk: 1n });
});
