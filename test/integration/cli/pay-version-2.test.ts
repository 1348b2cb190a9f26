/** `coinslot pay` before sellers of either version, ours and an official one, and what of version 2 it sends. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { ExactEvmScheme as FacilitatorScheme } from "@x402/evm/exact/facilitator";
import { ExactEvmScheme } from "@x402/evm/exact/server";
import { paymentMiddleware, x402ResourceServer } from "@x402/express";
import express from "express";
import { createWalletClient, http, publicActions, type Chain as ViemChain } from "viem";
import { baseSepolia } from "viem/chains";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { requirementsV2 } from "../../../src/x402/version-2.ts";
import { PURSE, richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { startGateway } from "../../support/gateway.ts";
import { freshAccount, requirementsFor, type FreshAccount } from "../../support/payer.ts";
import { openSeller, type OddSeller } from "./odd-seller.ts";
import { runHere } from "./run-here.ts";

const CAIP2 = "eip155:84532";
const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const closing = new AsyncDisposableStack();
let chain: Chain;
let buyer: FreshAccount;
let env: Record<string, string>;
let folder: string;

beforeAll(async () => {
  chain = closing.use(await startChain());
  buyer = await richBuyer(chain);
  env = { COINSLOT_KEY: buyer.privateKey };
  folder = await mkdtemp(join(tmpdir(), "coinslot-pay-v2-"));
  closing.defer(() => rm(folder, { recursive: true }));
});

afterAll(() => closing.disposeAsync());

describe.each([
  ["both versions", "", "1 and 2", [1, 2]],
  ["version 1 alone", "protocol: { v2: false }", "1", [1]],
  ["version 2 alone", "protocol: { v1: false }", "2", [2]],
] as const)("a gateway of %s", (_, more, told, spoken) => {
  test("sells to whoever asks for a version that it speaks, once each", async () => {
    await using gateway = await startGateway({ chain, more });
    const url = `${gateway.url}/weather`;
    for (const protocol of [null, 1, 2] as const) {
      const before = await chain.balanceOf(gateway.payee);
      const words = protocol === null ? [] : ["--protocol", String(protocol)];
      const bought = await runHere(["pay", url, "-y", "--network", CAIP2, ...words], env);
      const paid = (await chain.balanceOf(gateway.payee)) - before;
      if (protocol !== null && !spoken.some((each) => each === protocol)) {
        expect(bought).toMatchObject({ code: 1, stdout: "" });
        expect(bought.stderr).toContain(`the seller asks in version ${told} of x402 alone`);
        expect(paid).toBe(0n);
        continue;
      }
      const version = protocol ?? spoken.at(-1);
      expect(bought.stderr).toContain(
        spoken.length === 1
          ? `it speaks version ${told} of x402 only`
          : `it speaks versions ${told} of x402, and is paid in version ${version}`,
      );
      expect(bought.stderr).toMatch(/^paid 0\.01 USDC \(\$0\.01\) on base-sepolia$/m);
      expect(bought.stderr).toMatch(/^ {2}transaction +0x[0-9a-f]{64}$/m);
      expect([bought.code, paid]).toEqual([0, 10_000n]);
    }
  });

  test("tells a refusal in the same words", async () => {
    await using gateway = await startGateway({ chain, more });
    const dry = await runHere(["pay", `${gateway.url}/weather`, "--dry-run", "--json"]);
    expect(JSON.parse(dry.stdout)).toMatchObject({ versions: spoken, version: spoken.at(-1) });
    const poor = { COINSLOT_KEY: freshAccount().privateKey };
    const { code, stderr } = await runHere(["pay", `${gateway.url}/weather`, "-y"], poor);
    expect(stderr).toMatch(/the payment was not settled: 402: insufficient_funds/);
    expect(code).toBe(5);
  });
});

test("a seller made of @x402/express 2.27.0, with the facilitator of @x402/core, is paid in version 2", async () => {
  const { account, address } = freshAccount();
  await chain.fund(address, 0n, 10n ** 18n);
  const network: ViemChain = baseSepolia;
  const wallet = createWalletClient({
    chain: network,
    transport: http(chain.rpcUrl),
    account,
    pollingInterval: 20,
  }).extend(publicActions);
  const signer = toFacilitatorEvmSigner(Object.assign(wallet, { address }) as never);
  const facilitator = new x402Facilitator().register(CAIP2, new FacilitatorScheme(signer));
  const sellers = new x402ResourceServer({
    verify: (payment, wanted) => facilitator.verify(payment, wanted),
    settle: (payment, wanted) => facilitator.settle(payment, wanted),
    getSupported: async () => facilitator.getSupported() as never,
  }).register(CAIP2, new ExactEvmScheme());
  const payee = freshAccount().address;
  const accepts = { scheme: "exact", price: "$0.01", network: CAIP2, payTo: payee } as const;
  const app = express();
  app.use(paymentMiddleware({ "GET /thing": { accepts, description: "A thing" } }, sellers));
  app.get("/thing", (_, response) => void response.send("sold"));
  const server = createServer(app);
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(server, AbortSignal.abort()));
  const bought = await runHere(["pay", `http://127.0.0.1:${port}/thing`, "-y"], env);
  expect(bought.stderr).toMatch(/^paid 0\.01 USDC \(\$0\.01\) on base-sepolia$/m);
  expect(bought).toMatchObject({ code: 0, stdout: "sold" });
  expect(await chain.balanceOf(payee)).toBe(10_000n);
});

function encode(json: object): string {
  return Buffer.from(JSON.stringify(json)).toString("base64");
}

const good = {
  ...requirementsV2(requirementsFor("base-sepolia", { payTo: PAYEE }), { note: ["é", 1] }),
  novel: { of: "the seller" },
};
const resource = { url: "https://seller.example/thing", description: "A thing", novel: 1 };

/** Asks in version 2. */
function open(quote: object | string, ...steps: readonly RequestListener[]): Promise<OddSeller> {
  const header = typeof quote === "string" ? quote : encode(quote);
  return openSeller(closing, { headers: { "PAYMENT-REQUIRED": header }, body: "{}" }, ...steps);
}

function quoteOf(accepts: readonly unknown[], more: object = {}): object {
  return { x402Version: 2, error: "pay", resource, accepts, ...more };
}

function receipt(changes: object): Record<string, string> {
  const told = { transaction: `0x${"ab".repeat(32)}`, network: CAIP2, payer: buyer.address };
  return { "PAYMENT-RESPONSE": encode({ ...told, ...changes }) };
}

describe("a payment of version 2", () => {
  test("repeats the offer, the resource and the extensions to the letter", async () => {
    const extensions = {
      bazaar: { info: { input: { type: "http" } }, schema: { type: "object" } },
    };
    const seller = await open(quoteOf([{ ...good, scheme: "upto" }, good], { extensions }));
    const { code, stderr } = await runHere(["pay", seller.url, "-y"], env);
    expect(stderr).toContain('offer 1 is not of the scheme "exact"');
    expect(code).toBe(0);
    const sent = JSON.parse(Buffer.from(seller.payments[0] ?? "", "base64").toString());
    const { payload, ...rest } = sent;
    expect(rest).toEqual({ x402Version: 2, accepted: good, resource, extensions });
    expect(payload.authorization).toMatchObject({ from: buyer.address, to: PAYEE, value: "10000" });
  });

  test("has an identifier where one is required, and the same when it is sent again", async () => {
    const extensions = { "payment-identifier": { info: { required: true }, schema: {} } };
    const seller = await open(
      quoteOf([good], { extensions }),
      (_, response) => response.writeHead(503).end(),
      (_, response) => response.end("sold"),
    );
    expect((await runHere(["pay", seller.url, "-y"], env)).code).toBe(0);
    const [sent, again] = seller.payments;
    expect(again).toBe(sent);
    const { extensions: echo } = JSON.parse(Buffer.from(sent ?? "", "base64").toString());
    const { info, schema } = echo["payment-identifier"];
    expect({ ...info, schema }).toEqual({
      required: true,
      id: expect.stringMatching(/^[\w-]{16,128}$/),
      schema: {},
    });
  });

  test("of which the seller does not know yet is sent again, after a 402 as well", async () => {
    const pending = { success: false, errorReason: "settlement_pending" };
    const seller = await open(
      quoteOf([good]),
      (_, response) => response.writeHead(402, receipt(pending)).end("{}"),
      (_, response) => response.writeHead(200, receipt({ success: true })).end("sold"),
    );
    const { code, stdout } = await runHere(["pay", seller.url, "-y"], env);
    expect({ code, stdout }).toEqual({ code: 0, stdout: "sold" });
    expect(seller.payments.length).toBe(2);
    expect(new Set(seller.payments).size).toBe(1);
  });

  test("is kept with its version, and sent again in the same header", async () => {
    let answers = 0;
    const seller = await open(quoteOf([good]), (_, response) => {
      answers += 1;
      if (answers > 1) return void response.end("sold");
      response.writeHead(404, receipt({ success: true })).end();
    });
    const lost = await runHere(["pay", seller.url, "-y", "--keep", folder], env);
    expect(lost.code).toBe(4);
    const [, file = ""] = /the payment is kept in (\S+);/.exec(lost.stderr) ?? [];
    expect(JSON.parse(await readFile(file, "utf8"))).toMatchObject({
      version: 2,
      xPayment: seller.payments[0],
    });
    const again = await runHere(["pay", seller.url, "--payment", file]);
    expect(again).toMatchObject({ code: 0, stdout: "sold" });
    expect(seller.payments).toEqual([seller.payments[0], seller.payments[0]]);
  });

  test("is refused in the words of the header where the body has none", async () => {
    const refused = encode(quoteOf([good], { error: "invalid_network: no" }));
    const seller = await open(quoteOf([good]), (_, response) =>
      response.writeHead(402, { "PAYMENT-REQUIRED": refused }).end("{}"),
    );
    const { code, stderr } = await runHere(["pay", seller.url, "-y"], env);
    expect(stderr).toContain("the payment was not settled: 402: invalid_network: no");
    expect(code).toBe(5);
  });
});

describe("a quote of version 2", () => {
  test.each([
    [
      "its amount is that of version 1",
      { amount: undefined, maxAmountRequired: "1" },
      /has no amount/,
    ],
    ["its network has a name", { network: "base-sepolia" }, /does not name its network in CAIP-2/],
    ["nobody knows the network", { network: "eip155:999999" }, /the network is not known here/],
    ["nobody knows the token", { asset: PAYEE }, /the token is not known here/],
    ["permit2 is to pay it", { extra: { assetTransferMethod: "permit2" } }, /another way than by/],
    ["its payee is a role", { payTo: "merchant" }, /payTo is not an EVM address/],
  ])("is not paid where %s", async (_, members, message) => {
    const seller = await open(quoteOf([{ ...good, ...members }]));
    const { code, stderr } = await runHere(["pay", seller.url, "-y"], env);
    expect(stderr).toMatch(message);
    expect({ code, payments: seller.payments }).toEqual({ code: 3, payments: [] });
  });

  test("that cannot be read is told, and nothing is signed", async () => {
    for (const quote of ["?", encode({ x402Version: 3, accepts: [] }), encode([])]) {
      const seller = await open(quote);
      const { code, stderr } = await runHere(["pay", seller.url, "-y"], env);
      expect(stderr).toMatch(/PAYMENT-REQUIRED of the 402 answer cannot be read/);
      expect({ code, payments: seller.payments }).toEqual({ code: 1, payments: [] });
    }
    expect(await chain.balanceOf(buyer.address)).toBeLessThan(PURSE);
  });
});
