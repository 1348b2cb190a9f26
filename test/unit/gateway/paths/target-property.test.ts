import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { readTarget } from "../../../../src/gateway/paths/target.ts";
import { effort } from "../../../support/effort.ts";

const served = new Set(["api.example.com"]);

const read = (requestTarget: string) => readTarget("GET", requestTarget, served);

const fragment = fc.constantFrom(
  "/",
  "//",
  ".",
  "..",
  "%2e",
  "%2E",
  "%2f",
  "%2F",
  "%5C",
  "\\",
  ";",
  "%",
  "%25",
  "%61",
  "%00",
  "a",
  "B",
  "paid",
  "%C3%A9",
  "%c3%a9",
  "%C0%AE",
  "\u00e9",
  "\0",
  " ",
  "?",
  "#",
  "@",
  ":",
  "~",
);
const crafted = fc.array(fragment, { maxLength: 12 }).map((parts) => `/${parts.join("")}`);
const anyByte = fc
  .array(fc.integer({ min: 0, max: 255 }), { maxLength: 40 })
  .map((bytes) => String.fromCharCode(...bytes));
const anyTarget = fc.oneof(crafted, anyByte, fc.string({ unit: "binary" }), fc.webUrl());
const runs = { numRuns: effort(5_000, 20_000) };

describe("whatever the request target is", () => {
  test("reading it never throws", () => {
    fc.assert(
      fc.property(fc.constantFrom("GET", "OPTIONS", "CONNECT", ""), anyTarget, (method, target) => {
        expect(["ok", "asterisk", "refused"]).toContain(readTarget(method, target, served).kind);
      }),
      runs,
    );
  });

  test("an accepted one is what WHATWG URL keeps, byte for byte", () => {
    let taken = 0;
    fc.assert(
      fc.property(anyTarget, (target) => {
        const result = read(target);
        if (result.kind !== "ok") return;
        taken += 1;
        expect(new URL(result.path, "http://h").pathname).toBe(result.path);
        expect(result.raw.startsWith(result.path)).toBe(true);
        // And it is its own only reading: accepted again, unchanged.
        expect(read(result.raw)).toEqual(result);
      }),
      runs,
    );
    expect(taken).toBeGreaterThan(runs.numRuns / 40);
  });

  test("decoding an accepted path is stable: encoded anew and read again it is the same text", () => {
    fc.assert(
      fc.property(crafted, (target) => {
        const result = read(target);
        if (result.kind !== "ok") return;
        const text = decodeURIComponent(result.path);
        expect(text.split("/").length).toBe(result.path.split("/").length);
        expect(text).not.toMatch(/[\p{Cc}\\;]/u);
        expect(text.split("/")).not.toContain("..");
        expect(decodeURIComponent(encodeURI(text))).toBe(text);
      }),
      runs,
    );
  });

  test("no two accepted ASCII spellings differ in encoded unreserved characters or hex case", () => {
    fc.assert(
      fc.property(crafted, (target) => {
        const result = read(target);
        if (result.kind !== "ok") return;
        for (const [, digits = ""] of result.path.matchAll(/%(..)/g)) {
          expect(digits).toBe(digits.toUpperCase());
          expect(String.fromCharCode(Number.parseInt(digits, 16))).not.toMatch(/[\w.~/-]/);
        }
      }),
      runs,
    );
  });
});
