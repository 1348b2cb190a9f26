/** A person buys with a wallet of an EVM network, in a real browser and on a real chain. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { Browser } from "playwright-core";
import { present, sign } from "../support/buyer.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import { CHROMIUM, hasChromium, openBrowser, openTab, type Tab } from "./chromium.ts";
import { injectEvmWallet, type EvmWallet, type EvmWalletOptions } from "./evm-wallet.ts";
import { axeFindings } from "./page-checks.ts";
import { openShop, PRICE, type Shop } from "./stage.ts";

// A browser and a gateway with workers are started.
vi.setConfig({ hookTimeout: 60_000, testTimeout: 60_000 });

const BASE_SEPOLIA = 84_532;
const ELSEWHERE = 1;

/** How long something may take to be loaded, milliseconds. */
const SOON = { timeout: 15_000 };

/** In the browser, of a picture. */
const widthOf = (each: unknown): unknown => Object(each).naturalWidth;

describe.skipIf(!hasChromium)(`the paywall page ${CHROMIUM}`, () => {
  let shop: Shop;
  let browser: Browser;
  let buyer: FreshAccount;
  let before: bigint;

  beforeAll(async () => {
    [shop, browser] = await Promise.all([openShop({ workers: 1 }), openBrowser()]);
  });

  afterAll(async () => {
    await browser?.close();
    await shop?.[Symbol.asyncDispose]();
  });

  beforeEach(async () => {
    buyer = await shop.shopper();
    before = await shop.chain.balanceOf(shop.payee);
    shop.failures.length = 0;
  });

  async function paid(): Promise<bigint> {
    return (await shop.chain.balanceOf(shop.payee)) - before;
  }

  async function open(
    path: string,
    changes: Partial<EvmWalletOptions> = {},
  ): Promise<Tab & { readonly wallet: EvmWallet }> {
    const tab = await openTab(browser);
    const { account } = buyer;
    const chosen = { account, rpcUrl: shop.chain.rpcUrl, chainId: BASE_SEPOLIA, ...changes };
    const wallet = await injectEvmWallet(tab.page, chosen);
    await tab.page.goto(shop.url + path);
    return { ...tab, wallet };
  }

  const payButton = { name: /^Pay .* with/ };
  const PAID = { name: "Paid: here it is" };

  it("says what is sold, at what price and where, and sells it", async () => {
    await using tab = await open("/weather?city=Berlin");
    const { page, wallet } = tab;
    expect(await page.title()).toBe("$0.01 · Payment required");
    const text = await page.getByRole("main").innerText();
    const { host } = new URL(shop.url);
    const asked = "text/csv · GET /weather?city=Berlin";
    const exact = "0.01 USDC on Base Sepolia test network, play money";
    for (const said of ["Weather Inc", host, "Current weather in Berlin", "$0.01", exact, asked]) {
      expect(text).toContain(said);
    }
    const payee = page.locator("#payee");
    const { payee: to } = shop;
    expect(await payee.innerText()).toBe(`${to.slice(0, 6)}…${to.slice(-4)}`);
    expect(await payee.getAttribute("href")).toBe(`https://sepolia.basescan.org/address/${to}`);
    await page.getByRole("button", { name: "Pay $0.01 with Test Wallet" }).click();
    await page.getByRole("heading", PAID).waitFor();

    expect(await page.locator("#bought pre").innerText()).toContain(
      '"url": "/weather?city=Berlin"',
    );
    const receipt = page.locator("#receipt a");
    expect(await receipt.getAttribute("href")).toMatch(
      /^https:\/\/sepolia\.basescan\.org\/tx\/0x[\da-f]{64}$/,
    );
    expect(await page.evaluate("document.activeElement.textContent")).toBe("Paid: here it is");
    expect(await paid()).toBe(PRICE);
    expect(wallet.methods()).toEqual([
      "eth_requestAccounts",
      "eth_chainId",
      "eth_call",
      "eth_signTypedData_v4",
    ]);
    expect(tab.faults).toEqual([]);
    expect(tab.requested.map((url) => new URL(url).origin)).toEqual(
      tab.requested.map(() => shop.url),
    );
  });

  it("shows on another device what was bought, to its payer's signature and to nobody else's", async () => {
    const PAID_ALREADY = { name: "Bought before, or a member? Sign in with Test Wallet" };
    await using tab = await open("/weather?city=Kiel");
    await tab.page.getByRole("button", payButton).click();
    await tab.page.getByRole("heading", PAID).waitFor();
    await using other = await open("/weather?city=Kiel");
    expect(await axeFindings(other.page)).toEqual([]);
    await other.page.getByRole("button", PAID_ALREADY).click();
    await other.page.getByRole("heading", PAID).waitFor();
    expect(await other.page.locator("#bought pre").innerText()).toContain("city=Kiel");
    expect(await other.page.locator("#receipt").innerText()).toContain(buyer.address);
    expect(await axeFindings(other.page)).toEqual([]);
    expect(other.wallet.methods()).toEqual(["eth_requestAccounts", "eth_chainId", "personal_sign"]);
    expect([await paid(), other.faults]).toEqual([PRICE, []]);
    // Who has signed out is nobody.
    await other.page.getByRole("button", { name: "Sign out" }).click();
    await other.page.getByRole("button", PAID_ALREADY).waitFor();

    await using stranger = await open("/weather?city=Kiel", { account: freshAccount().account });
    await stranger.page.getByRole("button", PAID_ALREADY).click();
    const status = stranger.page.getByRole("status");
    await status
      .getByText("this account has bought nothing here that is still to be had")
      .waitFor();
    expect(await status.innerText()).toContain("nothing was charged");
    expect(await stranger.page.getByRole("button", payButton).isEnabled()).toBe(true);
    expect(await axeFindings(stranger.page)).toEqual([]);
    expect(await paid()).toBe(PRICE);
  });

  it("finds a wallet that only stands at window.ethereum", async () => {
    await using tab = await open("/weather", { how: "injected" });
    await tab.page.getByRole("button", { name: "Pay $0.01 with Browser wallet" }).click();
    await tab.page.getByRole("heading", PAID).waitFor();
    expect(await paid()).toBe(PRICE);
  });

  it("changes the wallet's chain, and adds it where the wallet does not know it", async () => {
    await using knowing = await open("/weather", { chainId: ELSEWHERE, knows: [BASE_SEPOLIA] });
    await knowing.page.getByRole("button", payButton).click();
    await knowing.page.getByRole("heading", PAID).waitFor();
    expect(knowing.wallet.methods()).not.toContain("wallet_addEthereumChain");

    await using tab = await open("/weather", { chainId: ELSEWHERE });
    await tab.page.getByRole("button", payButton).click();
    await tab.page.getByRole("heading", PAID).waitFor();
    const added = tab.wallet.calls.find(({ method }) => method === "wallet_addEthereumChain");
    expect(added?.params).toEqual([
      {
        chainId: "0x14a34",
        chainName: "Base Sepolia",
        nativeCurrency: { name: "Sepolia Ether", symbol: "ETH", decimals: 18 },
        // Never the shop's own endpoint, which often has a key in it.
        rpcUrls: ["https://sepolia.base.org"],
        blockExplorerUrls: ["https://sepolia.basescan.org"],
      },
    ]);
    expect(await paid()).toBe(2n * PRICE);
  });

  it.each(["eth_requestAccounts", "wallet_switchEthereumChain", "eth_signTypedData_v4"])(
    "says that nothing was charged when the user declines %s, and sells later",
    async (method) => {
      const chainId = method === "wallet_switchEthereumChain" ? ELSEWHERE : BASE_SEPOLIA;
      const knows = [BASE_SEPOLIA];
      await using tab = await open("/weather", { chainId, knows, declines: [method] });
      const { page, wallet } = tab;
      await page.getByRole("button", payButton).click();
      const status = page.getByRole("status");
      await status.getByText("You declined in your wallet. Nothing was charged.").waitFor();
      expect(await page.evaluate("document.activeElement.id")).toBe("status");
      expect(await paid()).toBe(0n);

      wallet.relent();
      await page.getByRole("button", payButton).click();
      await page.getByRole("heading", PAID).waitFor();
      expect(await paid()).toBe(PRICE);
    },
  );

  it("asks for no signature where the account holds too little", async () => {
    const { account } = freshAccount();
    await using tab = await open("/weather", { account });
    await tab.page.getByRole("button", payButton).click();
    const said = "holds too little: 0 USDC on Base Sepolia, and this costs 0.01 USDC. Nothing was";
    await tab.page.getByRole("status").getByText(said).waitFor();
    expect(tab.wallet.methods()).not.toContain("eth_signTypedData_v4");
    const faucet = tab.page.locator("#retry").getByRole("link", { name: "given away" });
    expect(await faucet.getAttribute("href")).toBe("https://faucet.circle.com");
  });

  it("sends no signature that came too late", async () => {
    const deciding = Promise.withResolvers<void>();
    await using tab = await open("/weather", { thinks: () => deciding.promise });
    const { page } = tab;
    await page.clock.install();
    await page.reload();
    await page.getByRole("button", payButton).click();
    await page.getByRole("status").getByText("Sign the payment in your wallet.").waitFor();
    await page.clock.fastForward("01:00");
    deciding.resolve();
    const said = "The signature has expired: it counts for 60 seconds. Nothing was charged.";
    await page.getByRole("status").getByText(said).waitFor();
    expect(await paid()).toBe(0n);
  });

  it("does not pay another price than the one that it shows", async () => {
    await using tab = await open("/weather");
    const { page } = tab;
    await shop.reprice("$0.02");
    await page.getByRole("button", payButton).click();
    const said = "The price has changed since this page was loaded. Reload it to see the new one.";
    await page.getByRole("status").getByText(`${said} Nothing was charged.`).waitFor();
    expect(await paid()).toBe(0n);

    await page.reload();
    await page.getByRole("button", { name: "Pay $0.02" }).click();
    await page.getByRole("heading", PAID).waitFor();
    expect(await paid()).toBe(2n * PRICE);
    await shop.reprice("$0.01");
  });

  it("takes nothing for a reload after the purchase, and shows the answer again", async () => {
    await using tab = await open("/weather?again");
    const { page, wallet } = tab;
    await page.getByRole("button", payButton).click();
    await page.getByRole("heading", PAID).waitFor();
    const asked = shop.sold.length;
    for (const time of [1, 2, 3]) {
      await page.reload();
      await page.getByRole("heading", PAID).waitFor();
      expect(await paid(), `reload ${time}`).toBe(PRICE);
    }
    expect(shop.sold.length).toBe(asked);

    // The shop gives an answer again three times.
    await page.reload();
    const said = "this payment was used before; sign a new one. Nothing more was charged.";
    await page.getByRole("status").getByText(said).waitFor();
    expect(await paid()).toBe(PRICE);
    const signatures = wallet.methods().filter((method) => method === "eth_signTypedData_v4");
    expect(signatures).toHaveLength(1);
  });

  it("sends the same payment again after an error of the seller's server", async () => {
    await using tab = await open("/weather?flaky");
    const { page } = tab;
    shop.failures.push(500, 502);
    await page.getByRole("button", payButton).click();
    const again = page.getByRole("button", { name: "Try again with the same payment" });
    await page.getByRole("status").getByText("answered with an error (500)").waitFor();
    // As long as it is open nothing else can be paid, and a reload changes nothing about that.
    expect(await page.getByRole("button", payButton).count()).toBe(0);
    await page.reload();
    await page.getByRole("status").getByText("answered with an error (502)").waitFor();
    await again.click();
    await page.getByRole("heading", PAID).waitFor();
    expect(await paid()).toBe(PRICE);
  });

  it("asks what became of a payment whose answer was lost", async () => {
    await using tab = await open("/weather?lost");
    const { page, context } = tab;
    let losses = 0;
    await context.route(/lost/, async (route) => {
      const { "payment-signature": payment } = route.request().headers();
      if (payment === undefined || losses > 1) return route.continue();
      losses += 1;
      // The shop gets it, and its answer is lost.
      await route.fetch();
      return route.abort();
    });
    await page.getByRole("button", payButton).click();
    await page.getByRole("status").getByText("Do not pay again").waitFor();
    await page.getByRole("button", { name: "Try again" }).click();
    await page.getByRole("heading", PAID).waitFor();
    expect(await paid()).toBe(PRICE);
  });

  it("shows again what was bought before the page paid by version 2", async () => {
    const url = `${shop.url}/weather?older`;
    const header = await sign(buyer, url);
    expect((await present(url, header)).status).toBe(200);
    await using tab = await openTab(browser);
    const kept = JSON.stringify({ header, offer: 0, soldMs: Date.now() });
    await tab.page.addInitScript(
      `sessionStorage.setItem("coinslot /weather?older", ${JSON.stringify(kept)})`,
    );
    await tab.page.goto(url);
    await tab.page.getByRole("heading", PAID).waitFor();
    expect(await paid()).toBe(PRICE);
  });

  it("keeps a payment of version 1 that a page of version 2 sends, where the seller refuses it", async () => {
    const url = `${shop.url}/weather?older-refused`;
    const kept = JSON.stringify({ header: await sign(buyer, url), offer: 0, soldMs: 0 });
    await using tab = await openTab(browser);
    const { page } = tab;
    const name = "coinslot /weather?older-refused";
    await page.addInitScript(`sessionStorage.setItem("${name}", ${JSON.stringify(kept)})`);
    shop.failures.push(400);
    await page.goto(url);
    const said =
      "You have paid, but the seller's server cannot use this request (400). It says: <b>out of order</b>.";
    await page.getByRole("status").getByText(said).waitFor();
    await page.getByRole("button", { name: "Try again with the same payment" }).click();
    await page.getByRole("heading", PAID).waitFor();
    expect(await page.locator("#bought").innerText()).toMatch(/Transaction\s+0x/);
    expect(await paid()).toBe(PRICE);
  });

  it("shows a document without letting it do anything, and its own pictures and styles", async () => {
    await using tab = await open("/article");
    const { page } = tab;
    await page.getByRole("button", payButton).click();
    const frame = page.frameLocator("iframe");
    await frame.getByRole("heading", { name: "The whole story" }).waitFor();
    expect(await page.title()).not.toContain("taken over");
    const heading = frame.getByRole("heading", { name: "The whole story" });
    await expect
      .poll(() => heading.evaluate((each) => Object(globalThis).getComputedStyle(each).color), SOON)
      .toBe("rgb(1, 2, 3)");
    const pixel = frame.getByAltText("a pixel");
    await expect.poll(() => pixel.evaluate(widthOf), SOON).toBe(10);
    const hosts = new Set(tab.requested.map((url) => new URL(url).origin));
    expect([...hosts]).toEqual([shop.url]);
    const stopped = /elsewhere\.example.*Content Security Policy|policy.*elsewhere\.example/i;
    expect(tab.faults.join("\n")).toMatch(stopped);
  });

  it("shows a picture, and offers what it cannot show to be saved", async () => {
    await using picture = await open("/picture");
    await picture.page.getByRole("button", payButton).click();
    const image = picture.page.locator("#bought img");
    await expect.poll(() => image.evaluate(widthOf), SOON).toBe(10);

    await using archive = await open("/archive");
    await archive.page.getByRole("button", payButton).click();
    await archive.page.getByRole("heading", PAID).waitFor();
    const saving = archive.page.waitForEvent("download");
    await archive.page.getByRole("link", { name: "Save what was bought" }).click();
    expect((await saving).suggestedFilename()).toMatch(/^archive/);
  });

  it("shows where a purchase is, and a stream as it comes", async () => {
    const deciding = Promise.withResolvers<void>();
    const settling = Promise.withResolvers<void>();
    await using tab = await open("/stream", { thinks: () => deciding.promise });
    const { page } = tab;
    await page.route(/stream/, async (route) => {
      if (route.request().headers()["payment-signature"] !== undefined) await settling.promise;
      await route.continue();
    });
    const now = page.locator("[aria-current=step]");
    await page.getByRole("button", payButton).click();
    await now.getByText("Sign in your wallet").waitFor();
    deciding.resolve();
    await now.getByText("Pay on chain").waitFor();
    settling.resolve();
    await now.getByText("Delivery").waitFor();
    await page.locator("#bought pre").getByText("data: first").waitFor();
    // What would be a second payment is offered nowhere meanwhile.
    expect(await page.getByText("Pay with a p").filter({ visible: true }).count()).toBe(0);
    await page.getByRole("button", { name: "Stop here" }).waitFor();
    expect(await page.getByRole("heading", PAID).count()).toBe(0);
    expect(await axeFindings(page)).toEqual([]);
    shop.goOn();
    await page.getByRole("heading", PAID).waitFor();
    expect(await page.locator("#bought pre").innerText()).toContain("data: last");
    expect(await paid()).toBe(PRICE);
  });

  it("saves what was bought under the seller's name for it, without its folder", async () => {
    await using tab = await open("/export");
    await tab.page.getByRole("button", payButton).click();
    await tab.page.getByRole("heading", PAID).waitFor();
    const saving = tab.page.waitForEvent("download");
    await tab.page.getByRole("link", { name: "Save what was bought" }).click();
    expect((await saving).suggestedFilename()).toBe("bücher.csv");
  });

  it("shows what was bought in another tab of the browser, and a receipt that can be printed", async () => {
    await using tab = await open("/weather?other-tab");
    const { page, context, wallet } = tab;
    await page.getByRole("button", payButton).click();
    await page.getByRole("heading", PAID).waitFor();
    await page.close();
    const other = await context.newPage();
    await other.goto(`${shop.url}/weather?other-tab`);
    await other.getByRole("heading", PAID).waitFor();
    expect(await other.locator("#bought pre").innerText()).toContain("other-tab");
    expect(wallet.methods().filter((name) => name === "eth_signTypedData_v4")).toHaveLength(1);
    expect(await paid()).toBe(PRICE);

    const receipt = await other.locator("#receipt dl").innerText();
    const { host } = new URL(shop.url);
    const year = String(new Date().getFullYear());
    const amount = "$0.01: 0.01 USDC on Base Sepolia (test network, play money)";
    const item = "Current weather in Berlin";
    for (const said of [`Weather Inc · ${host}`, item, other.url(), year, amount, buyer.address]) {
      expect(receipt).toContain(said);
    }
    expect(receipt).toMatch(/Transaction\s+0x[\da-f]{64}$/);
    await other.evaluate("window.print = () => (window.isPrinted = true)");
    await other.getByRole("button", { name: "Print" }).click();
    expect(await other.evaluate("window.isPrinted")).toBe(true);
    await other.emulateMedia({ media: "print" });
    expect(await other.locator("#receipt dl").isVisible()).toBe(true);
    for (const hidden of ["#bought pre", "#receipt button"]) {
      expect(await other.locator(hidden).isVisible(), hidden).toBe(false);
    }

    // Later nothing is to be had for it any more, and the receipt is still there.
    await other.evaluate(`(() => {
      const name = "coinslot /weather?other-tab";
      const kept = JSON.parse(localStorage.getItem(name));
      localStorage.setItem(name, JSON.stringify({ ...kept, soldMs: kept.soldMs - 601_000 }));
    })()`);
    await other.emulateMedia({ media: "screen" });
    await other.reload();
    await other.getByText("You paid for this on").click();
    expect(await other.locator("#receipt dl").innerText()).toContain(amount);
    expect(await other.getByRole("heading", PAID).count()).toBe(0);
  });

  it("keeps the newest of many payments, and those that are open before those that have bought", async () => {
    await using tab = await open("/weather?many");
    const { page } = tab;
    await page.evaluate(`(() => {
      const day = 86_400_000;
      const put = (name, soldMs, age) => localStorage.setItem("coinslot /" + name,
        JSON.stringify({ header: "x", offer: 0, soldMs, keptMs: Date.now() - age }));
      for (let index = 0; index < 120; index += 1) put("sold" + index, 1, (1 + index) * 60_000);
      put("open", 0, 29 * day);
      put("old", 0, 31 * day);
      localStorage.setItem("coinslot /spoilt", "{");
      localStorage.setItem("of the shop", "");
    })()`);
    await page.getByRole("button", payButton).click();
    await page.getByRole("heading", PAID).waitFor();
    const names = Object(await page.evaluate("Object.keys(localStorage)"));
    expect(names).toHaveLength(101);
    for (const name of ["coinslot /weather?many", "coinslot /open", "of the shop"]) {
      expect(names).toContain(name);
    }
    expect(names).toContain("coinslot /sold0");
    expect(names).not.toContain("coinslot /old");
    expect(names).not.toContain("coinslot /sold119");
  });

  it("is used with the keyboard alone", async () => {
    await using tab = await open("/weather?keys");
    const { page } = tab;
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.id")).toBe("payee");
    await page.keyboard.press("Tab");
    expect(await page.evaluate("document.activeElement.name")).toBe("offer");
    await page.keyboard.press("ArrowDown");
    await page.getByText("No wallet for Solana devnet was found").waitFor();
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", PAID).waitFor();
    expect(await paid()).toBe(PRICE);
  });
});
