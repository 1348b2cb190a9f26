/** 103 Early Hints (RFC 8297): the one interim answer of a backend that reaches a client, and only a free one. */
import { createSecureServer } from "node:http2";
import type { IncomingHttpHeaders } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { describe, expect, onTestFinished, test } from "vitest";
import { AUTHORITY, BACKEND_CERTIFICATE, BACKEND_KEY } from "../../support/upstream-tls.ts";
import { front, target } from "./engine-stage.ts";
import { begin, answerOf, connectHttp2, openSecureShop } from "./listener/secure-stage.ts";
import { head, openShop } from "./shop.ts";
import { onHead, rawBackend, RawClient } from "./stage.ts";

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi";
const HINTS = [
  "HTTP/1.1 103 Early Hints",
  'Link: </a.css>; rel="preload next"; as=style, </b.js>; rel=preload',
  "link: </c>",
  "X-PAYMENT-RESPONSE: forged",
  "X-402-Payer: forged",
  "Connection: X-Hop",
  "X-Hop: 1",
  "X-Odd: caf\xe9",
  "__proto__: a",
  "\r\n",
].join("\r\n");
const PASSED = [
  "HTTP/1.1 103 Early Hints",
  'Link: </a.css>; rel="preload next"; as=style, </b.js>; rel=preload',
  "link: </c>",
  "X-Odd: caf\xe9",
  "__proto__: a",
  "\r\n",
].join("\r\n");

/** Answers each request with the next text, and the last of them with another one when `more` says so. */
async function hinting(...texts: readonly string[]) {
  const left = [...texts];
  const sockets: Socket[] = [];
  const origin = await rawBackend((socket) => {
    onHead(socket, () => {
      sockets.push(socket);
      socket.write(left.shift() ?? "", "latin1");
    });
  });
  const more = (): void => void sockets.at(-1)?.write(left.shift() ?? "", "latin1");
  return { origin, more, sockets };
}

const ask = (path: string, version = "1.1"): string =>
  `GET ${path} HTTP/${version}\r\nHost: shop.example\r\n\r\n`;

describe.each(["http1", "h2"] as const)("on a free route (engine for %s)", (protocol) => {
  test("they reach the client before there is an answer, without what does not cross", async () => {
    const { origin, more } = await hinting(HINTS, OK);
    const engine = target(origin, { protocol });
    const client = new RawClient(await front((exchange) => engine.forward(exchange)), ask("/"));
    expect(await client.until("\r\n\r\n")).toBe(PASSED);
    more();
    expect(await client.until("\r\n\r\nhi")).toMatch(
      /^HTTP\/1\.1 103 [^]*\r\n\r\nHTTP\/1\.1 200 OK/,
    );
  });

  test("100 and 102 are not passed on", async () => {
    const { origin } = await hinting(
      `HTTP/1.1 102 Processing\r\nLink: </a>\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </b>\r\n\r\n${OK}`,
    );
    const engine = target(origin, { protocol });
    const client = new RawClient(await front((exchange) => engine.forward(exchange)), ask("/"));
    const text = await client.until("\r\n\r\nhi");
    expect(text).not.toContain("102");
    expect(text).not.toContain("</a>");
    expect(text).toContain("</b>");
  });
});

describe("hints", () => {
  test("are kept from a client of HTTP/1.0, which would take them for the answer", async () => {
    const { origin } = await hinting(HINTS + OK);
    const { port } = await openShop(origin);
    const { text } = await new RawClient(port, ask("/free", "1.0")).closed;
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
  });

  test("of what is sold are not told, before or after it is paid", async () => {
    const { origin, sockets } = await hinting(HINTS + OK);
    const shop = await openShop(origin);
    const client = new RawClient(shop.port, ask("/paid"));
    expect(await client.until("402")).toMatch(/^HTTP\/1\.1 402 /);
    expect(sockets).toEqual([]);
    const buyer = new RawClient(shop.port, head("/paid"));
    const text = await buyer.until("\r\n\r\nhi");
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(text).not.toContain("103");
  });

  test("do not begin the answer: a backend that dies behind them is a 502", async () => {
    const { origin, sockets } = await hinting(HINTS);
    const { port } = await openShop(origin);
    const client = new RawClient(port, ask("/free"));
    await client.until("103");
    sockets[0]?.destroy();
    expect(await client.until("502")).toMatch(/\r\n\r\nHTTP\/1\.1 502 /);
  });

  test("wait for the answers of the requests before theirs", async () => {
    const { origin, sockets } = await hinting("", HINTS + OK);
    const { port } = await openShop(origin);
    const client = new RawClient(port, ask("/free/1"));
    await expect.poll(() => sockets.length).toBe(1);
    client.socket.write(ask("/free/2"));
    await expect.poll(() => sockets.length).toBe(2);
    sockets[0]?.write("HTTP/1.1 201 Created\r\nContent-Length: 5\r\n\r\nfirst");
    const text = await client.until("\r\n\r\nhi");
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 201", "HTTP/1.1 103", "HTTP/1.1 200"]);
  });

  test("reach a client of HTTP/2 from a backend of HTTP/1.1", async () => {
    const { origin, more } = await hinting(HINTS, OK);
    const { port } = await openSecureShop(origin);
    const stream = begin(await connectHttp2(port));
    const hints = await new Promise<readonly [IncomingHttpHeaders, readonly string[]]>(
      (resolve) => {
        stream.once("headers", (headers, _flags, raw) => resolve([headers, raw]));
      },
    );
    expect(hints[0]).toMatchObject({ ":status": 103, "x-odd": "caf\xe9" });
    expect(hints[0].link).toContain("</c>");
    expect(Object.keys(hints[0]).join()).not.toMatch(/payment|402|hop|connection/);
    more();
    expect(await answerOf(stream)).toMatchObject({ status: 200, body: Buffer.from("hi") });
  });

  test("reach a client of HTTP/1.1 from a backend of HTTP/2", async () => {
    const server = createSecureServer({ cert: BACKEND_CERTIFICATE, key: BACKEND_KEY });
    server.on("stream", (stream) => {
      stream.on("error", () => {});
      const lines = { link: ["</a>", "</b>"], "x-402-payer": "forged" };
      stream.additionalHeaders({ ":status": 103, ...lines });
      setTimeout(() => {
        stream.respond({ ":status": 200 });
        stream.end("hi");
      }, 20);
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const tls = { ca: AUTHORITY, serverName: "api.internal" };
    const engine = target(`https://127.0.0.1:${port}`, { protocol: "h2", tls });
    const client = new RawClient(await front((exchange) => engine.forward(exchange)), ask("/"));
    const text = await client.until("200 OK");
    expect(text).toMatch(
      /^HTTP\/1\.1 103 Early Hints\r\nlink: <\/a>, ?<\/b>\r\n\r\nHTTP\/1\.1 200/,
    );
  });
});
