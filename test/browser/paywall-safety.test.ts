/** What the page lets nobody do, and who can read it: hostile text, programs, screen readers, small screens. */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import axe from "axe-core";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Browser, Page } from "playwright-core";
import { CHROMIUM, hasChromium, openBrowser, openTab } from "./chromium.ts";
import { injectEvmWallet } from "./evm-wallet.ts";
import { HOSTILE, openShop, type Shop } from "./stage.ts";

vi.setConfig({ hookTimeout: 60_000, testTimeout: 60_000 });

const BASE_SEPOLIA = 84_532;

async function violations(page: Page): Promise<unknown> {
  // Evaluated by the debugger, which the page's policy does not bind.
  await page.evaluate(axe.source);
  const found = Object(await page.evaluate("axe.run()"));
  return found.violations.map(({ id, nodes }: { id: string; nodes: { html: string }[] }) => {
    return { id, nodes: nodes.map(({ html }) => html) };
  });
}

describe.skipIf(!hasChromium)(`the paywall page ${CHROMIUM}`, () => {
  let shop: Shop;
  let browser: Browser;
  /** For looking at; `SCREENSHOTS` says where. */
  let pictures: string;

  beforeAll(async () => {
    pictures = process.env["SCREENSHOTS"] ?? (await mkdtemp(join(tmpdir(), "coinslot-pictures-")));
    [shop, browser] = await Promise.all([openShop({ workers: 1 }), openBrowser()]);
  });

  afterAll(async () => {
    await browser?.close();
    await shop?.[Symbol.asyncDispose]();
  });

  it("shows a hostile description and URL as text, and runs nothing of them", async () => {
    await using tab = await openTab(browser);
    const { page } = tab;
    const path = "/hostile/%3Cscript%3Ealert(3)%3Cscript%3E";
    const query = "?%22%3E%3Cimg%20src=x%20onerror=alert(4)%3E&'$(touch%20x)`&a=</pre><script>";
    await page.goto(`${shop.url}${path}${query}`);
    // Line separators are white space to a browser.
    const shown = HOSTILE.replace("\u2028", "").trim();
    expect(await page.getByRole("heading").innerText()).toContain(shown);
    expect(await page.locator("img, iframe, script:not([type])").count()).toBe(1);
    expect(await page.title()).toBe("$0.01 · Payment required");
    await page.getByText("Pay with a program").click();
    // A string of JavaScript that is the URL, whatever is in that.
    const written = /await pay\((.*)\);/.exec(await page.locator("pre").innerText())?.[1] ?? "";
    expect(JSON.parse(written)).toBe(page.url());
    expect(tab.faults).toEqual([]);
    expect(tab.requested.every((url) => url.startsWith(shop.url))).toBe(true);
  });

  it("shows a hostile name of a wallet, and what the shop says, as text", async () => {
    await using tab = await openTab(browser);
    const { page } = tab;
    const { account } = await shop.shopper();
    const { rpcUrl } = shop.chain;
    await injectEvmWallet(page, { account, rpcUrl, chainId: BASE_SEPOLIA, name: HOSTILE });
    await page.goto(`${shop.url}/weather?names`);
    shop.failures.push(500);
    await page.getByRole("button", { name: "<script>" }).click();
    await page.getByRole("status").getByText("answered with an error (500)").waitFor();
    expect(await page.locator("#main b").count()).toBe(2);
    expect(tab.faults).toEqual([]);
  });

  it("is under a policy that lets no other script or style in", async () => {
    await using tab = await openTab(browser);
    const { page } = tab;
    const answer = await page.goto(`${shop.url}/weather`);
    expect(answer?.status()).toBe(402);
    const headers = (await answer?.allHeaders()) ?? {};
    const policy = headers["content-security-policy"] ?? "";
    expect(policy).toMatch(/^default-src 'none'; script-src 'sha256-[^ ;]+'; /);
    expect(policy).not.toContain("unsafe");
    for (const rule of ["frame-ancestors", "base-uri", "form-action"]) {
      expect(policy).toContain(`${rule} 'none'`);
    }
    expect([headers["cache-control"], headers["vary"]]).toEqual([
      "no-store",
      "Accept, Accept-Encoding",
    ]);
    await page.evaluate(`
      document.body.insertAdjacentHTML("beforeend", "<p style='color:red' onclick='x=1'>a</p>");
      document.head.append(Object.assign(document.createElement("script"), { text: "window.bad = 1" }));
    `);
    expect(await page.evaluate("window.bad")).toBeUndefined();
    expect(tab.faults.length).toBeGreaterThan(0);
  });

  for (const colorScheme of ["light", "dark"] as const) {
    it(`has no barrier that axe finds, in ${colorScheme}, before, while and after paying`, async () => {
      await using tab = await openTab(browser, { colorScheme });
      const { page } = tab;
      const { account } = await shop.shopper();
      const { rpcUrl } = shop.chain;
      const declines = ["eth_signTypedData_v4"];
      const given = { account, rpcUrl, chainId: BASE_SEPOLIA, declines };
      const wallet = await injectEvmWallet(page, given);
      await page.goto(`${shop.url}/weather?${colorScheme}`);
      const take = (name: string): Promise<unknown> =>
        page.screenshot({ path: join(pictures, `${name}-${colorScheme}.png`), fullPage: true });
      expect(await violations(page)).toEqual([]);
      await take("offer");
      await page.getByText("Pay with a program").click();
      await page.getByRole("button", { name: /^Pay/ }).click();
      await page.getByRole("status").getByText("You declined").waitFor();
      expect(await violations(page)).toEqual([]);
      await take("declined");
      wallet.relent();
      shop.failures.push(502);
      await page.getByRole("button", { name: /^Pay/ }).click();
      await page.getByRole("status").getByText("(502)").waitFor();
      expect(await violations(page)).toEqual([]);
      await take("unserved");
      await page.getByRole("button", { name: "Try again" }).click();
      await page.getByRole("heading", { name: "Paid: here it is" }).waitFor();
      expect(await violations(page)).toEqual([]);
      await take("bought");
    });
  }

  it("fits a screen of 320 pixels", async () => {
    await using tab = await openTab(browser, { width: 320 });
    const { page } = tab;
    const { account } = await shop.shopper();
    const { rpcUrl } = shop.chain;
    await injectEvmWallet(page, { account, rpcUrl, chainId: BASE_SEPOLIA });
    await page.goto(`${shop.url}/article`);
    await page.getByText("Pay with a program").click();
    const width = (): Promise<unknown> => page.evaluate("document.documentElement.scrollWidth");
    expect(await width()).toBe(320);
    await page.screenshot({ path: join(pictures, "offer-320.png"), fullPage: true });
    await page.getByRole("button", { name: /^Pay/ }).click();
    await page.frameLocator("iframe").getByText("The whole story").waitFor();
    expect(await width()).toBe(320);
    await page.screenshot({ path: join(pictures, "bought-320.png"), fullPage: true });
    await page.setViewportSize({ width: 1_000, height: 800 });
    await page.screenshot({ path: join(pictures, "bought-wide.png") });
  });

  it("says without scripts what to do", async () => {
    await using tab = await openTab(browser, { hasScripts: false });
    const { page } = tab;
    await page.goto(`${shop.url}/weather`);
    const text = await page.getByRole("main").innerText();
    for (const said of ["0.01 USDC", "Base Sepolia", "Solana devnet", "needs JavaScript"]) {
      expect(text).toContain(said);
    }
    await page.getByText("Pay with a program").click();
    await page.getByText("wrapFetchWithPaymentFromConfig(fetch").waitFor();
    await page.getByRole("link", { name: "All that is sold here" }).waitFor();
    await page.screenshot({ path: join(pictures, "no-script.png"), fullPage: true });
  });
});
