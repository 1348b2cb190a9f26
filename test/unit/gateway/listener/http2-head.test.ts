/** What HTTP/2 heads are refused here, whether or not nghttp2 would let them come so far. */
import { describe, expect, test } from "vitest";
import { readHttp2Head } from "../../../../src/gateway/listener/http2-head.ts";

const GOOD = { ":method": "GET", ":scheme": "https", ":authority": "shop.example", ":path": "/a" };

function read(changes: Readonly<Record<string, string>>) {
  const headers: Record<string, string> = { ...GOOD, ...changes };
  return readHttp2Head(headers, Object.entries(headers).flat());
}

/** The sentence that refuses a head; `taken` where none does. */
function refusalOf(changes: Readonly<Record<string, string>>): string {
  const head = read(changes);
  return head.ok ? "taken" : head.error.detail;
}

describe("the head of an HTTP/2 request", () => {
  test("becomes one of HTTP/1.1, with the authority as its Host", () => {
    const head = read({ "x-a": "1" });
    expect(head.ok && head.value).toMatchObject({
      method: "GET",
      url: "/a",
      rawHeaders: ["host", "shop.example", "x-a", "1"],
      headers: { host: "shop.example", "x-a": "1" },
    });
  });

  test.each([
    ["user information", { ":authority": "a@shop.example" }, "The authority has user information."],
    ["no host", { ":authority": "" }, "The request names no host."],
    ["two hosts", { host: "other.example" }, "Host and :authority differ."],
    ["another scheme", { ":scheme": "ftp" }, "The scheme is neither https nor http."],
    ["a URL for its path", { ":path": "https://shop.example/a" }, "The :path is not a path."],
    ["the same host twice, in capitals once", { host: "SHOP.example" }, "taken"],
  ])("with %s", (_what, changes, expected) => {
    expect(refusalOf(changes)).toBe(expected);
  });
});
