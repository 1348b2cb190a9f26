/** What the page lets nobody do, and who can read it: hostile text, programs, screen readers, small screens. */
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { buffer } from "node:stream/consumers";
import { brotliDecompressSync, gunzipSync } from "node:zlib";
import { encode } from "uqr";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import type { Browser, Page } from "playwright-core";
import { MAX_PAGE_BYTES } from "../../src/web/paywall-page.ts";
import { CHROMIUM, hasChromium, openBrowser, openTab } from "./chromium.ts";
import { injectEvmWallet } from "./evm-wallet.ts";
import { axeFindings, takePicture } from "./page-checks.ts";
import { HOSTILE, openShop, type Shop } from "./stage.ts";

vi.setConfig({ hookTimeout: 60_000, testTimeout: 60_000 });

const BASE_SEPOLIA = 84_532;

async function hrefOf(page: Page, name: string): Promise<string | null> {
  return page.getByRole("link", { name }).getAttribute("href");
}

describe.skipIf(!hasChromium)(`the paywall page ${CHROMIUM}`, () => {
  let shop: Shop;
  let browser: Browser;

  beforeAll(async () => {
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
    await page.getByRole("button", { name: /^Pay .*<script>/ }).click();
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
      const take = (name: string): Promise<void> => takePicture(page, `${name}-${colorScheme}`);
      expect(await axeFindings(page)).toEqual([]);
      await take("offer");
      await page.getByText("Pay with a program").click();
      await page.getByRole("button", { name: /^Pay/ }).click();
      await page.getByRole("status").getByText("You declined").waitFor();
      expect(await axeFindings(page)).toEqual([]);
      await take("declined");
      wallet.relent();
      shop.failures.push(502);
      await page.getByRole("button", { name: /^Pay/ }).click();
      await page.getByRole("status").getByText("(502)").waitFor();
      expect(await axeFindings(page)).toEqual([]);
      await take("unserved");
      await page.getByRole("button", { name: "Try again" }).click();
      await page.getByRole("heading", { name: "Paid: here it is" }).waitFor();
      expect(await axeFindings(page)).toEqual([]);
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
    await takePicture(page, "offer-320");
    await page.getByRole("button", { name: /^Pay/ }).click();
    await page.frameLocator("iframe").getByText("The whole story").waitFor();
    expect(await width()).toBe(320);
    await takePicture(page, "bought-320");
    await page.setViewportSize({ width: 1_000, height: 800 });
    await takePicture(page, "bought-wide");
  });

  it.each([
    ["light", 800, "none"],
    ["dark", 320, "none"],
    ["light", 320, "right to left"],
  ] as const)(
    "leads to phones and wallets who has none, in %s on %i pixels, text from the seller: %s",
    async (colorScheme, width, text) => {
      await using tab = await openTab(browser, { colorScheme, width });
      const { page } = tab;
      await page.goto(`${shop.url}${text === "none" ? "/weather" : "/rtl"}?city=Oslo&days=3`);
      const url = page.url();
      const { host } = new URL(url);
      expect(await hrefOf(page, "MetaMask")).toBe(
        `https://link.metamask.io/dapp/${host}${url.slice(`http://${host}`.length)}`,
      );
      const encoded = encodeURIComponent(url);
      expect(await hrefOf(page, "Coinbase Wallet")).toBe(
        `https://go.cb-w.com/dapp?cb_url=${encoded}`,
      );
      expect(await hrefOf(page, "given away")).toBe("https://faucet.circle.com");
      const drawn = await page
        .getByRole("img", { name: "QR code" })
        .locator("path")
        .getAttribute("d");
      const { data } = encode(url, { maskPattern: 0, border: 0 });
      const squares = data.flatMap((row, y) =>
        row.map((isDark, x) => (isDark ? `M${x} ${y}h1v1h-1z` : "")),
      );
      expect(drawn).toBe(squares.join(""));
      expect(await axeFindings(page)).toEqual([]);
      expect(await page.evaluate("document.documentElement.scrollWidth")).toBe(width);
      await page.getByRole("radio", { name: "Solana" }).check();
      const origin = encodeURIComponent(new URL(url).origin);
      expect(await hrefOf(page, "Phantom")).toBe(
        `https://phantom.app/ul/browse/${encoded}?ref=${origin}`,
      );
      expect(tab.faults).toEqual([]);
      expect(new Set(tab.requested.map((each) => new URL(each).origin))).toEqual(
        new Set([shop.url]),
      );
    },
  );

  it("is sent compressed, and as it is to who takes nothing else", async () => {
    const ask = async (accepted: string) => {
      const headers = { Accept: "text/html", "Accept-Encoding": accepted };
      const { hostname, port } = new URL(shop.url);
      const asking = request({ hostname, port, path: "/weather", headers });
      asking.end();
      const [answer] = (await once(asking, "response")) as [IncomingMessage];
      return { coding: answer.headers["content-encoding"], bytes: await buffer(answer) };
    };
    const plain = await ask("identity");
    expect(plain.coding).toBeUndefined();
    const [gzip, br] = [await ask("gzip, deflate"), await ask("gzip, deflate, br")];
    expect([gzip.coding, br.coding]).toEqual(["gzip", "br"]);
    expect(gunzipSync(gzip.bytes)).toEqual(plain.bytes);
    expect(brotliDecompressSync(br.bytes)).toEqual(plain.bytes);
    expect(gzip.bytes.length).toBeLessThanOrEqual(MAX_PAGE_BYTES);
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
    await takePicture(page, "no-script");
  });
});
