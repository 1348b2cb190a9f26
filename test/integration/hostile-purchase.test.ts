/** Attempts to have more than was paid for, or what somebody else paid for. */
import { once } from "node:events";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import type { EvmPayload } from "../../src/x402/x402.ts";
import { present, PURSE, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

const fine: Handler = (_request, response) => void response.end("fine");
const unavailable: Handler = (_request, response) => void response.writeHead(503).end("later");

let chain: Chain;
let gateway: RunningGateway;
let handler: Handler = fine;

beforeAll(async () => {
  chain = await startChain();
  gateway = await startGateway({
    chain,
    more: "limits: { body: 1KiB }",
    backend: (request, response) => handler(request, response),
  });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
});

beforeEach(() => {
  handler = fine;
});

const weather = (query = "city=Oslo") => `${gateway.url}/weather?${query}`;

/** The same header with some of its payload exchanged. */
function alter(header: string, change: (payload: EvmPayload) => EvmPayload): string {
  const payment = JSON.parse(Buffer.from(header, "base64").toString());
  return Buffer.from(JSON.stringify({ ...payment, payload: change(payment.payload) })).toString(
    "base64",
  );
}

/** A payload that claims something else than what was signed. */
const signing = (payload: EvmPayload, change: Partial<EvmPayload["authorization"]>) => ({
  ...payload,
  authorization: { ...payload.authorization, ...change },
});

describe("somebody else's paid and undelivered answer", () => {
  it.each<[string, (payload: EvmPayload) => EvmPayload]>([
    ["another signature", (payload) => ({ ...payload, signature: `0x${"11".repeat(65)}` })],
    ["another value", (payload) => signing(payload, { value: "1" })],
    ["another recipient", (payload) => signing(payload, { to: payload.authorization.from })],
    ["another window", (payload) => signing(payload, { validBefore: "1" })],
  ])("is not had by who knows its payer and nonce: %s", async (_name, change) => {
    const victim = await richBuyer(chain);
    const header = await sign(victim, weather());
    handler = unavailable;
    expect(await present(weather(), header)).toMatchObject({ status: 503 });
    handler = fine;
    const before = gateway.upstream.length;
    const stolen = await present(weather(), alter(header, change));
    expect(stolen.status).toBe(402);
    expect(stolen.error).toMatch(/^invalid_exact_evm_payload_signature: /);
    expect(gateway.upstream.length).toBe(before);
    expect(await present(weather(), header)).toMatchObject({ status: 200, text: "fine" });
  });
});

describe("one payment", () => {
  it("does not buy a second thing when the first answer is cut off by its buyer", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, weather());
    handler = (_request, response) => {
      // Too large to be kept for the buyer.
      response.writeHead(200, { "Content-Length": "100000" });
      response.write("x".repeat(99_999));
    };
    const cut = new AbortController();
    const streaming = await fetch(weather("q=one"), {
      headers: { "X-PAYMENT": header },
      signal: cut.signal,
    });
    expect(streaming.status).toBe(200);
    cut.abort();
    await expect(streaming.text()).rejects.toThrow();
    handler = fine;
    const other = await present(weather("q=two"), header);
    expect(other.status).toBe(402);
    expect(other.error).toMatch(/^invalid_transaction_state: /);
    // The request that was cut off may be made again: perhaps the network did it.
    expect(await present(weather("q=one"), header)).toMatchObject({ status: 200, text: "fine" });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
  });

  it("is not spent on deliveries that no backend saw", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, weather());
    await chain.rpc("evm_setAutomine", [false]);
    const { port } = new URL(gateway.url);
    try {
      for (let leaver = 0; leaver < 4; leaver += 1) {
        const socket = connect(Number(port), "127.0.0.1");
        socket.write(`GET /weather?city=Oslo HTTP/1.1\r\nHost: x\r\nX-PAYMENT: ${header}\r\n\r\n`);
        while (Object(await chain.rpc("txpool_status")).pending === "0x0") await turn();
        socket.destroy();
        await once(socket, "close");
      }
      const patient = present(weather(), header);
      await chain.mine();
      expect(await patient).toMatchObject({ status: 200 });
    } finally {
      await chain.rpc("evm_setAutomine", [true]);
    }
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
  });

  it("is not taken for a body that would be refused anyway", async () => {
    const buyer = await richBuyer(chain);
    const url = `${gateway.url}/summarize`;
    const header = await sign(buyer, url, { init: { method: "POST" } });
    const large = { method: "POST", body: "x".repeat(2_000) };
    expect(await present(url, header, large)).toMatchObject({ status: 413 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
    const small = { method: "POST", body: "x" };
    expect(await present(url, header, small)).toMatchObject({ status: 200 });
  });
});
