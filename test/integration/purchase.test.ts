import { once } from "node:events";
import { connect } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { PAYMENT_HEADERS, RECEIPT_HEADERS } from "../../src/x402/header.ts";
import { present, PURSE, quote, richBuyer, sign, VERSIONS } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { PUBLIC_URL, startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";

type Handler = (request: IncomingMessage, response: ServerResponse) => void;

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
    backend: (request, response) => {
      const [handler = fine] = script.length > 1 ? script.splice(0, 1) : script;
      handler(request, response);
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

const weather = () => `${gateway.url}/weather?city=Oslo`;
const served = () => gateway.upstream.length;

describe("one payment", () => {
  it("is sold once when it is presented 50 times at once", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, weather());
    const before = served();
    const answers = await Promise.all(Array.from({ length: 50 }, () => present(weather(), header)));

    // Four wait for the first, and the kept answer is given to three of them.
    const codes = answers.map((answer) => answer.status);
    expect(codes.filter((code) => code === 200)).toHaveLength(4);
    const errors = answers.flatMap(({ status, error }) => (status === 200 ? [] : [error]));
    const used = errors.filter((error) => error.startsWith("invalid_transaction_state: "));
    const waits = errors.filter((error) => error.includes("is being processed"));
    expect(used.length).toBeGreaterThan(0);
    expect(used.length + waits.length).toBe(46);
    expect(served()).toBe(before + 1);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
  });

  it("is one payment in every spelling: base64url, unpadded, other key order, other letter case", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, weather());
    const before = served();
    const first = await present(weather(), header);
    expect(first).toMatchObject({ status: 200, receipt: { success: true } });

    const text = Buffer.from(header, "base64").toString();
    const { x402Version, scheme, network, payload } = JSON.parse(text);
    const { from, nonce, ...rest } = payload.authorization;
    const respelled = {
      payload: {
        authorization: {
          nonce: nonce.toUpperCase().replace("0X", "0x"),
          ...rest,
          from: from.toLowerCase(),
        },
        signature: payload.signature.toUpperCase().replace("0X", "0x"),
      },
      network,
      scheme,
      x402Version,
    };
    for (const spelling of [
      Buffer.from(text).toString("base64url"),
      header.replace(/=+$/, ""),
      Buffer.from(JSON.stringify(respelled)).toString("base64"),
    ]) {
      const again = await present(weather(), spelling);
      expect(again).toMatchObject({ status: 200, text: "fine", receipt: first.receipt });
    }
    const last = await present(weather(), header);
    expect(last.status).toBe(402);
    expect(last.error).toMatch(/^invalid_transaction_state/);
    expect(served()).toBe(before + 1);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
  });

  it("buys only the method and path of its first use", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${gateway.url}/reports/1`);
    script = [status(503), fine];
    expect(await present(`${gateway.url}/reports/1`, header)).toMatchObject({ status: 503 });
    const other = await present(`${gateway.url}/reports/2`, header);
    expect(other.status).toBe(402);
    expect(other.error).toMatch(/^invalid_payload: .*another resource/);
    expect(await present(`${gateway.url}/reports/1`, header)).toMatchObject({ status: 200 });
  });

  it("is settled on the chain before the backend sees the request", async () => {
    const buyer = await richBuyer(chain);
    const mined = Promise.withResolvers<unknown>();
    script = [
      (request, response) => {
        const transaction = request.headers["x-402-transaction"];
        mined.resolve(chain.rpc("eth_getTransactionReceipt", [transaction]));
        response.end("fine");
      },
    ];
    expect(await present(weather(), await sign(buyer, weather()))).toMatchObject({ status: 200 });
    expect(await mined.promise).toMatchObject({ status: "0x1" });
  });

  it("may be larger than the price, and then all of it is charged", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, weather(), { overrides: { value: "12345" } });
    expect(await present(weather(), header)).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 12_345n);
  });

  it("buys nothing when it is for another route's lower price", async () => {
    const buyer = await richBuyer(chain);
    const cheap = await sign(buyer, weather());
    const answer = await present(`${gateway.url}/reports/9`, cheap);
    expect(answer.status).toBe(402);
    expect(answer.error).toMatch(/^invalid_exact_evm_payload_authorization_value: /);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
  });
});

describe("after the settlement", () => {
  it("a backend's 5xx is passed on with the receipt, and the same payment delivers without a charge", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, weather());
    script = [status(500), fine];
    const before = served();
    const first = await present(weather(), header);
    expect(first.status).toBe(500);
    expect(first.headers.get("Retry-After")).toBe("2");
    expect(first.receipt).toMatchObject({ success: true, payer: buyer.address });
    const second = await present(weather(), header);
    expect(second).toMatchObject({ status: 200, text: "fine", receipt: first.receipt });
    expect(await present(weather(), header)).toMatchObject({ status: 200, text: "fine" });
    expect(served()).toBe(before + 2);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
  });

  it("a backend that hangs up is 502 with the receipt and advice, then delivers", async () => {
    const buyer = await richBuyer(chain);
    const url = `${gateway.url}/summarize`;
    const init = { method: "POST", body: "{}" };
    const header = await sign(buyer, url, { init });
    script = [(request) => void request.socket.destroy(), fine];
    const first = await present(url, header, init);
    expect(first.status).toBe(502);
    expect(first.receipt).toMatchObject({ success: true });
    expect(first.error).toContain("send the same X-PAYMENT again");
    expect(first.headers.get("Retry-After")).toBe("2");
    expect(await present(url, header, init)).toMatchObject({ status: 200, text: "fine" });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 20_000n);
  });

  it("a backend's 4xx lets the buyer correct the query, three attempts in all", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${gateway.url}/weather?city=Olso`);
    script = [status(404)];
    const before = served();
    for (let attempt = 1; attempt <= 3; attempt += 1) {
      const answer = await present(`${gateway.url}/weather?city=${attempt}`, header);
      expect(answer).toMatchObject({ status: 404, receipt: { success: true } });
    }
    const fourth = await present(weather(), header);
    expect(fourth.status).toBe(409);
    expect(fourth.error).toMatch(/^invalid_transaction_state: paid in .* is not charged/);
    expect(served()).toBe(before + 3);
    // A stock client signs a new payment: it is the proof of who asks, and not charged.
    script = [fine];
    const proof = await sign(buyer, `${gateway.url}/weather`);
    const fifth = await present(weather(), proof);
    expect(fifth).toMatchObject({ status: 200, receipt: { success: true } });
    // Nor when it repeats its request.
    expect(await present(weather(), proof)).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    expect(await present(weather(), await sign(buyer, weather()))).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 20_000n);
  });

  it("a buyer who leaves while paying finds the payment settled and undelivered", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, weather());
    const before = served();
    await chain.rpc("evm_setAutomine", [false]);
    try {
      const { port } = new URL(gateway.url);
      const socket = connect(Number(port), "127.0.0.1");
      socket.write(`GET /weather?city=Oslo HTTP/1.1\r\nHost: x\r\nX-PAYMENT: ${header}\r\n\r\n`);
      while (Object(await chain.rpc("txpool_status")).pending === "0x0") await turn();
      socket.destroy();
      await once(socket, "close");
      const second = present(weather(), header);
      await chain.mine();
      expect(await second).toMatchObject({ status: 200, receipt: { success: true } });
    } finally {
      await chain.rpc("evm_setAutomine", [true]);
    }
    expect(served()).toBe(before + 1);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
  });
});

/** What only the gateway says of payments. */
const FORGED = {
  "x-payment-response": "forged",
  "payment-response": "forged",
  "payment-required": "forged",
  "extension-responses": "forged",
};

describe.each(VERSIONS)("headers, in version %i", (version) => {
  const buy = async (buyer: FreshAccount, init: RequestInit = {}) =>
    present(weather(), await sign(buyer, weather(), { version }), init, version);

  it("the backend learns who paid and never sees the payment", async () => {
    const buyer = await richBuyer(chain);
    const answer = await buy(buyer, {
      headers: { "X-402-Payer": "0xforged", X_402_Payer: "0xforged", "X-402-Anything": "1" },
    });
    const seen = gateway.upstream.at(-1)?.headers ?? {};
    expect(seen).toMatchObject({
      "x-402-payer": buyer.address,
      "x-402-transaction": answer.receipt?.["transaction"],
      "x-402-network": "base-sepolia",
    });
    expect(Object.keys(seen).filter((name) => /payment|x_402|anything/i.test(name))).toEqual([]);
  });

  it("a free request cannot pretend to have paid", async () => {
    await fetch(`${gateway.url}/health`, {
      headers: { "X-402-Payer": "0xforged", [PAYMENT_HEADERS[version]]: "x" },
    });
    const seen = gateway.upstream.at(-1)?.headers ?? {};
    expect(Object.keys(seen).filter((name) => /x-402|payment/.test(name))).toEqual([]);
  });

  it("a backend cannot forge a receipt, and paid answers are not cached", async () => {
    script = [
      (_request, response) => {
        response.writeHead(200, {
          ...FORGED,
          "X-402-Payer": "forged",
          "Cache-Control": "public, max-age=600",
          Vary: "Accept",
        });
        response.end("fine");
      },
    ];
    const free = await fetch(`${gateway.url}/health`);
    expect([...free.headers.values()]).not.toContain("forged");
    expect(free.headers.get("Cache-Control")).toBe("public, max-age=600");
    const buyer = await richBuyer(chain);
    const paid = await buy(buyer);
    expect(paid.receipt).toMatchObject({ success: true });
    expect([...paid.headers.values()]).not.toContain("forged");
    expect([...paid.headers.keys()].filter((name) => name in FORGED)).toEqual([
      RECEIPT_HEADERS[version].toLowerCase(),
    ]);
    expect(paid.headers.get("Cache-Control")).toBe("private, no-store");
    expect(paid.headers.get("Vary")).toMatch(
      new RegExp(`Accept.*${PAYMENT_HEADERS[version]}`, "i"),
    );
  });

  it("two payments are refused and neither is spent", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, weather(), { version });
    const name = PAYMENT_HEADERS[version];
    const { port } = new URL(gateway.url);
    const socket = connect(Number(port), "127.0.0.1");
    const lines = [name, name.toLowerCase()].map((each) => `${each}: ${header}`);
    lines.push("Connection: close");
    socket.write(`GET /weather HTTP/1.1\r\nHost: x\r\n${lines.join("\r\n")}\r\n\r\n`);
    let text = "";
    for await (const part of socket) text += String(part);
    expect(text).toMatch(/^HTTP\/1\.1 400 /);
    expect(text).toContain(`invalid_payload: more than one ${name}`);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
  });
});

describe("the 402", () => {
  it("names the URL as requested, under the public URL, and is never cached", async () => {
    const response = await fetch(`${gateway.url}/reports/7?a=%22b%22&a=c`);
    expect(response.status).toBe(402);
    expect(response.headers.get("Cache-Control")).toBe("no-store");
    expect(response.headers.get("Access-Control-Expose-Headers")).toBe(
      "PAYMENT-REQUIRED, PAYMENT-RESPONSE, X-PAYMENT-RESPONSE, Retry-After, ETag, Content-Range, Content-Disposition, Link, X-402-Charged, X-402-Credits, X-402-Usage, RateLimit, RateLimit-Policy",
    );
    expect(await response.json()).toMatchObject({
      x402Version: 1,
      error: "X-PAYMENT header is required",
      accepts: [{ resource: `${PUBLIC_URL}/reports/7?a=%22b%22&a=c`, maxAmountRequired: "250000" }],
    });
  });

  it("answers HEAD without a body and never asks the backend", async () => {
    const before = served();
    const response = await fetch(`${gateway.url}/weather`, { method: "HEAD" });
    expect(response.status).toBe(402);
    expect(response.headers.get("PAYMENT-REQUIRED")).toMatch(/^eyJ/);
    expect(await response.text()).toBe("");
    expect(served()).toBe(before);
  });

  it("is given before a body is read, and without 100 Continue", async () => {
    const { port } = new URL(gateway.url);
    const socket = connect(Number(port), "127.0.0.1");
    const head = ["Host: x", "Content-Length: 1000000", "Expect: 100-continue"].join("\r\n");
    socket.write(`POST /summarize HTTP/1.1\r\n${head}\r\n\r\n`);
    let text = "";
    for await (const part of socket) text += String(part);
    expect(text).toMatch(/^HTTP\/1\.1 402 /);
    expect(text).toMatch(/^PAYMENT-REQUIRED: eyJ/m);
    expect(text).not.toContain("100 Continue");
  });

  it.each(VERSIONS)(
    "is not what a preflight gets: both headers of the official clients are allowed (version %i)",
    async (version) => {
      const payment = PAYMENT_HEADERS[version].toLowerCase();
      const response = await fetch(`${gateway.url}/weather`, {
        method: "OPTIONS",
        headers: {
          Origin: "https://shop.example",
          "Access-Control-Request-Method": "GET",
          "Access-Control-Request-Headers": `${payment},access-control-expose-headers`,
        },
      });
      expect(response.status).toBe(204);
      expect(response.headers.get("Access-Control-Allow-Origin")).toBe("*");
      const allowed = (response.headers.get("Access-Control-Allow-Headers") ?? "").toLowerCase();
      expect(allowed.split(", ")).toContain(payment);
      expect(allowed).toContain("access-control-expose-headers");
    },
  );
});

describe("refusals", () => {
  it("a network that is not accepted is 402 invalid_network", async () => {
    const buyer = freshAccount();
    const header = await sign(buyer, weather());
    const payment = JSON.parse(Buffer.from(header, "base64").toString());
    for (const [change, code] of [
      [{ network: "base" }, "invalid_network"],
      [{ network: "moon" }, "invalid_network"],
      [{ scheme: "upto" }, "invalid_scheme"],
    ] as const) {
      const altered = Buffer.from(JSON.stringify({ ...payment, ...change })).toString("base64");
      const answer = await present(weather(), altered);
      expect(answer.status).toBe(402);
      expect(answer.error).toMatch(new RegExp(`^${code}: `));
    }
  });

  it.each(VERSIONS)(
    "a signature for another domain is told what it was made for, in version %i",
    async (version) => {
      const buyer = await richBuyer(chain);
      for (const [signing, said] of [
        [{ chainId: 8453 }, "signed for chain 8453; this is 84532"],
        [
          { domain: { name: "USD Coin" } },
          'signed for token name "USD Coin"; this one\'s is "USDC"',
        ],
        [{ domain: { version: "1" } }, 'signed for token version "1"; this one\'s is "2"'],
      ] as const) {
        const header = await sign(buyer, weather(), { version, ...signing });
        const refused = await present(weather(), header, {}, version);
        expect(refused.status).toBe(402);
        expect(refused.error).toMatch(/^invalid_exact_evm_payload_signature: /);
        expect(refused.error).toContain(said);
      }
      expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
    },
  );

  it("a payer without money is 402 insufficient_funds, and may try again with money", async () => {
    const buyer = freshAccount();
    const header = await sign(buyer, weather());
    const refused = await present(weather(), header);
    expect(refused.status).toBe(402);
    expect(refused.error).toMatch(/^insufficient_funds: /);
    await chain.fund(buyer.address, PURSE);
    expect(await present(weather(), header)).toMatchObject({ status: 200 });
  });

  it("a wrong version is 400 in the same shape", async () => {
    const buyer = freshAccount();
    const payment = JSON.parse(Buffer.from(await sign(buyer, weather()), "base64").toString());
    const header = Buffer.from(JSON.stringify({ ...payment, x402Version: 2 })).toString("base64");
    const answer = await present(weather(), header);
    expect(answer.status).toBe(400);
    expect(answer.error).toMatch(/^invalid_x402_version: /);
    expect(JSON.parse(answer.text).accepts).toHaveLength(1);
  });

  it("unmatched, denied and ambiguous paths cost nothing and reach nothing", async () => {
    const before = served();
    for (const [path, expected] of [
      ["/nope", 404],
      ["/admin/users", 403],
      ["/WEATHER", 404],
      ["/weather/", 404],
      ["/%77eather", 400],
      ["/health/../weather", 402],
    ] as const) {
      expect([path, (await fetch(gateway.url + path)).status]).toEqual([path, expected]);
    }
    expect((await fetch(`${gateway.url}/weather`, { method: "POST" })).status).toBe(405);
    expect(served()).toBe(before);
  });
});

it("prices a quote that the official schema accepts", async () => {
  const { PaymentRequirementsSchema } = await import("x402/types");
  expect(PaymentRequirementsSchema.safeParse(await quote(weather())).success).toBe(true);
});
