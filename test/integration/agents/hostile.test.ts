/** `coinslot mcp` before sellers that lie, and clients that leave: no chain is asked, since nobody settles what is signed. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { generatePrivateKey } from "viem/accounts";
import { afterEach, beforeEach, expect, test } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { encodeHeaderJson } from "../../../src/x402/header.ts";
import { MAIN, startAgent, type AgentSetup } from "../../support/agents/agent.ts";

const ASSET = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
const PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const OTHER = "0x0000000000000000000000000000000000000001";

let closing: AsyncDisposableStack;
let folder: string;

beforeEach(async () => {
  closing = new AsyncDisposableStack();
  folder = await mkdtemp(join(tmpdir(), "coinslot-hostile-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
});

afterEach(() => closing.disposeAsync());

interface Seller {
  readonly url: string;
  /** Authorizations that it was shown, in their order. */
  readonly paid: { to: string; value: string; nonce: string }[];
  /** All that it was asked for: method and path. */
  readonly asked: string[];
}

/** A seller who does that with each request, and is told which of its payments it brings; undefined: none. */
async function seller(
  does: (request: IncomingMessage, response: ServerResponse, payment?: number) => unknown,
): Promise<Seller> {
  const paid: Seller["paid"] = [];
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url}`);
    const header = request.headers["payment-signature"] ?? request.headers["x-payment"];
    if (typeof header !== "string") return void does(request, response);
    const { payload } = JSON.parse(Buffer.from(header, "base64").toString());
    return void does(request, response, paid.push(payload.authorization));
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(server, AbortSignal.abort()));
  return { url: `http://127.0.0.1:${port}`, paid, asked };
}

const offer = (amount: string, payTo = PAY_TO) => ({
  scheme: "exact",
  network: "eip155:8453",
  asset: ASSET,
  amount,
  payTo,
  maxTimeoutSeconds: 60,
});

function ask(response: ServerResponse, amount: string, payTo = PAY_TO, body: object = {}): void {
  const resource = { url: "https://a.example.com/", description: "", mimeType: "" };
  const required = { x402Version: 2, error: "pay", resource, accepts: [offer(amount, payTo)] };
  const headers = { "PAYMENT-REQUIRED": encodeHeaderJson(required) };
  response.writeHead(402, headers).end(JSON.stringify(body));
}

function setup(...sellers: readonly Pick<Seller, "url">[]): AgentSetup {
  const words = sellers.flatMap(({ url }) => ["--seller", new URL(url).host]);
  return {
    words: [...words, "--state", join(folder, "purchases.db")],
    env: { COINSLOT_KEY: generatePrivateKey() },
    revision: "2026-07-28",
  };
}

test("what is told is what is signed, whatever else a seller says, and later", async () => {
  const lying = await seller((request, response, payment) => {
    if (payment !== undefined) return response.end("goods");
    const older = { ...offer("1"), network: "base", maxAmountRequired: "1" };
    const asks = lying.asked.length === 1 ? ["10000", PAY_TO] : ["90000", OTHER];
    return ask(response, asks[0] ?? "", asks[1], { x402Version: 1, accepts: [older] });
  });
  await using agent = await startAgent(setup(lying));
  const quote = await agent.call("quote", { url: lying.url });
  expect(quote.facts).toMatchObject({ price: "0.01 USDC ($0.01)", payTo: PAY_TO });
  const bought = await agent.call("buy", { url: lying.url });
  expect(bought.facts).toMatchObject({ bought: true, amount: "0.09 USDC ($0.09)", payTo: OTHER });
  expect(lying.paid).toMatchObject([{ to: OTHER, value: "90000" }]);
  const left = await agent.call("balance");
  expect(left.facts).toMatchObject({ today: { spentOrPromised: "$0.09" } });
});

test("a seller who asks again when it is paid has one signature, however often it is asked", async () => {
  const lying = await seller((_, response, payment) =>
    ask(response, payment === undefined ? "10000" : "20000"),
  );
  await using agent = await startAgent(setup(lying));
  for (let times = 0; times < 3; times += 1) {
    const refused = await agent.call("buy", { url: lying.url });
    expect(refused.facts).toMatchObject({ bought: false, reason: "refused by the seller" });
  }
  expect(new Set(lying.paid.map(({ nonce }) => nonce)).size).toBe(1);
  const left = await agent.call("balance");
  expect(left.facts).toMatchObject({ today: { spentOrPromised: "$0.01" } });
});

test("no seller is led to by another one, by a redirect or by a name in a header", async () => {
  const inside = await seller((_, response) => response.end("secrets"));
  const leading = await seller((_, response) =>
    response.writeHead(307, { Location: `${inside.url}/admin` }).end(),
  );
  await using agent = await startAgent(setup(leading));
  const led = await agent.call("buy", { url: leading.url });
  expect(led.facts).toMatchObject({ bought: false, location: `${inside.url}/admin` });
  for (const name of ["Host", "host"]) {
    const fronted = await agent.call("buy", {
      url: leading.url,
      headers: { [name]: "evil.example.com" },
    });
    expect(fronted.facts["reason"]).toBe("the seller's host is that of the url");
  }
  expect([inside.asked, leading.asked]).toEqual([[], ["GET /"]]);
});

test("the budget of a seller whom nobody has named is told for each of them", async () => {
  const { words, ...common } = setup();
  await using agent = await startAgent({
    ...common,
    words: [...words, "--seller", "*", "--dry-run"],
  });
  const { facts } = await agent.call("balance", { url: "https://a.example.com/" });
  expect(facts).toMatchObject({
    sellers: [{ seller: "*", budgetOfEach: "$1" }],
    at: { seller: "a.example.com", budget: "$1", spentOrPromised: "$0" },
  });
});

test("whoever gives a call up, or leaves in the middle of it, finds it again and pays once", async () => {
  let shown = Promise.withResolvers<void>();
  const released = Promise.withResolvers<void>();
  const slow = await seller(async (_, response, payment) => {
    if (payment === undefined) return ask(response, "10000");
    shown.resolve();
    await released.promise;
    return response.end("goods");
  });
  const { words, env } = setup(slow);
  const start = () => {
    const child = spawn(process.execPath, [MAIN, "mcp", ...words], {
      env: { PATH: process.env["PATH"], ...env },
    });
    let said = "";
    child.stdout.on("data", (part) => (said += String(part)));
    const say = (message: object) =>
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    const clientInfo = { name: "raw", version: "1" };
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
    say({ id: 1, method: "initialize", params });
    say({ method: "notifications/initialized" });
    const buy = (id: number) => {
      const call = { name: "buy", arguments: { url: slow.url } };
      say({ id, method: "tools/call", params: call });
    };
    return { child, say, buy, said: () => said };
  };
  const first = start();
  first.buy(2);
  await shown.promise;
  first.say({ method: "notifications/cancelled", params: { requestId: 2 } });
  // Another one of the same id, of the same call.
  first.buy(3);
  first.buy(3);
  first.child.stdin.end();
  const [code] = await once(first.child, "close");
  expect([code, first.said()]).toEqual([0, expect.not.stringContaining("goods")]);

  shown = Promise.withResolvers();
  const second = start();
  second.buy(2);
  await shown.promise;
  released.resolve();
  await expect.poll(second.said, { timeout: 20_000 }).toContain("goods");
  second.child.stdin.end();
  await once(second.child, "close");
  expect(new Set(slow.paid.map(({ nonce }) => nonce)).size).toBe(1);
});
