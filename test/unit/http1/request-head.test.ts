import type { RequestHead } from "../../../src/http1/exchange.ts";
import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import type { H1Request } from "../../../src/http1/exchange.ts";
import { requestHead, trailerText, withoutBody } from "../../../src/http1/request-head.ts";

const plain: H1Request = { method: "GET", path: "/", headers: [], body: null };

const head = (request: Partial<H1Request>) => requestHead({ ...plain, ...request }, "a.example:81");

const lines = (request: Partial<H1Request>): string[] => head(request).text.split("\r\n");

const refusal = (request: Partial<H1Request>): unknown => {
  try {
    head(request);
    return null;
  } catch (thrown) {
    return thrown;
  }
};

const stream = () => Readable.from([]);

describe("the head of a request", () => {
  test("is the request line, Host, Connection, and the lines as they were given", () => {
    const headers = ["aCCept", "*/*", "X", "", "x", "caf\xe9"];
    expect(lines({ path: "/a/%C3%A9?q='x'&&y", headers })).toEqual([
      "GET /a/%C3%A9?q='x'&&y HTTP/1.1",
      "host: a.example:81",
      "connection: keep-alive",
      "aCCept: */*",
      "X: ",
      "x: caf\xe9",
      "",
      "",
    ]);
  });

  test("says that the connection ends", () => {
    expect(lines({ reset: true })).toContain("connection: close");
  });

  test("has the caller's Host where there is one", () => {
    const { text } = head({ headers: ["Host", "b.example"] });
    expect(text.match(/^host: .*$/gim)).toEqual(["Host: b.example"]);
  });

  test.each<[string, Partial<H1Request>, string[], Omit<RequestHead, "text">]>([
    ["GET without a body", {}, [], { framing: "none", length: 0 }],
    ["GET that says 0", { headers: ["Content-Length", "0"] }, [], { framing: "none", length: 0 }],
    [
      "POST without a body",
      { method: "POST" },
      ["content-length: 0"],
      { framing: "none", length: 0 },
    ],
    [
      "PUT of nothing",
      { method: "PUT", body: Buffer.of() },
      ["content-length: 0"],
      { framing: "none", length: 0 },
    ],
    ["DELETE without a body", { method: "DELETE" }, [], { framing: "none", length: 0 }],
    [
      "a buffer",
      { method: "POST", body: Buffer.from("hi") },
      ["content-length: 2"],
      { framing: "counted", length: 2 },
    ],
    [
      "a buffer that was announced",
      { headers: ["Content-length", "2"], body: Buffer.from("hi") },
      ["content-length: 2"],
      { framing: "counted", length: 2 },
    ],
    [
      "a stream that was announced",
      { method: "POST", headers: ["Content-Length", "02"], body: stream() },
      ["content-length: 2"],
      { framing: "counted", length: 2 },
    ],
    [
      "a stream",
      { method: "POST", body: stream() },
      ["transfer-encoding: chunked"],
      { framing: "chunked", length: 0 },
    ],
  ])("frames %s", (_, request, framing, expected) => {
    const written = lines(request).filter((line) => /content-length|transfer-enc/i.test(line));
    expect(written).toEqual(framing);
    expect(head(request)).toMatchObject(expected);
  });

  test("of chunks that never came frames nothing instead", () => {
    const request = head({ method: "POST", headers: ["A", "b"], body: stream() });
    const expected = requestHead({ ...plain, method: "POST", headers: ["A", "b"] }, "a.example:81");
    expect(withoutBody(request)).toBe(expected.text);
  });

  test.each<[string, Partial<H1Request>]>([
    ["a method with a blank", { method: "GET /" }],
    ["no method", { method: "" }],
    ["a method with a line end", { method: "GET\r\n" }],
    ["no path", { path: "" }],
    ["a path of another form", { path: "http://b.example/" }],
    ["a path with a blank", { path: "/a b" }],
    ["a path with a line end", { path: "/a\r\nX: y" }],
    ["a path with DEL", { path: "/\x7f" }],
    ["a path beyond latin1", { path: "/\u0120" }],
    ["a name with a blank", { headers: ["A b", "c"] }],
    ["a name with a line end", { headers: ["A\r\nB", "c"] }],
    ["no name", { headers: ["", "c"] }],
    ["a name without a value", { headers: ["A"] }],
    ["a value with a line end", { headers: ["A", "b\r\nC: d"] }],
    ["a value with LF", { headers: ["A", "b\nC: d"] }],
    ["a value with NUL", { headers: ["A", "b\0"] }],
    ["a value whose low byte is a line end", { headers: ["A", "b\u010aC: d"] }],
    ["two Hosts", { headers: ["Host", "a", "host", "b"] }],
    ["Connection", { headers: ["Connection", "close"] }],
    ["Keep-Alive", { headers: ["keep-alive", "5"] }],
    ["Upgrade", { headers: ["Upgrade", "websocket"] }],
    ["Transfer-Encoding", { headers: ["Transfer-Encoding", "chunked"] }],
    ["two lengths", { headers: ["Content-Length", "2", "content-length", "2"], body: stream() }],
    ["a length that is none", { headers: ["Content-Length", "2, 2"], body: stream() }],
    ["a length without a body", { headers: ["Content-Length", "2"] }],
    ["a length that is another", { headers: ["Content-Length", "3"], body: Buffer.from("hi") }],
  ])("is refused with %s", (_, request) => {
    expect(refusal(request)).toMatchObject({ name: "H1Fault", code: "request" });
  });
});

describe("trailers of a request", () => {
  test("are lines", () => {
    expect(trailerText(["X-Sum", "1", "Y", ""])).toBe("X-Sum: 1\r\nY: \r\n");
    expect(trailerText([])).toBe("");
  });

  test.each([
    ["Content-Length", "1"],
    ["Host", "a"],
    ["Transfer-Encoding", "x"],
    ["A", "\n"],
    ["A"],
  ])("are refused with %s", (...pair) =>
    expect(() => trailerText(pair)).toThrow(expect.objectContaining({ code: "request" })),
  );
});
