/** Ids of calls as backends know them: nobody can guess one, and each of our processes can tell whose it is. */
import { expect, test } from "vitest";
import { clientId, wireId } from "../../../../src/gateway/mcp/wire-id.ts";

test.each([7, -1, "7", "a\ud800", 'with "quotes"', "x".repeat(256)])("%j is found in it", (id) => {
  const wire = wireId(id);
  expect(clientId(wire)).toBe(id);
  // Two calls of one id are two.
  expect(wireId(id)).not.toBe(wire);
  // No reader makes a number of it, or other characters.
  expect(wire).toMatch(/^coinslot\.[\w.-]+$/);
});

test("what goes through two gateways has both", () => {
  expect(clientId(clientId(wireId(wireId(7))))).toBe(7);
});

test.each([7, "7", "coinslot.7", "coinslot.AAAAAAAAAAAAAAAAAAAAAA.e30", null])(
  "%j is none",
  (id) => {
    expect(clientId(id)).toBeUndefined();
  },
);
