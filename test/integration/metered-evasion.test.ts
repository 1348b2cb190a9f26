/** Buyers who try to have for nothing what is charged when its answer is over, from a balance and by payments, with all real parts. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, request as httpRequest, type RequestListener } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { listen } from "../../src/gateway/listener/listener.ts";
import { PAYMENT_HEADERS } from "../../src/x402/header.ts";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { X402_VERSION_2 } from "../../src/x402/x402.ts";
import { present, PURSE, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount } from "../support/payer.ts";
import { balanceIn, prepay } from "../support/prepaid.ts";
import { openSessionAt } from "../support/sign-in.ts";

const METER = `{ of: [json("used"), sse("used")], each: $0.000002, max: $0.01 }`;
const ROUTES = `
  POST /events: { meter: ${METER}, description: Events, credits: true }
  GET /either: { meter: ${METER}, description: Of two, credits: true, upstream: two }
  POST /fixed: { price: $0.005, description: At a fixed price, credits: true }
  POST /free: { price: $0.005, description: Free before, free: 2/d by address }
  POST /after: { price: $0.005, description: Settled when it is answered, settle: after }
  GET /refused: { meter: ${METER}, description: A refusal is sold, credits: true, goods: [402] }
`;
/** What a body may have. */
const LIMIT = 16 * 1024;
/** Hears that an answer has begun that is held here. */
let held: (() => void) | undefined;
/** Answers before it has the whole request, and does not end its events. */
const backend: RequestListener = (request, response) => {
  request.resume();
  if (request.url === "/refused") {
    const accepts = [{ scheme: "exact" }];
    response.writeHead(402).end(JSON.stringify({ x402Version: 1, accepts, used: 7 }));
  } else if (request.url === "/after") {
    response.write("held", () => held?.());
  } else if (request.url === "/either") response.end('{"used":50}');
  else {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write(`data: ${"x".repeat(64)}\n\n`);
  }
};

const closing = new AsyncDisposableStack();
const storePath = join(tmpdir(), `coinslot-evasion-${randomUUID()}`, "ledger.db");
const buyer = freshAccount();
let chain: Chain;
let gateway: RunningGateway;
let session: Record<string, string>;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  await prepay(storePath, { [buyer.address]: 1_000_000n });
  const server = createServer(backend);
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  closing.defer(() => server.closeAllConnections());
  closing.defer(() => void server.close());
  // Nobody listens at the other: requests go on to this one.
  const dead = createServer();
  const { port: nobody } = await listen(dead, { host: "127.0.0.1", port: 0 });
  dead.close();
  await once(dead, "close");
  const url = `http://127.0.0.1:${port}`;
  const more = `upstreams: { two: { targets: [http://127.0.0.1:${nobody}, ${url}] } }
credits: { packs: [$1] }
limits: { body: ${LIMIT / 1024}KiB }`;
  const setup = { chain, routes: ROUTES, more, storePath, upstreamUrl: url };
  gateway = closing.use(await startGateway(setup));
  session = { [SESSION_HEADER]: await openSessionAt(gateway.url, buyer) };
});

afterAll(() => closing.disposeAsync());

const left = () => balanceIn(storePath, buyer.address);

/** Asks, sends a part of a body that nobody reads, has what there is of the answer, and sends more than is taken. */
async function overflow(
  path: string,
  headers: Record<string, string>,
  begun?: Promise<void>,
): Promise<string> {
  const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
  await once(socket, "connect");
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.write(
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n${lines.join("")}\r\n1\r\nx\r\n`,
  );
  let said = "";
  socket.on("error", () => {});
  socket.on("data", (part: Buffer) => (said += part.toString()));
  await (begun ?? vi.waitFor(() => expect(said).toContain("xxxx")));
  const part = `1000\r\n${"x".repeat(4096)}\r\n`;
  const closed = once(socket, "close");
  for (let sent = 0; sent <= LIMIT; sent += 4096) socket.write(part);
  await closed;
  return said;
}

it("one whose request was tried elsewhere first pays for what he has got", async () => {
  const before = left();
  for (let turn = 0; turn < 2; turn += 1) {
    const answer = await fetch(`${gateway.url}/either`, { headers: session });
    expect([answer.status, answer.headers.get("X-402-Charged")]).toEqual([200, "0.0001 USDC"]);
  }
  await vi.waitFor(() => expect(left()).toBe(before - 200n));
});

it("one who breaks his own request in the middle of its answer has bought that", async () => {
  const before = left();
  expect(await overflow("/fixed", session)).toContain("HTTP/1.1 200");
  await vi.waitFor(() => expect(left()).toBe(before - 5_000n));
  expect(await overflow("/events", session)).toContain("HTTP/1.1 200");
  await vi.waitFor(() => expect(left()).toBe(before - 15_000n));
});

it("by a payment, too: nothing is owed for it", async () => {
  const payer = await richBuyer(chain);
  const init = { method: "POST", body: "x" };
  const header = await sign(payer, `${gateway.url}/events`, { init, version: X402_VERSION_2 });
  const headers = { [PAYMENT_HEADERS[X402_VERSION_2]]: header };
  expect(await overflow("/events", headers)).toContain("HTTP/1.1 200");
  const leaving = new AbortController();
  const again = await fetch(`${gateway.url}/events`, { ...init, headers, signal: leaving.signal });
  leaving.abort();
  expect(again.status).toBe(402);
});

it("and what is free is used by that", async () => {
  for (let turn = 0; turn < 2; turn += 1) await overflow("/free", {});
  const asked = httpRequest(`${gateway.url}/free`, { method: "POST" }).end();
  const [answer] = await once(asked, "response");
  asked.destroy();
  expect(answer.statusCode).toBe(402);
});

it("where it is paid behind the work he is answered, and charged nothing", async () => {
  const payer = await richBuyer(chain);
  const init = { method: "POST", body: "x" };
  const header = await sign(payer, `${gateway.url}/after`, { init, version: X402_VERSION_2 });
  const begun = new Promise<void>((resolve) => (held = resolve));
  const headers = { [PAYMENT_HEADERS[X402_VERSION_2]]: header };
  const said = await overflow("/after", headers, begun);
  expect(said).toContain("HTTP/1.1 413");
  expect(said).toContain("nothing was charged");
  expect(await chain.balanceOf(payer.address)).toBe(PURSE);
});

it("a refusal that is sold says what it has used", async () => {
  const before = left();
  const answer = await fetch(`${gateway.url}/refused`, { headers: session });
  expect([answer.status, answer.headers.get("X-402-Charged")]).toEqual([402, "0.000014 USDC"]);
  await vi.waitFor(() => expect(left()).toBe(before - 14n));
});

it("and is given again whole", async () => {
  const payer = await richBuyer(chain);
  const place = `${gateway.url}/refused`;
  const header = await sign(payer, place, { version: X402_VERSION_2 });
  const first = await present(place, header, {}, X402_VERSION_2);
  const again = await present(place, header, {}, X402_VERSION_2);
  expect(again.text).toBe(first.text);
});
