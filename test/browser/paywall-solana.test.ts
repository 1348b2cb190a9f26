/** A person buys with a Solana wallet that registers itself by the wallet-standard, from a gateway of two workers. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { Browser } from "playwright-core";
import { networkOf } from "../../src/x402/network.ts";
import { readSolanaTransaction } from "../../src/x402/solana-transaction.ts";
import { freshSolanaKey, type SolanaKey } from "../support/solana-key.ts";
import { USDC_DEVNET } from "../support/solana/set-up.ts";
import { CHROMIUM, hasChromium, openBrowser, openTab, type Tab } from "./chromium.ts";
import { injectSolanaWallet, type SolanaWalletOptions } from "./solana-wallet.ts";
import { openShop, PRICE, type Shop } from "./stage.ts";

// A browser and a gateway with workers are started.
vi.setConfig({ hookTimeout: 60_000, testTimeout: 60_000 });

/** More slots than a blockhash is valid for. */
const BLOCKHASH_SLOTS = 200;

function askDraft({ url }: Shop, draft: string): Promise<Response> {
  return fetch(`${url}/weather`, { headers: { "X-PAYMENT-DRAFT": draft } });
}

describe.skipIf(!hasChromium)(`the paywall page with Solana wallets ${CHROMIUM}`, () => {
  let shop: Shop;
  let browser: Browser;
  let buyer: SolanaKey;
  let before: bigint;

  beforeAll(async () => {
    [shop, browser] = await Promise.all([openShop({ workers: 2 }), openBrowser()]);
  });

  afterAll(async () => {
    await browser?.close();
    await shop?.[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    buyer = await shop.solanaShopper();
    before = await shop.solana.tokenBalanceOf(shop.solanaPayee, USDC_DEVNET);
  });

  async function paid(): Promise<bigint> {
    return (await shop.solana.tokenBalanceOf(shop.solanaPayee, USDC_DEVNET)) - before;
  }

  async function open(
    changes: Partial<SolanaWalletOptions> = {},
  ): Promise<Tab & { readonly signed: readonly string[] }> {
    const tab = await openTab(browser);
    const signed = await injectSolanaWallet(tab.page, { key: buyer, ...changes });
    await tab.page.goto(`${shop.url}/weather?by=solana`);
    return { ...tab, signed };
  }

  const payButton = { name: "Pay $0.01 with Test Solana Wallet" };
  const PAID = { name: "Paid: here it is" };

  it("sells, and a reload shows the same again for the same transaction", async () => {
    await using tab = await open();
    const { page, signed } = tab;
    // It is the second way to pay, and the first that somebody here can.
    expect(await page.getByRole("radio").nth(1).isChecked()).toBe(true);
    expect(await page.locator("#exact").innerText()).toBe("0.01 USDC on Solana devnet");
    await page.getByRole("button", payButton).click();
    await page.getByRole("heading", PAID).waitFor();
    const [transaction = ""] = signed;
    const read = readSolanaTransaction(transaction);
    expect(read.ok && read.value.payer).toBe(buyer.address);
    const receipt = page.locator("#receipt a");
    expect(await receipt.getAttribute("href")).toMatch(
      /^https:\/\/explorer\.solana\.com\/tx\/[1-9A-HJ-NP-Za-km-z]{80,90}\?cluster=devnet$/,
    );
    await page.reload();
    await page.getByRole("heading", PAID).waitFor();
    expect(await paid()).toBe(PRICE);
    expect(signed).toHaveLength(1);
    expect(tab.faults).toEqual([]);
    expect(new Set(tab.requested.map((url) => new URL(url).origin))).toEqual(new Set([shop.url]));
  });

  it("shows on another device what was bought, to its payer's signature", async () => {
    await using tab = await open();
    await tab.page.getByRole("button", payButton).click();
    await tab.page.getByRole("heading", PAID).waitFor();
    await using other = await open();
    await other.page.getByRole("button", { name: /Sign in with/ }).click();
    await other.page.getByRole("heading", PAID).waitFor();
    expect(await other.page.locator("#bought pre").innerText()).toContain("/weather?by=solana");
    expect(await other.page.locator("#receipt").innerText()).toContain(buyer.address);
    expect([await paid(), other.signed, other.faults]).toEqual([PRICE, [], []]);
  });

  it("says that nothing was charged when the user declines", async () => {
    await using tab = await open({ declines: true });
    await tab.page.getByRole("button", payButton).click();
    const said = "You declined in your wallet. Nothing was charged.";
    await tab.page.getByRole("status").getByText(said).waitFor();
    expect(await paid()).toBe(0n);
  });

  it("says so where the account holds too little, and charges nothing", async () => {
    await using tab = await open({ key: freshSolanaKey() });
    await tab.page.getByRole("button", payButton).click();
    const said = "The account holds too little. Nothing was charged.";
    await tab.page.getByRole("status").getByText(said).waitFor();
  });

  it("says that the payment has expired where the buyer thinks for longer than a block lives", async () => {
    await using tab = await open({ thinks: () => shop.solana.tick(BLOCKHASH_SLOTS) });
    await tab.page.getByRole("button", payButton).click();
    const said = "The signed payment has expired. Nothing was charged.";
    await tab.page.getByRole("status").getByText(said).waitFor();
    expect(await paid()).toBe(0n);
  });

  it("offers a wallet of another cluster nowhere", async () => {
    await using tab = await open({ chains: ["solana:mainnet"] });
    await tab.page.getByRole("radio", { name: /Solana devnet/ }).check();
    await tab.page.getByText("No wallet for Solana devnet was found in this browser.").waitFor();
    expect(await tab.page.getByRole("button").count()).toBe(0);
  });

  it("writes no transaction for who asks for another token, or names no payer", async () => {
    const network = "solana-devnet";
    for (const draft of [
      "",
      network,
      `${network} ${USDC_DEVNET} `,
      `${network} ${USDC_DEVNET} 0OIl`,
      `${network} ${buyer.address} ${buyer.address}`,
      `solana ${USDC_DEVNET} ${buyer.address}`,
      `base-sepolia ${shop.chain.asset} ${buyer.address}`,
    ]) {
      expect((await askDraft(shop, draft)).status, draft).toBe(400);
    }
    for (const named of [network, networkOf(network).caip2]) {
      const answer = await askDraft(shop, `${named} ${USDC_DEVNET} ${buyer.address}`);
      const body = Object(await answer.json());
      expect([answer.status, body.x402Version]).toEqual([402, 1]);
      const read = readSolanaTransaction(body.draft);
      expect(read.ok && [read.value.feePayer, read.value.payer]).toEqual([
        body.accepts[1].extra.feePayer,
        buyer.address,
      ]);
    }
  });
});
