import { expect, test } from "vitest";
import { ToldVersions } from "../../../src/facilitator/told-versions.ts";

const NETWORK = "base-sepolia";
const v1 = { x402Version: 1, scheme: "exact", network: NETWORK };
const v2 = { x402Version: 2, scheme: "exact", network: "eip155:84532" };

const orders = (told: ToldVersions) => [told.inOrder(NETWORK, 1)[0], told.inOrder(NETWORK, 2)[0]];

test.each<[string, readonly (typeof v1)[], readonly number[]]>([
  ["nothing", [], [1, 2]],
  ["both", [v1, v2], [1, 2]],
  ["version 1 alone", [v1], [1, 1]],
  ["version 2 alone", [v2], [2, 2]],
  ["another scheme", [{ ...v2, scheme: "upto" }], [1, 2]],
  ["another network", [{ ...v2, network: "eip155:8453" }], [1, 2]],
  ["a name of version 1 in version 2", [{ ...v2, network: NETWORK }], [1, 2]],
  ["a version that is none", [{ ...v2, x402Version: 3 }], [1, 2]],
])("where %s is listed, payments of version 1 and 2 go out so", (_, kinds, sent) => {
  const told = new ToldVersions();
  told.record(kinds);
  expect(orders(told)).toEqual(sent);
});

test("the last list counts, and what was shown counts more, for its network", () => {
  const told = new ToldVersions();
  told.record([v2]);
  told.record([v1]);
  expect(orders(told)).toEqual([1, 1]);
  told.learn(NETWORK, 2);
  told.record([v1, v2]);
  expect(orders(told)).toEqual([2, 2]);
  expect(told.inOrder("base", 1)).toEqual([1, 2]);
});
