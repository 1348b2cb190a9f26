/** `settle: after` with all real parts: the backend works first, and is paid for what it has answered. */
import { once } from "node:events";
import { connect } from "node:net";
import type { IncomingMessage, ServerResponse } from "node:http";
import { encodeFunctionData, parseAbi } from "viem";
import { afterAll, beforeAll, beforeEach, describe, expect, it, test } from "vitest";
import { MAX_HELD_BYTES } from "../../src/gateway/held-response.ts";
import { PAYMENT_HEADERS, RECEIPT_HEADERS } from "../../src/x402/header.ts";
import { headerJson, present, PURSE, richBuyer, sign, VERSIONS } from "../support/buyer.ts";
import { cancelAuthorization } from "../support/cancellation.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import type { FreshAccount } from "../support/payer.ts";

type Handler = (request: IncomingMessage, response: ServerResponse) => unknown;

const PRICE = 10_000n;
const fine: Handler = (_request, response) => void response.end("fine");
const status =
  (code: number): Handler =>
  (_request, response) =>
    void response.writeHead(code).end("no");

let chain: Chain;
let gateway: RunningGateway;
/** What the backend does with the next requests; the last one stays. */
let script: Handler[] = [fine];

beforeAll(async () => {
  chain = await startChain();
  gateway = await startGateway({
    chain,
    more: "cors: true",
    routes: `
  GET /work: { price: $0.01, settle: after, description: Work }
  POST /work: { price: $0.01, settle: after, description: Work }
  GET /names/:name: { price: $0.01, settle: after, goods: [404] }
  GET /parts: { price: $0.01, settle: after, repeat: { for: 10m, times: 3 } }
  GET /led: { price: $0.01, settle: after, redirects: follow }
  GET /before: $0.01
  GET /shadow: { mode: shadow, price: $0.01, settle: after }
  GET /free: free
`,
    backend: (request, response) => {
      const [handler = fine] = script.length > 1 ? script.splice(0, 1) : script;
      void handler(request, response);
    },
  });
});

afterAll(async () => {
  await gateway[Symbol.asyncDispose]();
  await chain.stop();
});

beforeEach(() => {
  script = [fine];
});

const work = () => `${gateway.url}/work`;
const served = () => gateway.upstream.length;
const unpaid = async ({ address }: FreshAccount) =>
  expect(await chain.balanceOf(address)).toBe(PURSE);
const paid = async ({ address }: FreshAccount) =>
  expect(await chain.balanceOf(address)).toBe(PURSE - PRICE);

describe("what is goods", () => {
  it.each(VERSIONS)("is charged once it is there, version %i, and no sooner", async (version) => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, work(), { version });
    let balance: bigint | undefined;
    script = [
      async (_request, response) => {
        balance = await chain.balanceOf(buyer.address);
        response.writeHead(200, { "Set-Cookie": "own=1", "Content-Type": "text/plain" });
        response.write("fi");
        response.end("ne");
      },
    ];
    const answer = await present(work(), header, {}, version);
    expect(answer).toMatchObject({ status: 200, text: "fine", receipt: { success: true } });
    expect(answer.headers.get("set-cookie")).toBe("own=1");
    expect(answer.headers.get("cache-control")).toBe("private, no-store");
    expect(answer.headers.get("vary")).toContain(PAYMENT_HEADERS[version]);
    expect(balance).toBe(PURSE);
    await paid(buyer);
    const { headers } = gateway.upstream.at(-1) ?? {};
    expect(headers).toMatchObject({
      "x-402-payer": buyer.address,
      "x-402-network": "base-sepolia",
    });
    expect(headers).not.toHaveProperty("x-402-transaction");
    expect(headers?.["idempotency-key"]).toMatch(/^[0-9a-f]{64}$/);
    // The kept answer again, without its cookie; then no more.
    const before = served();
    const again = await present(work(), header, {}, version);
    expect(again).toMatchObject({ status: 200, text: "fine", receipt: answer.receipt });
    expect(again.headers.get("set-cookie")).toBeNull();
    expect(served()).toBe(before);
    await paid(buyer);
  });

  it("is what `goods` names, too, and an answer without a body", async () => {
    const buyer = await richBuyer(chain);
    script = [status(404), (_request, response) => void response.writeHead(204).end()];
    const name = `${gateway.url}/names/free`;
    expect(await present(name, await sign(buyer, name))).toMatchObject({
      status: 404,
      text: "no",
      receipt: { success: true },
    });
    await paid(buyer);
    const other = await richBuyer(chain);
    expect(await present(name, await sign(other, name))).toMatchObject({ status: 204 });
    await paid(other);
  });

  it("is larger than what is kept, and as large as what is held", async () => {
    const buyer = await richBuyer(chain);
    const body = Buffer.alloc(MAX_HELD_BYTES, "a");
    script = [(_request, response) => void response.end(body)];
    const answer = await present(work(), await sign(buyer, work()));
    expect(answer.status).toBe(200);
    expect(answer.text.length).toBe(MAX_HELD_BYTES);
    expect(answer.headers.get("content-length")).toBe(String(MAX_HELD_BYTES));
    await paid(buyer);
  });

  it("is asked for with a body, and what is asked for with another one is fetched", async () => {
    const buyer = await richBuyer(chain);
    const init = { method: "POST", body: "one" };
    const header = await sign(buyer, work(), { init });
    expect(await present(work(), header, init)).toMatchObject({ status: 200, text: "fine" });
    expect(gateway.upstream.at(-1)).toMatchObject({ method: "POST", body: "one" });
    await paid(buyer);
  });

  it("is a part, which may be fetched again", async () => {
    const buyer = await richBuyer(chain);
    const parts = `${gateway.url}/parts`;
    const whole = 1024 * 1024;
    script = [
      (_request, response) =>
        void response
          .writeHead(206, { "Content-Range": `bytes 0-3/${whole}`, "Content-Length": "4" })
          .end("part"),
    ];
    const init = { headers: { Range: "bytes=0-3" } };
    const header = await sign(buyer, parts);
    expect(await present(parts, header, init)).toMatchObject({ status: 206, text: "part" });
    await paid(buyer);
    const next = { headers: { Range: "bytes=4-7" } };
    expect(await present(parts, header, next)).toMatchObject({ status: 206, text: "part" });
    await paid(buyer);
  });

  it("is where a redirect leads that is followed", async () => {
    const buyer = await richBuyer(chain);
    const led = `${gateway.url}/led`;
    script = [
      (_request, response) => void response.writeHead(303, { Location: "/free" }).end(),
      fine,
    ];
    const answer = await present(led, await sign(buyer, led));
    expect(answer).toMatchObject({ status: 200, text: "fine", receipt: { success: true } });
    expect(answer.headers.get("content-location")).toBe("/free");
    await paid(buyer);
  });
});

describe("what is no goods", () => {
  const streams: Handler = (_request, response) => {
    response.writeHead(200, { "Content-Type": "text/event-stream" });
    response.write("data: 1\n\n");
  };
  const large: Handler = (_request, response) =>
    void response.end(Buffer.alloc(MAX_HELD_BYTES + 1));
  const largeUntold: Handler = (_request, response) => {
    response.write(Buffer.alloc(MAX_HELD_BYTES));
    response.end("a");
  };
  const cut: Handler = (_request, response) => {
    response.writeHead(200, { "Content-Length": "10" });
    response.write("half", () => response.destroy());
  };
  const gone: Handler = (_request, response) => void response.destroy();

  it.each([
    ["a refusal", 404, "no", status(404)],
    ["a failure", 500, "no", status(500)],
    ["no answer", 502, "upstream", gone],
    ["an answer that is cut", 502, "nothing was charged", cut],
    ["a stream of events", 502, "nothing was charged", streams],
    ["an answer that is too large", 502, "nothing was charged", large],
    ["one that turns out too large", 502, "nothing was charged", largeUntold],
  ])("%s is not charged, and the payment is as new", async (_name, code, text, handler) => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, work());
    script = [handler];
    const answer = await present(work(), header);
    expect(answer).toMatchObject({ status: code, text: expect.stringContaining(text) });
    expect(answer.receipt).toBeUndefined();
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
    await unpaid(buyer);
    // Elsewhere, too.
    script = [fine];
    const before = `${gateway.url}/before`;
    expect(await present(before, header)).toMatchObject({ status: 200, text: "fine" });
    await paid(buyer);
  });

  it("its head is none, and costs nothing", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, work());
    expect(await present(work(), header, { method: "HEAD" })).toMatchObject({ status: 200 });
    await unpaid(buyer);
    expect(await present(work(), header)).toMatchObject({ status: 200 });
    await paid(buyer);
  });

  it("nor is a redirect that leads on to what costs, where the same payment buys", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, work());
    script = [
      (_request, response) => void response.writeHead(303, { Location: "/before" }).end(),
      fine,
    ];
    const answer = await present(work(), header, { redirect: "manual" });
    expect(answer.status).toBe(303);
    await unpaid(buyer);
    expect(await present(`${gateway.url}/before`, header)).toMatchObject({ status: 200 });
    await paid(buyer);
  });

  it("an upgrade is refused before the backend hears of it", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, work());
    const before = served();
    const answer = await upgrade(header);
    expect(answer).toContain("HTTP/1.1 400 ");
    expect(answer).toContain("no payment was taken");
    expect(served()).toBe(before);
    await unpaid(buyer);
  });

  async function upgrade(header: string): Promise<string> {
    const socket = connect(Number(new URL(gateway.url).port), "127.0.0.1");
    const lines = ["GET /work HTTP/1.1", "Host: localhost", "Connection: Upgrade"];
    lines.push("Upgrade: websocket", "Sec-WebSocket-Version: 13", `X-PAYMENT: ${header}`);
    lines.push("Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==");
    socket.write(`${lines.join("\r\n")}\r\n\r\n`);
    let text = "";
    socket.on("data", (part: Buffer) => void (text += part.toString()));
    while (!text.includes("}")) await once(socket, "data");
    socket.destroy();
    return text;
  }
});

test("a route in shadow mode passes everything, and holds nothing", async () => {
  const buyer = await richBuyer(chain);
  const header = await sign(buyer, work());
  const large: Handler = (_request, response) =>
    void response.end(Buffer.alloc(MAX_HELD_BYTES + 1));
  script = [large];
  const answer = await present(`${gateway.url}/shadow`, header);
  expect([answer.status, answer.text.length]).toEqual([200, MAX_HELD_BYTES + 1]);
  expect(answer.receipt).toBeUndefined();
  await unpaid(buyer);
});

describe("a buyer who has left while the backend works", () => {
  it("is not charged, and may come again with the same payment", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, work());
    const begun = Promise.withResolvers<ServerResponse>();
    const cancelled = Promise.withResolvers<void>();
    script = [
      (_request, response) => {
        response.on("close", () => cancelled.resolve());
        begun.resolve(response);
      },
      fine,
    ];
    const leaving = new AbortController();
    const lost = present(work(), header, { signal: leaving.signal }).catch(() => "lost");
    await begun.promise;
    leaving.abort();
    expect(await lost).toBe("lost");
    // The backend is told, too.
    await cancelled.promise;
    await expect.poll(() => present(work(), header)).toMatchObject({ status: 200, text: "fine" });
    await paid(buyer);
  });
});

describe("a settlement that fails after the work", () => {
  async function refused(spoil: (buyer: FreshAccount, header: string) => Promise<void>) {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, work());
    script = [
      async (_request, response) => {
        await spoil(buyer, header);
        response.end("the goods");
      },
    ];
    return present(work(), header);
  }
  const nonceOf = (header: string) =>
    JSON.parse(atob(header)).payload.authorization.nonce as `0x${string}`;

  it("since the purse is empty by then", async () => {
    const answer = await refused(async ({ address }) => empty(address));
    expect(answer).toMatchObject({
      status: 402,
      error: expect.stringContaining("insufficient_funds"),
    });
    expect(answer.text).not.toContain("the goods");
  });

  it("since the authorization is cancelled by then", async () => {
    const answer = await refused(async ({ address, account }, header) =>
      cancelAuthorization(chain, { authorizer: address, signer: account, nonce: nonceOf(header) }),
    );
    expect(answer).toMatchObject({
      status: 402,
      error: expect.stringContaining("invalid_transaction_state"),
    });
    expect(answer.text).not.toContain("the goods");
    expect(answer.headers.get(RECEIPT_HEADERS[1])).not.toBeNull();
    expect(headerJson(answer.headers, RECEIPT_HEADERS[1])).toMatchObject({ success: false });
  });

  async function empty(from: `0x${string}`): Promise<void> {
    const abi = parseAbi(["function transfer(address to, uint256 value) returns (bool)"]);
    const args = ["0x00000000000000000000000000000000000000aa", PURSE] as const;
    await chain.fund(from, 0n, 10n ** 18n);
    await chain.rpc("anvil_impersonateAccount", [from]);
    const data = encodeFunctionData({ abi, functionName: "transfer", args });
    await chain.transact({ from, to: chain.asset, data });
  }
});
