import { describe, expect, test } from "vitest";
import { ChunkDecoder } from "../../../src/http1/chunks.ts";
import { H1Fault } from "../../../src/http1/fault.ts";

/** What the pieces decode to, and how much of the last one is left over. */
function decode(...pieces: string[]) {
  const decoder = new ChunkDecoder();
  const body: string[] = [];
  let left = "";
  for (const piece of pieces) {
    // Somewhere in a larger buffer, as it is behind a head.
    const buffer = Buffer.from(`head${piece}next`, "latin1");
    const end = buffer.length - 4;
    const count = decoder.decode(buffer, 4, end);
    body.push(buffer.toString("latin1", 4, 4 + count));
    left = buffer.toString("latin1", decoder.at, end);
  }
  return { body, left, isOver: decoder.isOver, trailers: decoder.trailers };
}

function rule(...pieces: string[]): string | null {
  try {
    decode(...pieces);
    return null;
  } catch (thrown) {
    return thrown instanceof H1Fault ? thrown.rule : String(thrown);
  }
}

/** A chunk's size with an extension of so many bytes. */
const size = (bytes: number): string => `1;${"a".repeat(bytes - 1)}`;
/** A trailer line of so many bytes. */
const line = (bytes: number): string => `A: ${"a".repeat(bytes - 5)}\r\n`;

describe("a chunked body", () => {
  test("comes in one piece, however many chunks it came in", () => {
    const text = "1\r\na\r\n2\r\nbc\r\nA\r\n0123456789\r\n0\r\n\r\n";
    expect(decode(text)).toMatchObject({ body: ["abc0123456789"], isOver: true, left: "" });
  });

  test("goes on where the last piece was cut", () => {
    expect(decode("1", "0\r", "\n0123", "456789abcdef\r", "\n0", "\r\n\r", "\n")).toMatchObject({
      body: ["", "", "0123", "456789abcdef", "", "", ""],
      isOver: true,
    });
  });

  test("leaves alone what follows it", () => {
    expect(decode("1\r\na\r\n0\r\n\r\nHTTP")).toMatchObject({ body: ["a"], left: "HTTP" });
    expect(decode("0\r\nA: b\r\n\r\nHTTP")).toMatchObject({ trailers: ["A", "b"], left: "HTTP" });
    expect(decode("0\r\nA: b\r", "\n\r\nHTTP")).toMatchObject({ left: "HTTP" });
  });

  test.each([
    "1 \r\na",
    "g\r\n",
    "0x1\r\na",
    "-1\r\n",
    "+1\r\na",
    "\r\n",
    "1\na",
    " 1\r\na",
    "1\t",
  ])("with the size %j is refused", (text) => expect(rule(text)).toBe("chunk-size"));

  test("has sizes of twelve digits at most", () => {
    expect(rule("00000000000a\r\n")).toBeNull();
    expect(rule("000000000000a\r\n")).toBe("chunk-size");
    expect(rule("ffffffffffff\r\n")).toBeNull();
  });

  test.each(["1\r\nab", "1\r\na\n", "1\r\na\rb", "1\r\na0\r\n\r\n", "1\r\na\r\r\n"])(
    "is refused where a chunk does not end with its bytes (%j)",
    (text) => expect(rule(text)).toBe("chunk-end"),
  );

  test("is refused where CR has no LF", () => {
    expect(rule("1\rx")).toBe("chunk-size");
    expect(rule("1\r", "x")).toBe("chunk-size");
  });

  test.each([";a", ";a=b", ';a="b c"', ';a="b\\"c\\\\";d=e', ';a=""', ";a;b;c"])(
    "loses the extension %j",
    (extension) => {
      const text = `2${extension}\r\nhi\r\n0${extension}\r\n\r\n`;
      expect(decode(text)).toMatchObject({ body: ["hi"], isOver: true });
      expect(decode(...text.split(""))).toMatchObject({ isOver: true });
    },
  );

  test.each([";", ";;", ";a=", ";=b", ' ;a="b', "; a", ";a =b", ';a="b', ";a=\x01", ";a\n", ";\0"])(
    "with the extension %j is refused",
    (extension) => expect(rule(`2${extension}\r\nhi`)).toMatch(/^chunk-(?:extension|size)$/),
  );

  test("has extensions of 1024 bytes at most", () => {
    expect(rule(`${size(1024)}\r\n`)).toBeNull();
    expect(rule(size(1025))).toBe("chunk-extension");
    expect(rule(size(1000), "a".repeat(25))).toBe("chunk-extension");
  });
});

describe("trailers", () => {
  test("are read like header lines", () => {
    const { trailers } = decode("0\r\nX-Sum: 1 \r\nx-sum:2\r\n\r\n");
    expect(trailers).toEqual(["X-Sum", "1", "x-sum", "2"]);
  });

  test.each([
    ["A b: c", "field-name"],
    [" folded", "field-name"],
    ["A: \0", "field-value"],
    ["Content-Length: 5", "trailer-name"],
    ["transfer-encoding: chunked", "trailer-name"],
  ])("with %j are refused", (text, expected) => {
    expect(rule(`0\r\n${text}\r\n\r\n`)).toBe(expected);
  });

  test("are 16 KiB at most", () => {
    expect(rule(`0\r\n${line(16 * 1024)}\r\n`)).toBeNull();
    expect(rule(`0\r\n${line(16 * 1024 + 3)}\r\n`)).toBe("size");
    expect(rule("0\r\n", ...Array.from({ length: 5 }, () => line(4096)))).toBe("size");
  });
});
