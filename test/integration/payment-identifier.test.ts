/** Buyers of version 2 who name their purchases, with the official client and its extension. */
import { ExactEvmScheme } from "@x402/evm/exact/client";
import {
  appendPaymentIdentifierToExtensions,
  generatePaymentId,
  PAYMENT_IDENTIFIER,
  validatePaymentIdentifier,
} from "@x402/extensions/payment-identifier";
import { wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { encodeHeaderJson } from "../../src/x402/header.ts";
import { paymentV2 } from "../../src/x402/version-2.ts";
import { headerJson, present, PURSE, quote, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount, signPayment, type FreshAccount } from "../support/payer.ts";
import { startPostgres } from "../support/postgres.ts";
import { Site } from "../support/serve.ts";
import { startBackend, startSeller } from "./workers/stage.ts";

const PRICE = 10_000n;
const ROUTES = `
  GET /weather: { price: $0.01, mimeType: application/json }
  GET /named: { price: $0.01, paymentIdentifier: required }
  GET /unnamed: { price: $0.01, paymentIdentifier: off }
`;

const closing = new AsyncDisposableStack();
let chain: Chain;
let gateway: RunningGateway;

beforeAll(async () => {
  chain = await startChain();
  closing.defer(() => chain.stop());
  gateway = closing.use(
    await startGateway({ chain, routes: ROUTES, more: "paymentIdentifier: optional" }),
  );
});

afterAll(() => closing.disposeAsync());

interface Bought {
  readonly status: number;
  readonly text: string;
  readonly receipt: Record<string, unknown> | undefined;
  /** The header of the payment that was sent last. */
  readonly payment: string;
}

/** Buys a URL with a payment of its own, under that name; undefined: the client leaves the extension as it was told. */
async function buy(
  url: string,
  { account }: Pick<FreshAccount, "account">,
  id: string | undefined,
): Promise<Bought> {
  const client = new x402Client();
  client.register("eip155:*", new ExactEvmScheme(account));
  if (id !== undefined) {
    client.onBeforePaymentCreation(async ({ paymentRequired }) => {
      appendPaymentIdentifierToExtensions(paymentRequired.extensions ?? {}, id);
    });
  }
  let payment = "";
  const sending: typeof fetch = async (input, init) => {
    const request = new Request(input, init);
    payment = request.headers.get("PAYMENT-SIGNATURE") ?? payment;
    return fetch(request);
  };
  const response = await wrapFetchWithPayment(sending, client)(url);
  return { ...(await told(response)), payment };
}

/** A `PAYMENT-SIGNATURE` that says such a name, be it asked for or not. */
async function signNamed(buyer: FreshAccount, url: string, id: unknown): Promise<string> {
  const paymentRequirements = await quote(url);
  const { account } = buyer;
  const paymentPayload = await signPayment({ account, requirements: paymentRequirements });
  const extensions = { [PAYMENT_IDENTIFIER]: { info: { required: false, id } } };
  const envelope = paymentV2({ paymentPayload, paymentRequirements });
  return encodeHeaderJson({ ...envelope, extensions });
}

/** A `PAYMENT-SIGNATURE` without a name, whatever is asked for. */
async function signUnnamed(buyer: FreshAccount, url: string): Promise<string> {
  const paymentRequirements = await quote(url);
  const { account } = buyer;
  const paymentPayload = await signPayment({ account, requirements: paymentRequirements });
  return encodeHeaderJson(paymentV2({ paymentPayload, paymentRequirements }));
}

async function repeat(url: string, payment: string): Promise<Omit<Bought, "payment">> {
  return told(await fetch(url, { headers: { "PAYMENT-SIGNATURE": payment } }));
}

async function told(response: Response): Promise<Omit<Bought, "payment">> {
  const receipt = headerJson(response.headers, "PAYMENT-RESPONSE");
  return { status: response.status, text: await response.text(), receipt };
}

async function extensionsAt(path: string): Promise<Record<string, unknown>> {
  const { headers } = await fetch(gateway.url + path);
  const { extensions = {} } = headerJson(headers, "PAYMENT-REQUIRED");
  return extensions;
}

test("what is asked for says whether a name may be given, as the official package reads it", async () => {
  const [optional, required, off] = await Promise.all(
    ["/weather", "/named", "/unnamed"].map(extensionsAt),
  );
  for (const [told, isRequired] of [
    [optional, false],
    [required, true],
  ] as const) {
    expect(told?.[PAYMENT_IDENTIFIER]).toMatchObject({ info: { required: isRequired } });
    expect(validatePaymentIdentifier(told?.[PAYMENT_IDENTIFIER])).toEqual({ valid: true });
  }
  expect(off).not.toHaveProperty(PAYMENT_IDENTIFIER);
});

describe("a named purchase", () => {
  const url = () => `${gateway.url}/weather?city=Oslo`;

  test("is charged once, whatever is signed anew for it, and had again with its own payment", async () => {
    const buyer = await richBuyer(chain);
    const id = generatePaymentId();
    const servedBefore = gateway.upstream.length;
    const bought = await buy(url(), buyer, id);
    expect(bought).toMatchObject({ status: 200, receipt: { success: true } });
    const anew = await buy(url(), buyer, id);
    expect(anew.status).toBe(409);
    expect(JSON.parse(anew.text).error).toContain("payment identifier");
    expect(anew.payment).not.toBe(bought.payment);
    expect(await repeat(url(), bought.payment)).toMatchObject({
      status: 200,
      text: bought.text,
      receipt: bought.receipt,
    });
    expect((await repeat(`${url()}&more`, bought.payment)).status).toBe(409);
    expect((await repeat(`${gateway.url}/named`, bought.payment)).status).toBe(409);
    expect(gateway.upstream.length).toBe(servedBefore + 1);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
    expect(await buy(url(), buyer, generatePaymentId())).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 2n * PRICE);
  });

  test("is one of ten that are bought at once, each with a payment of its own", async () => {
    const buyer = await richBuyer(chain);
    const id = generatePaymentId();
    const all = await Promise.all(Array.from({ length: 10 }, () => buy(url(), buyer, id)));
    const statuses = all.map(({ status }) => status).sort((one, other) => one - other);
    expect(statuses).toEqual([200, ...Array.from({ length: 9 }, () => 409)]);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
  });

  test("is known after a restart", async () => {
    const folder = await mkdtemp(join(tmpdir(), "coinslot-identifier-"));
    await using _ = { [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
    const setup = {
      chain,
      routes: ROUTES,
      more: "paymentIdentifier: optional",
      storePath: join(folder, "ledger.db"),
      payee: gateway.payee,
    };
    const buyer = await richBuyer(chain);
    const id = generatePaymentId();
    let bought: Bought;
    {
      await using before = await startGateway(setup);
      bought = await buy(`${before.url}/weather`, buyer, id);
      expect(bought.status).toBe(200);
    }
    await using after = await startGateway(setup);
    expect((await buy(`${after.url}/weather`, buyer, id)).status).toBe(409);
    const { text, receipt } = bought;
    const again = await repeat(`${after.url}/weather`, bought.payment);
    expect(again).toEqual({ status: 200, text, receipt });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
  });

  test("has a name of the right form: any other is 400, and nothing is charged", async () => {
    const buyer = await richBuyer(chain);
    for (const id of ["short", "a".repeat(129), "with a space in it", 17]) {
      const refused = await repeat(url(), await signNamed(buyer, url(), id));
      expect(refused.status).toBe(400);
      expect(JSON.parse(refused.text).error).toContain(`${PAYMENT_IDENTIFIER}.info.id must be`);
    }
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
  });

  test("may be paid with another payment where the first could not be paid", async () => {
    const id = generatePaymentId();
    const refused = await repeat(url(), await signNamed(freshAccount(), url(), id));
    expect([refused.status, refused.text]).toEqual([402, expect.stringContaining("insufficient")]);
    expect((await buy(url(), await richBuyer(chain), id)).status).toBe(200);
  });
});

describe("where a name is required", () => {
  test("a payment of version 2 without one is 400, and one of version 1, which can have none, is taken", async () => {
    const url = `${gateway.url}/named`;
    const buyer = await richBuyer(chain);
    const refused = await buy(url, buyer, undefined);
    expect(refused.status).toBe(400);
    expect(JSON.parse(refused.text).error).toContain("is required here");
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
    expect(await buy(url, buyer, generatePaymentId())).toMatchObject({ status: 200 });
    expect(await present(url, await sign(buyer, url))).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 2n * PRICE);
  });
});

describe("a name that is required from now on", () => {
  test("is none of a purchase that was paid before, nor of a payment for what was asked before", async () => {
    const before = "\n  GET /a: { price: $0.01 }\n";
    await using shop = await startGateway({ chain, routes: before });
    const url = `${shop.url}/a`;
    const buyer = await richBuyer(chain);
    const bought = await buy(url, buyer, undefined);
    expect(bought.status).toBe(200);
    const signed = await signUnnamed(buyer, url);
    const withOdd = await signNamed(buyer, url, "short");
    expect(await shop.reroute("\n  GET /a: { price: $0.01, paymentIdentifier: required }\n")).toBe(
      true,
    );
    const { text, receipt } = bought;
    expect(await repeat(url, bought.payment)).toEqual({ status: 200, text, receipt });
    for (const payment of [signed, withOdd]) {
      expect((await repeat(url, payment)).status).toBe(200);
    }
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 3n * PRICE);
  });

  test("has to be had by a payment for what is asked now", async () => {
    const terms = "maxTimeoutSeconds: 10";
    const before = `\n  GET /a: { price: $0.01, ${terms} }\n`;
    await using shop = await startGateway({ chain, routes: before });
    const url = `${shop.url}/a`;
    const buyer = await richBuyer(chain);
    const after = `\n  GET /a: { price: $0.02, paymentIdentifier: required, ${terms} }\n`;
    expect(await shop.reroute(after)).toBe(true);
    const refused = await repeat(url, await signUnnamed(buyer, url));
    expect(refused.status).toBe(400);
    expect(JSON.parse(refused.text).error).toContain("is required here");
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE);
  });
});

test("where no name is asked for it is ignored, whatever it is", async () => {
  const url = `${gateway.url}/unnamed`;
  const buyer = await richBuyer(chain);
  for (const id of ["short", "short", 17]) {
    expect((await repeat(url, await signNamed(buyer, url, id))).status).toBe(200);
  }
  expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 3n * PRICE);
});

test("two replicas of two workers sell a named purchase once, and know it after a kill", async () => {
  await using closing = new AsyncDisposableStack();
  const postgres = await startPostgres();
  closing.defer(() => postgres.stop());
  const seller = await startSeller();
  closing.defer(() => seller.chain.stop());
  const backend = closing.use(
    await startBackend((_, response) => response.end(JSON.stringify({ sold: true }))),
  );
  const store = await postgres.database();
  const publicUrl = "http://shop.example";
  const yaml = `paymentIdentifier: optional${seller.yaml(backend, "  GET /a: $0.01")}`;
  const sites = [
    closing.use(await Site.create({ store, publicUrl })),
    closing.use(await Site.create({ store, publicUrl })),
  ];
  const replicas = await Promise.all(sites.map((site) => site.serve(yaml, seller.env)));
  await Promise.all(replicas.map((replica) => replica.untilReady(200, 60_000)));
  const urls = replicas.map((replica) => `${replica.url}/a`);
  const [url = ""] = urls;
  const buyer = await richBuyer(seller.chain);
  const id = generatePaymentId();
  const all = await Promise.all(
    Array.from({ length: 12 }, (_, index) => buy(urls[index % 2] ?? url, buyer, id)),
  );
  const statuses = all.map(({ status }) => status).sort((one, other) => one - other);
  expect(statuses).toEqual([200, ...Array.from({ length: 11 }, () => 409)]);
  const paid = all.find(({ status }) => status === 200);
  expect(backend.seen).toEqual(["/a"]);
  await Promise.all(replicas.map((replica) => replica.end("SIGKILL")));
  const next = await sites[1]?.launch(seller.env);
  await next?.untilReady(200, 60_000);
  expect((await buy(`${next?.url}/a`, buyer, id)).status).toBe(409);
  const { status, text, receipt } = paid ?? {};
  // Kept, or where the kill was faster than its note, delivered again; it is paid in any case.
  expect(await repeat(`${next?.url}/a`, paid?.payment ?? "")).toEqual({ status, text, receipt });
  expect(await seller.chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
}, 180_000);
