/** A person signs in on the page that sells: gets what is his, and pays from what he has prepaid, by a press of a button. */
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Browser, Page, Route } from "playwright-core";
import { present, sign } from "../support/buyer.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import {
  CHROMIUM,
  hasChromium,
  openBrowser,
  openTab,
  type Tab,
  type TabOptions,
} from "./chromium.ts";
import { injectEvmWallet, type EvmWallet } from "./evm-wallet.ts";
import { axeFindings, takePicture } from "./page-checks.ts";
import { openShop, type Shop } from "./stage.ts";

vi.setConfig({ hookTimeout: 60_000, testTimeout: 60_000 });

const BASE_SEPOLIA = 84_532;
const SIGN_IN = { name: /^Bought before, or a member\? Sign in with/ };
const SIGN_OUT = { name: "Sign out" };
const FROM_BALANCE = { name: /from your balance$/ };
const PAID = { name: "Paid: here it is", exact: true };
const SOON = { timeout: 15_000 };
const HERE = { name: "Here it is", exact: true };

const staff = freshAccount();
const partner = freshAccount();

const MORE = `
credits: { packs: [$0.02, $1], atRisk: $0.05 }
members: { staff: ["${staff.address}"], partners: ["${partner.address}"] }
passes: { day: { price: $0.50, routes: [GET /news/*], for: 24h } }
`;
const ROUTES = `
  GET /prepaid: { price: $0.01, description: Prepaid, credits: true }
  GET /prepaid/rtl: { price: $0.01, description: "حالة الطقس الحالية في أي مدينة في العالم", credits: true }
  GET /metered: { meter: { of: json("degrees"), each: $0.0001, max: $0.01 }, description: Metered, credits: true }
  GET /news/*: { price: $0.01, description: News, prices: { staff: free, partners: $0.002 } }
`;

describe.skipIf(!hasChromium)(`the paywall page ${CHROMIUM}`, () => {
  let shop: Shop;
  let browser: Browser;

  beforeAll(async () => {
    const opening = openShop({ workers: 1, more: MORE, routes: ROUTES });
    [shop, browser] = await Promise.all([opening, openBrowser()]);
  });

  afterAll(async () => {
    await browser?.close();
    await shop?.[Symbol.asyncDispose]();
  });

  async function open(
    path: string,
    { account }: Pick<FreshAccount, "account">,
    look: TabOptions = {},
  ): Promise<Tab & { readonly wallet: EvmWallet }> {
    const tab = await openTab(browser, look);
    const { rpcUrl } = shop.chain;
    const wallet = await injectEvmWallet(tab.page, { account, rpcUrl, chainId: BASE_SEPOLIA });
    await tab.page.goto(shop.url + path);
    return { ...tab, wallet };
  }

  /** Somebody who has two cents in his balance. */
  async function saver(): Promise<FreshAccount> {
    const buyer = await shop.shopper();
    const url = `${shop.url}/.x402/credits`;
    expect((await present(url, await sign(buyer, url))).status).toBe(200);
    return buyer;
  }

  function signedIn(page: Page): Promise<void> {
    return page.getByText(/^Signed in as 0x/).waitFor();
  }

  function soldAt(path: string): number {
    return shop.sold.filter((url) => url === path).length;
  }

  /** In the browser, by its session. */
  async function balanceIn(page: Page): Promise<string> {
    const told = await page.evaluate(`fetch("/.x402/balance").then((answer) => answer.json())`);
    return Object(told).credits[0].amount;
  }

  it("pays from a balance by one press, having said the price, and never by Reload or Back", async () => {
    const path = "/prepaid?a=1";
    await using tab = await open(path, await saver());
    const { page, wallet } = tab;
    expect(await page.getByRole("link", { name: "Or from a balance" }).getAttribute("href")).toBe(
      `${shop.url}/.x402/credits`,
    );
    await page.getByRole("button", SIGN_IN).click();
    await signedIn(page);
    // Nothing was debited for signing in, nor for looking at it again.
    await page.reload();
    await page.getByText("Your balance: 0.02 USDC.").waitFor();
    expect(soldAt(path)).toBe(0);
    expect(await page.getByRole("button", SIGN_IN).count()).toBe(0);
    expect(await axeFindings(page)).toEqual([]);
    await takePicture(page, "prepaid");
    const signatures = wallet.methods().length;
    await page.getByRole("button", { name: "Pay $0.01 from your balance" }).dblclick();
    await page.getByRole("heading", PAID).waitFor();
    expect(await page.locator("#receipt").innerText()).toMatch(
      /Amount\s+0\.01 USDC from the balance/,
    );
    expect(await page.locator("#receipt").innerText()).not.toContain("Transaction");
    expect([soldAt(path), wallet.methods().length]).toEqual([1, signatures]);
    expect(await axeFindings(page)).toEqual([]);
    await takePicture(page, "prepaid-bought");
    await expect.poll(() => balanceIn(page), SOON).toBe("10000");
    await page.goto(`${shop.url}/health`);
    await page.goBack();
    await page.getByText("Your balance: 0.01 USDC.").waitFor();
    await page.reload();
    await page.getByText("Your balance: 0.01 USDC.").waitFor();
    expect([soldAt(path), await balanceIn(page)]).toEqual([1, "10000"]);
    await page.getByText("You paid for this on").click();
    expect(await page.locator("#receipt").innerText()).toContain("0.01 USDC from the balance");
    expect(tab.faults).toEqual([]);
  });

  it("debits once for many presses while an answer is under way", async () => {
    const path = "/prepaid?a=2";
    await using tab = await open(path, await saver());
    const { page } = tab;
    await page.getByRole("button", SIGN_IN).click();
    await page.getByRole("button", FROM_BALANCE).waitFor();
    await page.evaluate(`
      const each = [...document.querySelectorAll("button")].find((one) => one.textContent.includes("from your balance"));
      for (let time = 0; time < 5; time += 1) each.click();
    `);
    await page.getByRole("heading", PAID).waitFor();
    await expect.poll(() => balanceIn(page), SOON).toBe("10000");
    expect(soldAt(path)).toBe(1);
  });

  it("says that a balance is too small, and where more is bought", async () => {
    await using tab = await open("/prepaid?a=3", await saver());
    const { page } = tab;
    await page.getByRole("button", SIGN_IN).click();
    for (let time = 0; time < 2; time += 1) {
      await page.getByRole("button", FROM_BALANCE).click();
      await page.getByRole("button", { name: "Buy it again" }).click();
      await signedIn(page);
    }
    // What was used a moment ago may still be in it.
    await expect
      .poll(async () => {
        await page.reload();
        await signedIn(page);
        return page.getByText("That is too little to pay $0.01 from it.").count();
      }, SOON)
      .toBe(1);
    expect(await page.getByRole("button", FROM_BALANCE).count()).toBe(0);
    const more = page.getByRole("link", { name: "Buy more" });
    expect(await more.getAttribute("href")).toBe(`${shop.url}/.x402/credits`);
    expect(await axeFindings(page)).toEqual([]);
    // The shop decides, whatever was told.
    const told = "**/.x402/balance";
    await page.route(told, async (route) => {
      const response = await route.fetch();
      const body = (await response.text()).replace(/"amount":"0"/, '"amount":"10000"');
      await route.fulfill({ response, body });
    });
    await page.reload();
    await page.getByRole("button", FROM_BALANCE).waitFor();
    await page.unroute(told);
    await page.getByRole("button", FROM_BALANCE).click();
    await page.getByRole("status").getByText("This was not paid from your balance.").waitFor();
    await page.getByText("That is too little to pay $0.01 from it.").waitFor();
    expect(soldAt("/prepaid?a=3")).toBe(2);
  });

  it("takes nothing of the balance from whoever pays with his wallet, or where the price has changed", async () => {
    await using tab = await open("/prepaid?a=4", await saver());
    const { page } = tab;
    await page.getByRole("button", SIGN_IN).click();
    await signedIn(page);
    const otherPrice = async (route: Route): Promise<void> => {
      if (route.request().headers()["purpose"] === undefined) return route.abort();
      const answer = await route.fetch();
      const headers = { ...answer.headers() };
      const asked = Buffer.from(headers["payment-required"] ?? "", "base64").toString();
      headers["payment-required"] = Buffer.from(asked.replaceAll('"10000"', '"90000"')).toString(
        "base64",
      );
      await route.fulfill({ response: answer, headers });
    };
    await page.route("**/prepaid?a=4", otherPrice);
    await page.getByRole("button", FROM_BALANCE).click();
    await page.getByRole("status").getByText("The price has changed").waitFor();
    await page.unroute("**/prepaid?a=4");
    await page.getByRole("button", { name: "Pay $0.01 with Test Wallet" }).click();
    await page.getByRole("heading", PAID).waitFor();
    expect(await page.locator("#receipt").innerText()).toContain("Transaction");
    expect(await balanceIn(page)).toBe("20000");
  });

  it("says where it is not known what was charged, and what is in the balance then", async () => {
    await using tab = await open("/prepaid?a=5", await saver());
    const { page } = tab;
    await page.getByRole("button", SIGN_IN).click();
    await page.getByRole("button", FROM_BALANCE).waitFor();
    shop.failures.push(502);
    await page.getByRole("button", FROM_BALANCE).click();
    await page
      .getByRole("status")
      .getByText("Look at your balance before you pay again.")
      .waitFor();
    await page.getByText("Your balance: 0.02 USDC.").waitFor();
    expect(await page.getByRole("button", FROM_BALANCE).isEnabled()).toBe(true);
    expect(await axeFindings(page)).toEqual([]);
  });

  it("says of what is charged by use that its price is the most, and what it came to", async () => {
    await using tab = await open("/metered", await saver());
    const { page } = tab;
    await page.getByRole("button", SIGN_IN).click();
    await page.getByRole("button", { name: "Pay up to $0.01 from your balance" }).click();
    await page.getByRole("heading", PAID).waitFor();
    expect(await page.locator("#receipt").innerText()).toContain("0.0021 USDC from the balance");
  });

  it("gives members what is theirs, or says what it costs them, and forgets them", async () => {
    await using tab = await open("/news/1", staff);
    const { page } = tab;
    expect(
      await page.getByRole("link", { name: "Or a pass: day, $0.50" }).getAttribute("href"),
    ).toBe(`${shop.url}/.x402/passes/day`);
    await page.getByRole("button", SIGN_IN).click();
    await page.getByRole("heading", HERE).waitFor();
    expect(await page.locator("#bought").innerText()).toContain("degrees");
    expect(await axeFindings(page)).toEqual([]);
    await page.getByRole("button", SIGN_OUT).click();
    await page.getByRole("button", SIGN_IN).waitFor();
    expect((await tab.context.cookies()).length).toBe(0);

    await using other = await open("/news/2", partner);
    await other.page.getByRole("button", SIGN_IN).click();
    await signedIn(other.page);
    expect(await other.page.locator("#price").innerText()).toBe("$0.002");
    expect(await other.page.getByText("Your balance").count()).toBe(0);
    expect(await axeFindings(other.page)).toEqual([]);
    await other.page.getByRole("button", SIGN_OUT).click();
    await other.page.getByRole("button", SIGN_IN).waitFor();
    expect(await other.page.locator("#price").innerText()).toBe("$0.01");
    expect([tab.faults, other.faults]).toEqual([[], []]);
  });

  it.each(["light", "dark"] as const)(
    "fits a screen of 320 pixels, with text from right to left, in %s",
    async (colorScheme) => {
      const look = { width: 320, colorScheme };
      await using tab = await open("/prepaid/rtl", await saver(), look);
      const { page } = tab;
      await page.getByRole("button", SIGN_IN).click();
      await page.getByRole("button", FROM_BALANCE).waitFor();
      const width = (): Promise<unknown> => page.evaluate("document.documentElement.scrollWidth");
      expect([await width(), await axeFindings(page)]).toEqual([320, []]);
      await takePicture(page, `prepaid-320-${colorScheme}`);
      await page.getByRole("button", FROM_BALANCE).click();
      await page.getByRole("heading", PAID).waitFor();
      expect([await width(), await axeFindings(page)]).toEqual([320, []]);
    },
  );
});
