import { expect, test } from "vitest";
import { codingFor } from "../../../src/http/content-coding.ts";

test.each([
  [undefined, null],
  ["", null],
  ["identity", null],
  ["deflate, zstd", null],
  ["gzip", "gzip"],
  ["GZIP", "gzip"],
  ["gzip, deflate, br, zstd", "br"],
  ["gzip;q=1.0, br;q=0.5", "gzip"],
  ["br ; q=0, gzip", "gzip"],
  ["gzip;q=0, br;q=0.000", null],
  ["*", "br"],
  ["br;q=0, *;q=0.1", "gzip"],
  ["*;q=0", null],
  // What is no member of the list is passed over.
  ["gzip;level=9, br;q=2", null],
  ["br;q=0.1234, gzip;q=0.001", "gzip"],
])("Accept-Encoding: %s is answered in %s", (accepted, coding) => {
  expect(codingFor(accepted)).toBe(coding);
});
