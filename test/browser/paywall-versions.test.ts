/** The page pays by version 2 of the protocol where that is spoken, and else by version 1: on real chains, in a real browser. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from "vitest";
import type { Browser, Page, Request } from "playwright-core";
import { PAYMENT_IDENTIFIER } from "../../src/x402/payment-identifier.ts";
import { PURSE } from "../support/buyer.ts";
import { freshSolanaKey, type SolanaKey } from "../support/solana-key.ts";
import { USDC_DEVNET } from "../support/solana/set-up.ts";
import { SIGN_IN } from "../../src/x402/sign-in.ts";
import { CHROMIUM, hasChromium, openBrowser, openTab } from "./chromium.ts";
import { injectEvmWallet } from "./evm-wallet.ts";
import { injectSolanaWallet } from "./solana-wallet.ts";
import { MEMO, openShop, PRICE, type Shop } from "./stage.ts";

// A browser and a gateway with a worker are started, for each of the settings.
vi.setConfig({ hookTimeout: 120_000, testTimeout: 60_000 });

const ROOT = join(import.meta.dirname, "../..");
const BASE_SEPOLIA = 84_532;
const PAY = { name: /^Pay .* with/ };
const PAID = { name: "Paid: here it is" };
const SETTLED_SOON = "limits: { settlementWait: 1s }";

const V1 = { version: 1, payment: "x-payment", receipt: "x-payment-response" } as const;
const V2 = { version: 2, payment: "payment-signature", receipt: "payment-response" } as const;

type Extensions = Readonly<Record<string, { readonly info: Readonly<Record<string, unknown>> }>>;

interface Payment {
  readonly x402Version: number;
  readonly accepted?: object;
  readonly extensions?: Extensions;
  readonly payload: {
    readonly transaction: string;
    readonly authorization: Readonly<Record<string, string>>;
  };
}

interface Exchange {
  /** Of the request's headers, in lower case. */
  readonly names: readonly string[];
  readonly payment: Payment;
  /** Of the header that has the payment, characters. */
  readonly length: number;
  /** Null: there was none. */
  readonly receipt: object | null;
  readonly status: number | undefined;
}

interface Quote {
  readonly accepts: readonly object[];
  readonly extensions: Extensions;
}

/** Each quote has its own. */
const anotherChallenge = {
  info: expect.objectContaining({ nonce: expect.stringMatching(/^[\da-f]{32}$/) }),
  supportedChains: expect.any(Array),
};

function decoded(value: string | undefined) {
  return value === undefined ? null : JSON.parse(Buffer.from(value, "base64").toString("utf8"));
}

async function onlyOne(payments: readonly Promise<Exchange>[]): Promise<Exchange> {
  const [only, ...others] = await Promise.all(payments);
  if (only === undefined || others.length > 0) throw new Error(`${payments.length} payments`);
  return only;
}

describe.skipIf(!hasChromium).each([
  ["both versions are spoken", "", V2],
  ["version 1 alone is spoken", "protocol: { v2: false }", V1],
  ["version 2 alone is spoken", "protocol: { v1: false }", V2],
])(`the paywall page where %s ${CHROMIUM}`, (_, protocol, spoken) => {
  const { version } = spoken;
  let shop: Shop;
  let browser: Browser;

  beforeAll(async () => {
    const more = `${protocol}\n${SETTLED_SOON}`;
    [shop, browser] = await Promise.all([openShop({ workers: 1, more }), openBrowser()]);
  });

  afterEach(() => shop.chain.rpc("evm_setAutomine", [true]));

  afterAll(async () => {
    await browser?.close();
    await shop?.[Symbol.asyncDispose]();
  });

  /** Every request that brings a payment, as it is answered. */
  function paymentsOf(page: Page): Promise<Exchange>[] {
    const seen: Promise<Exchange>[] = [];
    const read = async (request: Request): Promise<Exchange> => {
      const headers = await request.allHeaders();
      const response = await request.response();
      const told = (await response?.allHeaders()) ?? {};
      return {
        names: Object.keys(headers),
        payment: decoded(headers[spoken.payment]),
        length: headers[spoken.payment]?.length ?? 0,
        receipt: decoded(told[spoken.receipt]),
        status: response?.status(),
      };
    };
    page.on("request", (request) => {
      const names = Object.keys(request.headers());
      if (names.includes(V1.payment) || names.includes(V2.payment)) seen.push(read(request));
    });
    return seen;
  }

  async function openWithEvm(path: string) {
    const buyer = await shop.shopper();
    const tab = await openTab(browser);
    const { account } = buyer;
    const { rpcUrl } = shop.chain;
    const wallet = await injectEvmWallet(tab.page, { account, rpcUrl, chainId: BASE_SEPOLIA });
    const payments = paymentsOf(tab.page);
    await tab.page.goto(shop.url + path);
    return { ...tab, buyer, wallet, payments };
  }

  async function openWithSolana(path: string, key: SolanaKey) {
    const tab = await openTab(browser);
    const signed = await injectSolanaWallet(tab.page, { key });
    const payments = paymentsOf(tab.page);
    await tab.page.goto(shop.url + path);
    await tab.page.getByRole("radio", { name: /Solana devnet/ }).check();
    return { ...tab, key, signed, payments };
  }

  const inUsdc = (owner: string): Promise<bigint> => shop.solana.tokenBalanceOf(owner, USDC_DEVNET);

  /** What programs of version 2 are asked for. */
  async function quoted(path: string): Promise<Quote> {
    const { headers } = await fetch(shop.url + path);
    return decoded(headers.get("PAYMENT-REQUIRED") ?? "");
  }

  it("sells on an EVM network, for exactly its price", async () => {
    const before = await shop.chain.balanceOf(shop.payee);
    const path = "/weather?city=Berlin";
    await using tab = await openWithEvm(path);
    const { page, buyer } = tab;
    const askedAt = Math.floor(Date.now() / 1000);
    await page.getByRole("button", PAY).click();
    await page.getByRole("heading", PAID).waitFor();
    expect(await shop.chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
    expect((await shop.chain.balanceOf(shop.payee)) - before).toBe(PRICE);

    const { names, payment, receipt, status } = await onlyOne(tab.payments);
    const other = version === 2 ? V1 : V2;
    expect([status, names.includes(other.payment)]).toEqual([200, false]);
    const network = version === 2 ? "eip155:84532" : "base-sepolia";
    const { payload, ...envelope } = payment;
    expect(payload.authorization).toMatchObject({
      from: buyer.address,
      to: shop.payee,
      value: String(PRICE),
    });
    // As official clients of version 1 do: clocks differ.
    expect(Math.abs(askedAt - 600 - Number(payload.authorization.validAfter))).toBeLessThan(30);
    if (version === 2) {
      const { accepts, extensions } = await quoted(path);
      const told = { ...extensions, [SIGN_IN]: anotherChallenge };
      expect(envelope).toEqual({ x402Version: 2, accepted: accepts[0], extensions: told });
    } else {
      expect(envelope).toEqual({ x402Version: 1, scheme: "exact", network });
    }
    expect(receipt).toMatchObject({
      success: true,
      network,
      payer: buyer.address,
      transaction: await page.locator("#receipt a").innerText(),
    });
    expect(tab.faults).toEqual([]);
  });

  // With both it is the page of version 2.
  if (protocol === "") return;

  it("shows a program of an official client that buys", async () => {
    const buyer = await shop.shopper();
    await using tab = await openTab(browser);
    await tab.page.goto(`${shop.url}/weather?city=Oslo`);
    await tab.page.getByText("Pay with a program").click();
    const program = await tab.page.locator("pre").innerText();
    const options = { cwd: ROOT, env: { ...process.env, KEY: buyer.privateKey } };
    const args = ["--input-type=module", "--eval", program];
    const { stdout } = await promisify(execFile)(process.execPath, args, options);
    expect(JSON.parse(stdout)).toEqual({ url: "/weather?city=Oslo", degrees: 21 });
    expect(await shop.chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
  });

  it("sells on Solana, and writes the seller's memo where a payment has one", async () => {
    const before = await inUsdc(shop.solanaPayee);
    await using tab = await openWithSolana("/booked", await shop.solanaShopper());
    await tab.page.getByRole("button", PAY).click();
    await tab.page.getByRole("heading", PAID).waitFor();
    expect((await inUsdc(shop.solanaPayee)) - before).toBe(PRICE);

    const { payment, receipt } = await onlyOne(tab.payments);
    expect(payment.payload).toEqual({ transaction: tab.signed[0] });
    const hasMemo = Buffer.from(payment.payload.transaction, "base64").includes(MEMO);
    expect(hasMemo).toBe(version === 2);
    const network = version === 2 ? "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1" : "solana-devnet";
    expect(receipt).toMatchObject({ success: true, network, payer: tab.key.address });
    const accepted = { network, amount: String(PRICE), extra: { memo: MEMO } };
    expect(payment).toMatchObject({ x402Version: version, ...(version === 2 && { accepted }) });
    expect(tab.faults).toEqual([]);
  });

  it("names each purchase where a payment has to have a name", async () => {
    const path = "/named";
    await using tab = await openWithEvm(path);
    await tab.page.getByRole("button", PAY).click();
    await tab.page.getByRole("heading", PAID).waitFor();
    await tab.page.getByRole("button", { name: "Buy it again" }).click();
    await tab.page.getByRole("button", PAY).click();
    await tab.page.getByRole("heading", PAID).waitFor();
    expect(await shop.chain.balanceOf(tab.buyer.address)).toBe(PURSE - 2n * PRICE);
    const told = (await Promise.all(tab.payments)).map(({ payment }) => payment.extensions);
    if (version === 1) {
      expect(told).toEqual([undefined, undefined]);
      return;
    }
    const names = told.map((extensions) => extensions?.[PAYMENT_IDENTIFIER]?.info["id"]);
    const name = expect.stringMatching(/^\w{16,128}$/);
    expect([...new Set(names)]).toEqual([name, name]);
    // All that is repeated is as it was told, and not all of that is ASCII.
    const { extensions } = await quoted("/named");
    expect(extensions["bazaar"]).toMatchObject({
      info: { input: { queryParams: { city: "Köln, 東京" } } },
    });
    const own = extensions[PAYMENT_IDENTIFIER];
    expect(told).toEqual(
      names.map((id) => ({
        ...extensions,
        [SIGN_IN]: anotherChallenge,
        [PAYMENT_IDENTIFIER]: { ...own, info: { ...own?.info, id } },
      })),
    );
  });

  it("sends the same payment as long as nobody knows what became of it, and signs no other", async () => {
    await using tab = await openWithEvm("/weather?pending");
    const { page } = tab;
    await shop.chain.rpc("evm_setAutomine", [false]);
    await page.getByRole("button", PAY).click();
    const said = "It is not known yet whether the payment went through. Do not pay again";
    await page.getByRole("status").getByText(said).waitFor();
    const again = page.getByRole("button", { name: "Try again with the same payment" });
    await again.click();
    await page.getByRole("status").getByText("Paying.").waitFor();
    await page.getByRole("status").getByText(said).waitFor();
    expect(await page.getByRole("button", PAY).count()).toBe(0);
    await shop.chain.rpc("evm_setAutomine", [true]);
    await shop.chain.mine();
    await page.reload();
    await page.getByRole("heading", PAID).waitFor();

    const [first, ...later] = await Promise.all(tab.payments);
    expect(later.map(({ payment }) => payment)).toEqual([first?.payment, first?.payment]);
    expect([first, ...later].map((each) => each?.status)).toEqual([500, 500, 200]);
    const pending = { success: false, errorReason: "settlement_pending" };
    if (version === 2) expect(first?.receipt).toMatchObject(pending);
    else expect(first?.receipt).toBeNull();
    expect(later.at(-1)?.receipt).toMatchObject({ success: true });
    const isSignature = (name: string): boolean => name === "eth_signTypedData_v4";
    expect(tab.wallet.methods().filter(isSignature)).toHaveLength(1);
    expect(await shop.chain.balanceOf(tab.buyer.address)).toBe(PURSE - PRICE);
  });

  it("keeps a payment of the version that is not spoken any more, since nobody has looked at it", async () => {
    const { page, [Symbol.asyncDispose]: close } = await openTab(browser);
    await using _tab = { [Symbol.asyncDispose]: close };
    const name = version === 2 ? "X-PAYMENT" : "PAYMENT-SIGNATURE";
    const kept = JSON.stringify({ name, header: "e30=", offer: 0, soldMs: 0 });
    await page.addInitScript(
      `sessionStorage.setItem("coinslot /weather?older", ${JSON.stringify(kept)})`,
    );
    await page.goto(`${shop.url}/weather?older`);
    await page.getByRole("status").getByText("Send the same payment again").waitFor();
    await page.getByRole("button", { name: "Try again with the same payment" }).waitFor();
    expect(await page.getByRole("button", PAY).count()).toBe(0);
  });

  it("says why a payment was refused, and that nothing was charged", async () => {
    await using tab = await openWithSolana("/weather?poor", freshSolanaKey());
    await tab.page.getByRole("button", PAY).click();
    const said = "The account holds too little. Nothing was charged.";
    await tab.page.getByRole("status").getByText(said).waitFor();
    expect(await onlyOne(tab.payments)).toMatchObject({ status: 402 });
  });

  it("sells what has a long URL, for a payment that proxies take", async () => {
    await using tab = await openWithEvm(`/weather?long=${"x".repeat(7_000)}`);
    await tab.page.getByRole("button", PAY).click();
    await tab.page.getByRole("heading", PAID).waitFor();
    expect(await shop.chain.balanceOf(tab.buyer.address)).toBe(PURSE - PRICE);
    // The longest line that nginx reads by default is 8 KiB.
    const { length } = await onlyOne(tab.payments);
    expect(spoken.payment.length + length).toBeLessThan(8_000);
  });
});
