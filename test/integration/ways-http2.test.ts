/** What is paid from a balance, and what is charged by use, over HTTP/2: many streams of one connection, and streams that are reset. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { RequestListener } from "node:http";
import { connect, constants, type ClientHttp2Session, type ClientHttp2Stream } from "node:http2";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { PAYMENT_HEADERS } from "../../src/x402/header.ts";
import { SESSION_HEADER } from "../../src/x402/session.ts";
import { X402_VERSION_2 } from "../../src/x402/x402.ts";
import { PURSE, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { FIRST } from "../support/listener-tls.ts";
import { modelBackend } from "../support/model-backend.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import { balanceIn, prepay } from "../support/prepaid.ts";
import { openSessionAt } from "../support/sign-in.ts";

const MAX = 10_000n;
const PRICE = 1_000n;
const HAD = 1_000_000n;
/** Requests at once on one connection, and how many of them one buyer can pay. */
const STREAMS = 40;
const PAYABLE = 25;
const ROUTES = `
  POST /chat: { meter: { of: sse("usage.total_tokens"), each: $0.000002, max: $0.01 }, credits: true, description: A model }
  /weather: { price: $0.001, credits: true, description: Weather }
`;

const closing = new AsyncDisposableStack();
const storePath = join(tmpdir(), `coinslot-http2-${randomUUID()}`, "ledger.db");
const model = modelBackend();
const buyer = freshAccount();
const poor = freshAccount();
/** Requests that wait for their answer, by their query, and those that the backend has heard are given up. */
const held = new Map<string, () => void>();
const givenUp = new Set<string>();
let chain: Chain;
let gateway: RunningGateway;

const backend: RequestListener = (request, response) => {
  const { url = "" } = request;
  if (!url.startsWith("/weather")) return model.listener(request, response);
  request.resume();
  const { search } = new URL(url, "http://backend");
  if (search === "") return response.end("sunny");
  response.once("close", () => givenUp.add(search));
  held.set(search, () => response.end("sunny"));
};

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  await prepay(storePath, {
    [buyer.address]: HAD,
    [poor.address]: PRICE * BigInt(PAYABLE),
  });
  const folder = await mkdtemp(join(tmpdir(), "coinslot-http2-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const [cert, key] = [join(folder, "tls.crt"), join(folder, "tls.key")];
  await writeFile(cert, FIRST.cert);
  await writeFile(key, FIRST.key);
  const files = { "tls.crt": FIRST.cert, "tls.key": FIRST.key };
  const listen = `["127.0.0.1:0", { address: "127.0.0.1:0", tls: { cert: ${cert}, key: ${key} } }]`;
  const more = "credits: { packs: [$1] }";
  const setup = { chain, routes: ROUTES, more, files, listen, storePath, backend };
  gateway = closing.use(await startGateway(setup));
});

afterAll(() => closing.disposeAsync());

function connection(): ClientHttp2Session {
  const port = gateway.running.addresses.gateway[1]?.port ?? 0;
  const session = connect(`https://127.0.0.1:${port}`, { rejectUnauthorized: false });
  session.on("error", () => undefined);
  onTestFinished(() => session.destroy());
  return session;
}

interface Asked {
  readonly stream: ClientHttp2Stream;
  /** Once its head is there. */
  readonly head: Promise<{ readonly status: number; readonly charged: unknown }>;
  /** All of it, however it ends. */
  readonly text: Promise<string>;
  /** Resolves once something of it is there. */
  readonly begun: Promise<void>;
}

function ask(
  session: ClientHttp2Session,
  path: string,
  { headers, body }: { readonly headers: Record<string, string>; readonly body?: object },
): Asked {
  const method = body === undefined ? "GET" : "POST";
  const lines = { ":method": method, ":path": path, ":authority": "localhost:8402", ...headers };
  const stream = session.request(lines, { endStream: body === undefined });
  if (body !== undefined) stream.end(JSON.stringify(body));
  const head = Promise.withResolvers<Awaited<Asked["head"]>>();
  const text = Promise.withResolvers<string>();
  const begun = Promise.withResolvers<void>();
  let said = "";
  stream.on("response", (answer) => {
    head.resolve({ status: Number(answer[":status"]), charged: answer["x-402-charged"] });
  });
  stream.setEncoding("utf8").on("data", (part: string) => {
    said += part;
    begun.resolve();
  });
  stream.on("error", () => undefined);
  stream.once("close", () => {
    text.resolve(said);
    head.resolve({ status: 0, charged: undefined });
  });
  return { stream, head: head.promise, text: text.promise, begun: begun.promise };
}

const balanceOf = ({ address }: FreshAccount): bigint => balanceIn(storePath, address);

async function sessionOf(account: FreshAccount): Promise<Record<string, string>> {
  return { [SESSION_HEADER.toLowerCase()]: await openSessionAt(gateway.url, account) };
}

/** What of a balance is gone since, once that is written. */
async function spentSince(before: bigint, amount: bigint): Promise<void> {
  await vi.waitFor(() => expect(before - balanceOf(buyer)).toBe(amount), { timeout: 20_000 });
}

const EVENTS = { stream: true, how: "holds", stream_options: { include_usage: true } };

describe("a balance", () => {
  it("is spent by all streams of one connection together, and no further than it goes", async () => {
    const session = connection();
    const headers = await sessionOf(poor);
    const before = gateway.upstream.length;
    const asked = Array.from({ length: STREAMS }, () => ask(session, "/weather", { headers }));
    const statuses = await Promise.all(asked.map(async ({ head }) => (await head).status));
    const count = (status: number): number => statuses.filter((each) => each === status).length;
    expect([count(200), count(402)]).toEqual([PAYABLE, STREAMS - PAYABLE]);
    expect(gateway.upstream.length - before).toBe(PAYABLE);
    await vi.waitFor(() => expect(balanceOf(poor)).toBe(0n), { timeout: 20_000 });
    expect(await chain.balanceOf(gateway.payee)).toBe(0n);
  });

  it("is not debited for a stream that is reset before its answer, but for what was asked to be done", async () => {
    const session = connection();
    const headers = await sessionOf(buyer);
    const before = balanceOf(buyer);
    const asking = ask(session, "/weather?asking", { headers });
    const doing = ask(session, "/weather?doing", { headers, body: { a: 1 } });
    const staying = ask(session, "/weather?staying", { headers });
    await vi.waitFor(() => expect(held.size).toBe(3));
    for (const { stream } of [asking, doing]) stream.close(constants.NGHTTP2_CANCEL);
    await vi.waitFor(() => expect(givenUp.has("?asking")).toBe(true), { timeout: 20_000 });
    for (const answer of held.values()) answer();
    // The others of its connection go on.
    expect(await staying.head).toEqual({ status: 200, charged: "0.001 USDC" });
    expect(await staying.text).toBe("sunny");
    await spentSince(before, 2n * PRICE);
    // And nothing comes later.
    expect(await ask(session, "/weather", { headers }).text).toBe("sunny");
    await spentSince(before, 3n * PRICE);
  });
});

it("a browser's session is had out of the crumbs of its cookies, and no crumb of it goes on", async () => {
  const token = Object.values(await sessionOf(buyer))[0] ?? "";
  const before = balanceOf(buyer);
  const seen = gateway.upstream.length;
  const lines = [
    [":method", "GET", ":path", "/weather", ":authority", "localhost:8402"],
    ["sec-fetch-site", "same-origin", "sec-fetch-dest", "empty", "sec-fetch-mode", "cors"],
    ["cookie", "one=1", "cookie", `x402-session=${token}`, "cookie", "two=2"],
  ];
  const stream = connection().request(lines.flat());
  const [answer] = await once(stream, "response");
  expect([answer[":status"], answer["x-402-charged"]]).toEqual([200, "0.001 USDC"]);
  stream.resume();
  await spentSince(before, PRICE);
  expect(gateway.upstream[seen]?.headers.cookie).toBe("one=1; two=2");
});

describe("events that are charged by use", () => {
  it("pass as they come, paid from a balance, many on one connection", async () => {
    const session = connection();
    const headers = await sessionOf(buyer);
    const before = balanceOf(buyer);
    const tokens = [100, 200, 300];
    const asked = tokens.map((each) =>
      ask(session, "/chat", { headers, body: { ...EVENTS, tokens: each } }),
    );
    // While the backend works on.
    await Promise.all(asked.map(({ begun }) => begun));
    while (model.release());
    for (const { text } of asked) expect(await text).toContain("[DONE]");
    await spentSince(before, 2n * 600n);
  });

  it("leave their change to who has paid for them on chain", async () => {
    const payer = await richBuyer(chain);
    const init = { method: "POST", body: JSON.stringify({}) };
    const version = X402_VERSION_2;
    const header = await sign(payer, `${gateway.url}/chat`, { version, init });
    const headers = { [PAYMENT_HEADERS[version].toLowerCase()]: header };
    const paid = ask(connection(), "/chat", { headers, body: { ...EVENTS, tokens: 500 } });
    await paid.begun;
    expect(model.release()).toBe(true);
    expect(await paid.text).toContain("[DONE]");
    await vi.waitFor(() => expect(balanceOf(payer)).toBe(MAX - 1_000n), { timeout: 20_000 });
    expect(await chain.balanceOf(payer.address)).toBe(PURSE - MAX);
  });

  it("are bought by who resets them in the middle, for what they have used then", async () => {
    const session = connection();
    const headers = await sessionOf(buyer);
    const before = balanceOf(buyer);
    const left = ask(session, "/chat", { headers, body: { ...EVENTS, tokens: 50 } });
    await left.begun;
    left.stream.close(constants.NGHTTP2_CANCEL);
    expect(await left.text).not.toContain("[DONE]");
    // The connection goes on meanwhile, and what it asks is answered beside what is read on.
    expect(await ask(session, "/weather", { headers }).text).toBe("sunny");
    expect(model.release()).toBe(true);
    await spentSince(before, 100n + PRICE);
  });

  it("that are not read hold up nothing else of their connection, and are charged once they are let go", async () => {
    const session = connection();
    const headers = await sessionOf(buyer);
    const before = balanceOf(buyer);
    const body = { ...EVENTS, tokens: 70, padding: 4 * 1024 * 1024 };
    const unread = ask(session, "/chat", { headers, body });
    await unread.begun;
    unread.stream.pause();
    expect(model.release()).toBe(true);
    // Its window is full: the others have windows of their own.
    for (let times = 0; times < 3; times += 1) {
      expect(await ask(session, "/weather", { headers }).text).toBe("sunny");
    }
    await spentSince(before, 3n * PRICE);
    unread.stream.close(constants.NGHTTP2_CANCEL);
    await spentSince(before, 3n * PRICE + 140n);
    expect(await ask(session, "/weather", { headers }).text).toBe("sunny");
    await spentSince(before, 4n * PRICE + 140n);
  });

  it("cost who has reset them nothing where their backend breaks off", async () => {
    const session = connection();
    const headers = await sessionOf(buyer);
    const before = balanceOf(buyer);
    const broken = ask(session, "/chat", { headers, body: { ...EVENTS, how: "breaks" } });
    await broken.begun;
    broken.stream.close(constants.NGHTTP2_CANCEL);
    await broken.text;
    expect(model.release()).toBe(true);
    expect(await ask(session, "/weather", { headers }).text).toBe("sunny");
    await spentSince(before, PRICE);
  });

  it("are charged by what they have used where the whole connection goes", async () => {
    const session = connection();
    const headers = await sessionOf(buyer);
    const before = balanceOf(buyer);
    const asked = [10, 20].map((tokens) =>
      ask(session, "/chat", { headers, body: { ...EVENTS, tokens } }),
    );
    await Promise.all(asked.map(({ begun }) => begun));
    session.destroy();
    await Promise.all(asked.map(({ text }) => text));
    while (model.release());
    await spentSince(before, 60n);
  });
});
