import { describe, expect, test } from "vitest";
import { Gathered } from "../../../src/http1/gathered.ts";

describe("bytes that come in parts", () => {
  test.each([
    [[], 0],
    [["whole"], 0],
    [["a", "", "bc", "d"], 0],
    [["a", "bc", "d"], 4],
    [["longer than ", "was said"], 3],
  ])("are %j in one piece, where %i were expected", (parts, expected) => {
    const gathered = new Gathered(expected);
    for (const part of parts) gathered.add(Buffer.from(part));
    expect(gathered.length).toBe(parts.join("").length);
    expect(gathered.whole().toString()).toBe(parts.join(""));
  });

  test("are not copied where there is one part", () => {
    const part = Buffer.from("a part");
    const gathered = new Gathered();
    gathered.add(part);
    expect(gathered.whole().buffer).toBe(part.buffer);
    expect(gathered.whole()).toEqual(part);
  });

  test("are not changed by what becomes of the parts, nor change the first of them", () => {
    const parts = [Buffer.from("one"), Buffer.from("two")] as const;
    const gathered = new Gathered();
    for (const part of parts) gathered.add(part);
    for (const part of parts) part.fill(0);
    expect(gathered.whole().toString()).toBe("onetwo");
  });

  test("take about as much as they are, one by one", () => {
    const gathered = new Gathered();
    for (let byte = 0; byte < 100_000; byte += 1) gathered.add(Buffer.of(byte & 255));
    expect(gathered.whole().length).toBe(100_000);
    // Grown by doubling: byte by byte it would be copied as often.
    const room = gathered.whole().buffer.byteLength;
    expect(room).toBeGreaterThan(100_000);
    expect(room).toBeLessThanOrEqual(200_000);
    expect(gathered.whole()[99_999]).toBe(99_999 & 255);
  });
});
