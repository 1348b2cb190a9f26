import { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { BELIEVED_NAMES } from "../../../../src/http/header-names.ts";
import type { Client } from "../../../../src/gateway/client/client.ts";
import {
  framingProblem,
  NameFilter,
  requestLines,
  requestTrailerLines,
  interimLines,
  responseLines,
  trailerLines,
} from "../../../../src/gateway/message/field-lines.ts";

function request(rawHeaders: readonly string[], method = "POST", minor = 1): IncomingMessage {
  const message = new IncomingMessage(new Socket());
  message.method = method;
  message.httpVersion = `1.${minor}`;
  message.httpVersionMajor = 1;
  message.httpVersionMinor = minor;
  message.rawHeaders = [...rawHeaders];
  return message;
}

const client: Client = {
  address: "192.0.2.1",
  proto: "http",
  host: "a.example",
  isDirect: true,
  forwardedFor: "192.0.2.1",
};

/** What the client's own lines become; ours for every request are left out. */
function crossed(rawHeaders: readonly string[], added: readonly string[] = []): string[] {
  const { lines } = requestLines({
    request: { rawHeaders: [...rawHeaders] },
    client,
    requestHeaders: added,
  });
  const ours = lines.indexOf("X-Forwarded-For");
  expect(lines[ours + 1]).toBe("192.0.2.1");
  return lines.slice(0, ours);
}

describe("a client's header line", () => {
  test.each([
    ["Connection", "keep-alive"],
    ["connection", "close"],
    ["Keep-Alive", "timeout=5"],
    ["Proxy-Connection", "keep-alive"],
    ["Proxy-Authorization", "Basic eA=="],
    ["Proxy-Anything", "1"],
    ["TE", "trailers"],
    ["Trailer", "X-Sum"],
    ["Transfer-Encoding", "chunked"],
    ["Upgrade", "h2c"],
    ["HTTP2-Settings", "AAMAAABk"],
    ["Host", "evil.example"],
    ["Expect", "100-continue"],
    ["X-PAYMENT", "eyJ9"],
    ["x-payment", "eyJ9"],
    ["SIGN-IN-WITH-X", "eyJ9"],
    ["X-Payment-Response", "eyJ9"],
    ["X-402-Payer", "0xdead"],
    ["x-402-anything", "1"],
    ["X_402_Payer", "0xdead"],
    ["X-402_Payer", "0xdead"],
    ["X_Payment", "eyJ9"],
    ["Content_Length", "3"],
    ["_", "1"],
    ["Forwarded", "for=1.2.3.4"],
    ["X-Forwarded-For", "1.2.3.4"],
    ["X-Forwarded-Host", "evil.example"],
    ["x-forwarded-proto", "https"],
    ["X-Forwarded-Prefix", "/admin"],
    ["X-Real-IP", "1.2.3.4"],
    ["X-Original-URL", "/admin"],
    ["X-Rewrite-URL", "/admin"],
    ["X-Original-Host", "evil.example"],
    ["X-HTTP-Method-Override", "DELETE"],
    ["X-HTTP-Method", "DELETE"],
    ["X-Method-Override", "DELETE"],
  ])("%s does not cross", (name, value) => {
    expect(crossed([name, value, "Accept", "*/*"])).toEqual(["Accept", "*/*"]);
  });

  test.each(Array.from("!#$%&'*+.^_`|~"))(
    "with %s in its name does not cross, wherever it stands",
    (odd) => {
      const names = [`X${odd}402${odd}Payer`, `X-402${odd}Payer`, `${odd}A`, `A${odd}`, odd];
      expect(crossed(names.flatMap((name) => [name, "1"]))).toEqual([]);
      const trailers = names.flatMap((name) => [name, "1"]);
      expect(requestTrailerLines(trailers, { requestHeaders: [] })).toEqual([]);
    },
  );

  test.each(BELIEVED_NAMES)("%s, which some program believes, does not cross", (listed) => {
    const name = listed.replace("*", "anything");
    expect(crossed([name, "1", name.toUpperCase(), "2", "Accept", "*/*"])).toEqual([
      "Accept",
      "*/*",
    ]);
    expect(requestTrailerLines([name, "1"], { requestHeaders: [] })).toEqual([]);
  });

  test("crosses where there is a list only when it is listed, or HTTP needs it", () => {
    const names = NameFilter.allowing(["user-agent", "x-402-payer", "client-ip", "x_y"]);
    const listed = ["User-Agent", "1", "Content-Type", "text/plain", "If-Match", "*"];
    const others = ["Cookie", "a=b", "X-402-Payer", "1", "Client-IP", "1", "X_Y", "1", "Host", "a"];
    const rawHeaders = [...others, ...listed, "Range", "bytes=0-"];
    const { lines } = requestLines({ request: { rawHeaders }, client, requestHeaders: [], names });
    expect(lines.slice(0, 8)).toEqual([...listed, "Range", "bytes=0-"]);
    expect(lines[8]).toBe("X-Forwarded-For");
    const trailers = requestTrailerLines([...others, "User-Agent", "1"], {
      requestHeaders: [],
      names,
    });
    expect(trailers).toEqual(["User-Agent", "1"]);
  });

  test.each([
    ["Accept-Encoding", "gzip"],
    ["authorization", "Bearer x"],
    ["Cookie", "a=b"],
    ["Content-Type", "application/json"],
    ["Range", "bytes=0-3"],
    ["X-Request-ID", "7"],
    ["X-Middleware-Prefetch", "1"],
    ["X-Nextjs-Data", "1"],
    ["X-Auth-Token", "7"],
    ["X-Requested-With", "fetch"],
    ["Client-IPs", "1"],
    ["Destination", "/a"],
    ["Idempotency-Key", "7"],
    ["X-Paymentx", "1"],
    ["X-402", "1"],
    ["Access-Control-Expose-Headers", "X-PAYMENT-RESPONSE"],
    ["Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="],
  ])("%s crosses as it is spelled", (name, value) => {
    expect(crossed([name, value])).toEqual([name, value]);
  });

  test("that is repeated crosses repeated, in order", () => {
    const lines = ["A", "1", "b", "2", "A", "3"];
    expect(crossed(lines)).toEqual(lines);
  });

  test("listed in Connection is dropped", () => {
    expect(crossed(["Connection", "close, X-Hop ,x-other", "X-Hop", "1", "X-OTHER", "2"])).toEqual(
      [],
    );
    expect(crossed(["X-Hop", "1", "Connection", "a", "Connection", "x-hop"])).toEqual([]);
  });

  test("listed in Connection takes neither our lines nor the length of the body away", () => {
    const names = "x-402-payer, x-forwarded-for, x-forwarded-proto, content-length";
    const { lines, contentLength } = requestLines({
      request: { rawHeaders: ["Connection", names, "Content-Length", "3", "Host", "b.example"] },
      client,
      requestHeaders: ["X-402-Payer", "0xbeef"],
    });
    expect(lines).toEqual([
      "Content-Length",
      "3",
      "X-Forwarded-For",
      "192.0.2.1",
      "X-Forwarded-Host",
      "a.example",
      "X-Forwarded-Proto",
      "http",
      "X-402-Payer",
      "0xbeef",
    ]);
    expect(contentLength).toBe(3);
  });

  test("is replaced by a line for the backend of the same name, and so are those of the client", () => {
    const { lines } = requestLines({
      request: { rawHeaders: ["x-api-key", "theirs", "Accept", "*/*"] },
      client: { ...client, host: undefined },
      requestHeaders: ["X-Api-Key", "ours", "x-forwarded-proto", "https"],
    });
    expect(lines.slice(0, 4)).toEqual(["Accept", "*/*", "X-Forwarded-For", "192.0.2.1"]);
    expect(lines.slice(4)).toEqual(["X-Api-Key", "ours", "x-forwarded-proto", "https"]);
  });

  test("that is to be removed does not cross in any spelling", () => {
    const { lines } = requestLines({
      request: { rawHeaders: ["X-Secret", "1", "x-secret", "2", "X-Secrets", "3"] },
      client,
      requestHeaders: [],
      removed: new Set(["x-secret"]),
    });
    expect(lines.slice(0, 2)).toEqual(["X-Secrets", "3"]);
  });

  test("of any spelling never makes a reserved name cross", () => {
    const reserved = fc.constantFrom(
      "x-payment",
      "x-402-payer",
      "connection",
      "host",
      "forwarded",
      "x-forwarded-for",
      "transfer-encoding",
      "x-original-url",
      "x-original-uri",
      "x-original-method",
      "x-http-path-override",
      "x-envoy-original-path",
      "x-payment-response",
      "expect",
      "te",
    );
    const spelled = fc
      .tuple(reserved, fc.array(fc.boolean(), { minLength: 20, maxLength: 20 }))
      .map(([name, upper]) =>
        Array.from(name)
          .map((c, index) => (upper[index] === true ? c.toUpperCase() : c))
          .join(""),
      );
    fc.assert(
      fc.property(fc.array(spelled, { minLength: 1, maxLength: 8 }), (names) => {
        expect(crossed(names.flatMap((name) => [name, "1"]))).toEqual([]);
      }),
      { numRuns: 2_000 },
    );
  });

  test("with a name never seen before is judged right however many came before it", () => {
    for (let index = 0; index < 3_000; index += 1) {
      expect(crossed([`X-402-${index}`, "1", `Y-${index}`, "2"])).toEqual([`Y-${index}`, "2"]);
    }
  });
});

describe("the framing of a request", () => {
  test.each<[string, readonly string[], string, number]>([
    ["no body", ["Host", "a"], "GET", 1],
    ["a length", ["Host", "a", "Content-Length", "3"], "POST", 1],
    ["a zero length on a GET", ["Content-Length", "0"], "GET", 1],
    ["a body on a DELETE by length", ["Content-Length", "3"], "DELETE", 1],
    ["chunks", ["Transfer-Encoding", "chunked"], "POST", 1],
    ["chunks spelled otherwise", ["transfer-encoding", "Chunked"], "PUT", 1],
    ["no Host in HTTP/1.0", [], "GET", 0],
  ])("is taken with %s", (_, rawHeaders, method, minor) => {
    expect(framingProblem(request(rawHeaders, method, minor))).toBeNull();
  });

  test.each<[string, readonly string[], string, number]>([
    ["two hosts", ["Host", "a", "host", "b"], "GET", 1],
    ["two equal hosts", ["Host", "a", "Host", "a"], "GET", 1],
    ["two lengths", ["Content-Length", "3", "Content-Length", "4"], "POST", 1],
    ["two equal lengths", ["Content-Length", "3", "content-length", "3"], "POST", 1],
    ["a list of lengths", ["Content-Length", "3, 3"], "POST", 1],
    ["a signed length", ["Content-Length", "+3"], "POST", 1],
    ["a negative length", ["Content-Length", "-3"], "POST", 1],
    ["a hexadecimal length", ["Content-Length", "0x3"], "POST", 1],
    ["an empty length", ["Content-Length", ""], "POST", 1],
    ["a length beyond exact integers", ["Content-Length", "9999999999999999"], "POST", 1],
    ["both", ["Content-Length", "3", "Transfer-Encoding", "chunked"], "POST", 1],
    ["two codings", ["Transfer-Encoding", "chunked", "Transfer-Encoding", "chunked"], "POST", 1],
    ["gzip before chunks", ["Transfer-Encoding", "gzip, chunked"], "POST", 1],
    ["chunks twice", ["Transfer-Encoding", "chunked, chunked"], "POST", 1],
    ["identity", ["Transfer-Encoding", "identity"], "POST", 1],
    ["an unknown coding", ["Transfer-Encoding", "xchunked"], "POST", 1],
    ["an empty coding", ["Transfer-Encoding", ""], "POST", 1],
    ["chunks in HTTP/1.0", ["Transfer-Encoding", "chunked"], "POST", 0],
    ["chunks on a GET", ["Transfer-Encoding", "chunked"], "GET", 1],
    ["chunks on a HEAD", ["Transfer-Encoding", "chunked"], "HEAD", 1],
    ["chunks on a DELETE", ["Transfer-Encoding", "chunked"], "DELETE", 1],
    ["chunks on OPTIONS", ["Transfer-Encoding", "chunked"], "OPTIONS", 1],
  ])("is refused with %s", (_, rawHeaders, method, minor) => {
    expect(framingProblem(request(rawHeaders, method, minor))).toMatch(/\.$/);
  });
});

test("an interim answer frames nothing, and has no line that an answer may not have", () => {
  const lines = ["Content-Length", "5", "Link", "</a>", "content-length", "5", "X-402-Payer", "a"];
  expect(interimLines([...lines, "X-Gone", "1"], new Set(["x-gone"]))).toEqual(["Link", "</a>"]);
});

describe("a backend's header line", () => {
  test.each([
    ["Connection", "close"],
    ["Keep-Alive", "timeout=5"],
    ["Transfer-Encoding", "chunked"],
    ["Upgrade", "h2c"],
    ["Proxy-Authenticate", "Basic"],
    ["Trailer", "X-Sum"],
    ["TE", "trailers"],
    ["X-PAYMENT-RESPONSE", "forged"],
    ["x-payment-response", "forged"],
    ["X-402-Payer", "forged"],
    ["x-402-transaction", "forged"],
    ["X_PAYMENT_RESPONSE", "forged"],
    ["X.402.Payer", "forged"],
    ["Proxy_Authenticate", "Basic"],
    ["Transfer~Encoding", "chunked"],
    ["Content_Length", "3"],
    ["Cache.Control", "public"],
  ])("%s does not cross", (name, value) => {
    expect(responseLines([name, value, "Server", "s"], [], [])).toEqual(["Server", "s"]);
    expect(interimLines([name, value, "Server", "s"])).toEqual(["Server", "s"]);
    expect(trailerLines([name, value, "Server", "s"])).toEqual([["Server", "s"]]);
  });

  test("crosses as it is spelled, repeated ones apart", () => {
    const lines = [
      "SET-cookie",
      "a=1",
      "Set-Cookie",
      "b=2; Path=/",
      "ETag",
      '"x"',
      "X_Y",
      "z",
      "X.Y",
      "z",
    ];
    expect(responseLines(lines, [], [])).toEqual(lines);
  });

  test("is replaced by a line of ours with the same name", () => {
    const lines = ["cache-control", "public", "A", "1", "Cache-Control", "max-age=9"];
    const set = ["Cache-Control", "private, no-store", "X-PAYMENT-RESPONSE", "ours"];
    expect(responseLines(lines, set, [])).toEqual(["A", "1", ...set]);
  });

  test.each([
    "CDN-Cache-Control",
    "cloudflare-cdn-cache-control",
    "X-LiteSpeed-Cache-Control",
    "Surrogate-Control",
    "Surrogate-Key",
    "X-Accel-Expires",
    "Edge-Control",
    "Expires",
    "Pragma",
  ])("%s says nothing to caches where a line of ours does", (name) => {
    const set = ["Cache-Control", "private, no-store"];
    expect(responseLines([name, "600", "A", "1"], set, [])).toEqual(["A", "1", ...set]);
    expect(responseLines([name, "600"], ["A", "1"], [])).toEqual([name, "600", "A", "1"]);
    expect(trailerLines([name, "600", "Cache-Control", "public", "A", "1"])).toEqual([["A", "1"]]);
  });

  test("stands beside a line of ours that is added to it", () => {
    expect(responseLines(["Vary", "Accept"], [], ["Vary", "X-PAYMENT"])).toEqual([
      "Vary",
      "Accept",
      "Vary",
      "X-PAYMENT",
    ]);
  });

  test("listed in Connection is dropped, the length of the body is not", () => {
    const lines = ["Connection", "x-hop, content-length", "X-Hop", "1", "Content-Length", "3"];
    expect(responseLines(lines, [], [])).toEqual(["Content-Length", "3"]);
  });

  test("as a trailer crosses unless it is reserved or says how to read the message", () => {
    const lines = ["X-Sum", "1", "X-PAYMENT-RESPONSE", "forged", "x-402-payer", "forged"];
    expect(trailerLines([...lines, "Content-Length", "3", "Transfer-Encoding", "x"])).toEqual([
      ["X-Sum", "1"],
    ]);
  });
});
