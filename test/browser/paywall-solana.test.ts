/** A person buys with a Solana wallet that registers itself by the wallet-standard, from a gateway of two workers. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { Browser, Page } from "playwright-core";
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

const SOON = { timeout: 15_000 };

const MORE = "credits: { packs: [$0.02], atRisk: $0.05 }";
const ROUTES = `
  GET /prepaid: { price: $0.01, description: Prepaid, credits: true }
`;

interface Place {
  readonly path?: string;
}

function askDraft({ url }: Shop, draft: string): Promise<Response> {
  return fetch(`${url}/weather`, { headers: { "X-PAYMENT-DRAFT": draft } });
}

describe.skipIf(!hasChromium)(`the paywall page with Solana wallets ${CHROMIUM}`, () => {
  let shop: Shop;
  let browser: Browser;
  let buyer: SolanaKey;
  let before: bigint;

  beforeAll(async () => {
    const opening = openShop({ workers: 2, more: MORE, routes: ROUTES });
    [shop, browser] = await Promise.all([opening, openBrowser()]);
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

  async function open({
    path = "/weather?by=solana",
    ...changes
  }: Partial<SolanaWalletOptions> & Place = {}): Promise<
    Tab & { readonly signed: readonly string[] }
  > {
    const tab = await openTab(browser);
    const signed = await injectSolanaWallet(tab.page, { key: buyer, ...changes });
    await tab.page.goto(shop.url + path);
    return { ...tab, signed };
  }

  /** In the browser, by its session. */
  async function balanceIn(page: Page): Promise<unknown> {
    const told = await page.evaluate(`fetch("/.x402/balance").then((answer) => answer.json())`);
    return Object(told).credits[0]?.amount ?? "0";
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

  it("buys a balance, and pays from it by presses that need no signature until it is spent", async () => {
    await using tab = await open({ path: "/.x402/credits" });
    const { page, signed } = tab;
    await page.getByRole("button", { name: "Pay $0.02 with Test Solana Wallet" }).click();
    await page.getByRole("heading", PAID).waitFor();
    expect(await paid()).toBe(2n * PRICE);

    await page.goto(`${shop.url}/prepaid?on=solana`);
    await page.getByRole("radio", { name: /Solana devnet/ }).check();
    await page.getByRole("button", { name: /^Bought before, or a member\? Sign in with/ }).click();
    const signedIn = `Signed in as ${buyer.address.slice(0, 6)}…${buyer.address.slice(-4)}`;
    await page.getByText(signedIn).waitFor();
    for (const [left, then] of [
      ["0.02", "10000"],
      ["0.01", "0"],
    ]) {
      await page.getByText(`Your balance: ${left} USDC.`).waitFor();
      await page.getByRole("button", { name: "Pay $0.01 from your balance" }).click();
      await page.getByRole("heading", PAID).waitFor();
      expect(await page.locator("#receipt").innerText()).toContain("0.01 USDC from the balance");
      // What one worker has debited the other one knows when it is written.
      await expect.poll(() => balanceIn(page), SOON).toBe(then);
      await page.goto(`${shop.url}/prepaid?left=${left}`);
    }
    await page.getByText("That is too little to pay $0.01 from it.").waitFor();
    expect(shop.sold.filter((url) => url.startsWith("/prepaid"))).toHaveLength(2);
    expect([await paid(), signed.length, tab.faults]).toEqual([2n * PRICE, 1, []]);
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
