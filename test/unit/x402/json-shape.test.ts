/** How deep a text of JSON nests, and how much is in it, whatever its strings say. */
import { expect, it } from "vitest";
import { boundOver } from "../../../src/x402/json-shape.ts";

const over = (text: string, depth = 2, values = 4) =>
  boundOver(Buffer.from(text), { depth, values });

it.each([
  ["[[1]]", null],
  ["[[[1]]]", "depth"],
  ['{"a":{"b":[1]}}', "depth"],
  ["[[],1]", null],
  ["[1,2,3,4]", "values"],
  ["[1,2,3]", null],
  // What a string holds is in no bound.
  [String.raw`["[[[,,,,\"[[[,,,,\\","]`, null],
  [String.raw`["\\",1,2,3]`, "values"],
  [`["${"[,é".repeat(50)}"]`, null],
  // Not JSON, and none of this one's business.
  ['["', null],
  ['["\\', null],
  ["]]]]", null],
])("%s: %s", (text, bound) => {
  expect(over(text)).toBe(bound);
});
