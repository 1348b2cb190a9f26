import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type Server } from "node:http";
import { connect } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { WebSocket, WebSocketServer } from "ws";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { PAYMENT_HEADERS, RECEIPT_HEADERS } from "../../src/x402/header.ts";
import { present, PURSE, richBuyer, sign, VERSIONS } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";

let chain: Chain;
let gateway: RunningGateway;
let backend: Server;
const heard: IncomingHttpHeaders[] = [];

beforeAll(async () => {
  chain = await startChain();
  backend = createServer((_request, response) => void response.end("fine"));
  const sockets = new WebSocketServer({ server: backend });
  sockets.on("connection", (socket, request) => {
    heard.push(request.headers);
    socket.on("message", (message: Buffer) => socket.send(`echo ${message.toString()}`));
  });
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  gateway = await startGateway({
    chain,
    upstreamUrl: `http://127.0.0.1:${port}`,
    routes: `
  GET /feed: { price: $0.01, description: A live feed }
  GET /open: free
`,
  });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await drain(backend, AbortSignal.timeout(1_000));
  await chain.stop();
});

const feed = () => `${gateway.url.replace("http", "ws")}/feed`;

/** In both versions. */
const ASKED = [402, expect.stringMatching(/^eyJ/)];

/** The status of a refused handshake, and what is asked for in version 2. */
async function refusedWith(socket: WebSocket): Promise<readonly [number, unknown]> {
  const [, response] = await once(socket, "unexpected-response");
  return [response.statusCode, response.headers["payment-required"]];
}

it("a WebSocket on a priced route is refused with 402 unpaid, and reaches no backend", async () => {
  const before = heard.length;
  expect(await refusedWith(new WebSocket(feed()))).toEqual(ASKED);
  expect(heard.length).toBe(before);
});

describe.each(VERSIONS)("a WebSocket on a priced route, paid for in version %i,", (version) => {
  const paying = (header: string) => ({ headers: { [PAYMENT_HEADERS[version]]: header } });

  it("is sold once: paid for, switched, and the backend told who paid", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${gateway.url}/feed`, { version });
    const socket = new WebSocket(feed(), paying(header));
    const [upgrade] = await once(socket, "upgrade");
    const receipts = VERSIONS.map((each) => upgrade.headers[RECEIPT_HEADERS[each].toLowerCase()]);
    expect(receipts.map(Boolean)).toEqual(VERSIONS.map((each) => each === version));
    if (socket.readyState !== WebSocket.OPEN) await once(socket, "open");
    socket.send("hello");
    const [message] = await once(socket, "message");
    expect(String(message)).toBe("echo hello");
    expect(heard.at(-1)).toMatchObject({ "x-402-payer": buyer.address });
    expect(Object.keys(heard.at(-1) ?? {}).filter((name) => name.includes("payment"))).toEqual([]);
    socket.close();
    await once(socket, "close");
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    expect(await refusedWith(new WebSocket(feed(), paying(header)))).toEqual(ASKED);
  });

  it("survives a client that resets its connection while the payment settles", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${gateway.url}/feed`, { version });
    await chain.rpc("evm_setAutomine", [false]);
    try {
      const client = connect(Number(new URL(gateway.url).port), "127.0.0.1");
      const head = ["Host: x", "Connection: Upgrade", "Upgrade: websocket"];
      head.push(`${PAYMENT_HEADERS[version]}: ${header}`);
      head.push("Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==");
      client.write(`GET /feed HTTP/1.1\r\n${head.join("\r\n")}\r\n\r\n`);
      while (Object(await chain.rpc("txpool_status")).pending === "0x0") await turn();
      client.resetAndDestroy();
      await once(client, "close");
    } finally {
      await chain.rpc("evm_setAutomine", [true]);
      await chain.mine();
    }
    expect((await fetch(`${gateway.url}/open`)).status).toBe(200);
    const socket = new WebSocket(feed(), paying(header));
    await once(socket, "open");
    socket.terminate();
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
  });
});

it("a WebSocket on a free route is switched", async () => {
  const socket = new WebSocket(feed().replace("/feed", "/open"));
  await once(socket, "open");
  socket.send("hello");
  expect(String((await once(socket, "message"))[0])).toBe("echo hello");
  expect(heard.at(-1)?.["x-402-payer"]).toBeUndefined();
  socket.terminate();
});

it("an offer of h2c is ignored, and its request priced like any other", async () => {
  const headers = {
    Connection: "Upgrade, HTTP2-Settings",
    Upgrade: "h2c",
    "HTTP2-Settings": "AAMA",
  };
  const port = Number(new URL(gateway.url).port);
  const socket = connect(port, "127.0.0.1");
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
  socket.write(`GET /feed HTTP/1.1\r\nHost: x\r\n${lines.join("\r\n")}\r\n\r\n`);
  const [answer] = await once(socket, "data");
  expect(String(answer)).toMatch(/^HTTP\/1\.1 402 /);
  socket.destroy();
  expect(await present(`${gateway.url}/open`, "unused")).toMatchObject({ status: 200 });
});
