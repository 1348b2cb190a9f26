import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { pathLimit, queryLimit, readTarget } from "../../../src/gateway/target.ts";

const served = new Set(["api.example.com", "api.example.com:8443", "[::1]:8402", "127.0.0.1"]);

const read = (requestTarget: string, method = "GET") => readTarget(method, requestTarget, served);

/** Taken, and sent on as they are. */
const accepted: readonly string[] = [
  "/",
  "/a",
  "/weather",
  "/a/b/c",
  "/a/",
  "/a/b/",
  "/Weather",
  "/WEATHER",
  "/index.html",
  "/.well-known/x402",
  "/a.b.c",
  "/...",
  "/....",
  "/.a",
  "/a.",
  "/..a",
  "/a..",
  "/a/...",
  "/.../a",
  "/-",
  "/_",
  "/~user",
  "/-._~",
  "/a-b_c.d~e",
  "/!$&'()*+,=",
  "/user@example.com",
  "/a:b",
  "/:",
  "/:id",
  "/@scope/name",
  "/*",
  "/a*b",
  "/a+b",
  "/a,b",
  "/a=b",
  "/0123456789",
  "/a%20b",
  "/%20",
  "/a%21",
  "/a%22b",
  "/a%23b",
  "/100%25",
  "/100%25/off",
  "/50%25%20off",
  "/%25zz",
  "/%25",
  "/%25x",
  "/%25%25",
  "/a%26b",
  "/a%2Bb",
  "/a%2Cb",
  "/a%3Ab",
  "/a%3Cb%3E",
  "/a%3Db",
  "/a%3Fb",
  "/a%40b",
  "/a%5Bb%5D",
  "/a%5Eb",
  "/a%60b",
  "/a%7Bb%7D",
  "/a%7Cb",
  "/caf%C3%A9",
  "/%E2%82%AC",
  "/%F0%9F%98%80",
  "/%C2%A0",
  "/%EF%BB%BF",
  "/%E6%97%A5%E6%9C%AC",
  "/%EF%BC%8F",
  "/%F4%8F%BF%BF",
  "/?",
  "/??",
  "/?a",
  "/?a=b&c=d",
  "/a?b",
  "/a?b?c",
  "/a?/../b",
  "/a?//",
  "/a?%zz",
  "/a?%",
  "/a?%00",
  "/a?%2e%2e%2f",
  "/a?b;c",
  "/a?b\\c",
  '/a?"<>^`{|}',
  "/a?q='x'",
  "/a?[]",
  "/a?http://b.example/?c",
  "/a/?b",
  "/http:/a/b",
  `/${"a".repeat(pathLimit - 1)}`,
  `/?${"a".repeat(queryLimit)}`,
];

const empty = "empty segment";
const dots = "dot segment";
const slashes = "encoded slash or backslash";
const controls = "encoded control character";
const equivalent = "write it as it is";
const lowerCase = "lower case";
const hex = "without two hexadecimal digits";
const twice = "encoded twice";
const text = "not UTF-8";
const raw = "must be percent-encoded";

/** Refused, and the words that say why. */
const refused: readonly (readonly [string, string])[] = [
  ["//", empty],
  ["///", empty],
  ["//a", empty],
  ["//a/b", empty],
  ["//evil.example/a", empty],
  ["/a//", empty],
  ["/a//b", empty],
  ["/a///b", empty],
  ["/.", dots],
  ["/..", dots],
  ["/./", dots],
  ["/../", dots],
  ["/./a", dots],
  ["/../a", dots],
  ["/a/.", dots],
  ["/a/..", dots],
  ["/a/./b", dots],
  ["/a/../b", dots],
  ["/free/../paid", dots],
  ["/a/./", dots],
  ["/a/../", dots],
  ["/..?a", dots],
  ["/%2E", equivalent],
  ["/%2E%2E/paid", equivalent],
  ["/.%2E/paid", equivalent],
  ["/%2E./paid", equivalent],
  ["/%2e%2e/paid", lowerCase],
  ["/%2e/paid", lowerCase],
  ["/a%2Fb", slashes],
  ["/a%2fb", lowerCase],
  ["/free%2F..%2Fpaid", slashes],
  ["/a%5Cb", slashes],
  ["/a%5cb", lowerCase],
  ["/..%2Fpaid", slashes],
  ["/a\\b", "backslash"],
  ["/\\a", "backslash"],
  ["/\\\\evil.example", "backslash"],
  ["/..\\paid", "backslash"],
  ["/a;b", "path parameter"],
  ["/a;b=c/d", "path parameter"],
  ["/..;/paid", "path parameter"],
  ["/;", "path parameter"],
  ["/a%3Bb", "path parameter"],
  ["/..%3B/paid", "path parameter"],
  ["/a#b", "fragment"],
  ["/#", "fragment"],
  ["/a?b#c", "fragment"],
  ["/?#", "fragment"],
  ["/%00", controls],
  ["/paid%00", controls],
  ["/paid%00.html", controls],
  ["/%01", controls],
  ["/%09", controls],
  ["/%0A", controls],
  ["/%0D%0AX:", controls],
  ["/%1F", controls],
  ["/%7F", controls],
  ["/%C2%80", controls],
  ["/%C2%85", controls],
  ["/%C2%9F", controls],
  ["/%61", equivalent],
  ["/p%61id", equivalent],
  ["/%41", equivalent],
  ["/%7A", equivalent],
  ["/%30", equivalent],
  ["/%39", equivalent],
  ["/%2D", equivalent],
  ["/%5F", equivalent],
  ["/%7E", equivalent],
  ["/caf%c3%a9", lowerCase],
  ["/caf%C3%a9", lowerCase],
  ["/caf%c3%A9", lowerCase],
  ["/a%3ab", lowerCase],
  ["/%fF", lowerCase],
  ["/%", hex],
  ["/a%", hex],
  ["/a%2", hex],
  ["/a%/b", hex],
  ["/%zz", hex],
  ["/%2G", hex],
  ["/%G2", hex],
  ["/%u0061", hex],
  ["/%%36%31", hex],
  ["/% 1", hex],
  ["/%-1", hex],
  ["/%2561", twice],
  ["/p%2561id", twice],
  ["/%252e%252e/paid", twice],
  ["/%252E%252E/paid", twice],
  ["/a%252Fb", twice],
  ["/a%255Cb", twice],
  ["/%252561", twice],
  ["/%25C3%25A9", twice],
  ["/%2500", twice],
  ["/%80", text],
  ["/%FF", text],
  ["/%C3", text],
  ["/%C3a", text],
  ["/%C3/%A9", text],
  ["/%A9%C3", text],
  ["/%C0%AF", text],
  ["/%C0%AE%C0%AE/paid", text],
  ["/%C1%9C", text],
  ["/%E0%80%AF", text],
  ["/%F0%80%80%AF", text],
  ["/%ED%A0%80", text],
  ["/%F4%90%80%80", text],
  ["/%F8%88%80%80%80", text],
  ["/a b", raw],
  ["/a\tb", raw],
  ["/a\nb", raw],
  ["/a\r\nb", raw],
  ["/a\0b", raw],
  ["/\x7f", raw],
  ['/a"b', raw],
  ["/a<b", raw],
  ["/a>b", raw],
  ["/a[b", raw],
  ["/a]b", raw],
  ["/a^b", raw],
  ["/a`b", raw],
  ["/a{b", raw],
  ["/a|b", raw],
  ["/a}b", raw],
  ["/caf\u00e9", raw],
  ["/\u00c3\u00a9", raw],
  ["/\u2025", raw],
  ["/\ud800", raw],
  ["/a?b c", raw],
  ["/a?b\tc", raw],
  ["/a?b\nc", raw],
  ["/a?\0", raw],
  ["/a?\x7f", raw],
  ["/a?\u00e9", raw],
  [`/${"a".repeat(pathLimit)}`, "path is longer"],
  [`/${"a".repeat(pathLimit)}?b`, "path is longer"],
  [`/?${"a".repeat(queryLimit + 1)}`, "query is longer"],
  ["", "neither a path nor"],
  ["a", "neither a path nor"],
  ["weather", "neither a path nor"],
  ["?", "neither a path nor"],
  [".", "neither a path nor"],
  ["../a", "neither a path nor"],
  ["\\a", "neither a path nor"],
  [" /a", "neither a path nor"],
  ["api.example.com:443", "neither a path nor"],
  ["ftp://api.example.com/a", "neither a path nor"],
  ["ws://api.example.com/a", "neither a path nor"],
  ["file:///etc/passwd", "neither a path nor"],
  ["http:/a", "neither a path nor"],
  ["http:a", "neither a path nor"],
  ["http:\\\\api.example.com/a", "neither a path nor"],
  ["javascript:alert(1)", "neither a path nor"],
  ["http://evil.example/a", "not served here"],
  ["http://api.example.com.evil.example/a", "not served here"],
  ["http://api.example.com@evil.example/a", "not served here"],
  ["http://user@api.example.com/a", "not served here"],
  ["http://user:pw@api.example.com/a", "not served here"],
  ["http://api.example.com:81/a", "not served here"],
  ["http://api.example.com:443/a", "not served here"],
  ["https://api.example.com:80/a", "not served here"],
  ["http://api.example.com./a", "not served here"],
  ["http:///a", "not served here"],
  ["http://", "not served here"],
  ["http://api.example.com\\a", "not served here"],
  ["http://api.example.com%2Fa", "not served here"],
  ["http://api.example.com//a", empty],
  ["http://api.example.com/a/../b", dots],
  ["http://api.example.com/%61", equivalent],
  ["http://api.example.com#a", "fragment"],
  ["http://api.example.com/a#b", "fragment"],
];

describe("a request target", () => {
  test.each(accepted)("%j is taken and stays as it is", (target) => {
    const mark = target.indexOf("?");
    expect(read(target)).toEqual({
      kind: "ok",
      path: mark === -1 ? target : target.slice(0, mark),
      query: mark === -1 ? "" : target.slice(mark + 1),
      raw: target,
    });
  });

  test.each(refused)("%j is refused: %s", (target, reason) => {
    const result = read(target);
    expect(result).toMatchObject({ kind: "refused", detail: expect.stringContaining(reason) });
    const status = reason.endsWith("is longer") ? 414 : 400;
    expect(result).toMatchObject({ status });
  });

  test.each([
    ["http://api.example.com/a?b", "/a?b"],
    ["HTTP://API.Example.COM/a", "/a"],
    ["https://api.example.com/a", "/a"],
    ["http://api.example.com:80/a", "/a"],
    ["https://api.example.com:443/a", "/a"],
    ["https://api.example.com:8443/a", "/a"],
    ["http://[::1]:8402/a", "/a"],
    ["http://127.0.0.1/", "/"],
    ["http://api.example.com", "/"],
    ["http://api.example.com?a", "/?a"],
    ["http://api.example.com/", "/"],
  ])("%j in absolute form is %j of a served host", (target, raw) => {
    expect(read(target)).toMatchObject({ kind: "ok", raw });
  });

  test("* is taken for OPTIONS only", () => {
    expect(read("*", "OPTIONS")).toEqual({ kind: "asterisk" });
    expect(read("*")).toMatchObject({ kind: "refused" });
    expect(read("**", "OPTIONS")).toMatchObject({ kind: "refused" });
  });

  test("CONNECT is refused whatever it names", () => {
    for (const target of ["api.example.com:443", "/a", "*", "http://api.example.com/"]) {
      expect(read(target, "CONNECT")).toMatchObject({ kind: "refused", status: 400 });
    }
  });
});

const fragment = fc.constantFrom(
  ...["/", "//", ".", "..", "%2e", "%2E", "%2f", "%2F", "%5C", "\\", ";", "%", "%25", "%61", "%00"],
  ...["a", "B", "paid", "%C3%A9", "%c3%a9", "%C0%AE", "\u00e9", "\0", " ", "?", "#", "@", ":", "~"],
);
const crafted = fc.array(fragment, { maxLength: 12 }).map((parts) => `/${parts.join("")}`);
const anyByte = fc
  .array(fc.integer({ min: 0, max: 255 }), { maxLength: 40 })
  .map((bytes) => String.fromCharCode(...bytes));
const anyTarget = fc.oneof(crafted, anyByte, fc.string({ unit: "binary" }), fc.webUrl());
const runs = { numRuns: 20_000 };

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
    expect(taken).toBeGreaterThan(500);
  });

  test("decoding an accepted path is stable: encoded anew and read again it is the same text", () => {
    fc.assert(
      fc.property(crafted, (target) => {
        const result = read(target);
        if (result.kind !== "ok") return;
        const text = decodeURIComponent(result.path);
        expect(text.split("/").length).toBe(result.path.split("/").length);
        expect(text).not.toMatch(/[\0-\x1f\x7f-\x9f\\;]/);
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
