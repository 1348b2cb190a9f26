import type { Browser, Locator, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { present, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { freshAccount } from "../support/payer.ts";
import { purchase } from "../support/purchase.ts";
import { CHROMIUM, hasChromium, openBrowser, openTab } from "./chromium.ts";
import { lookAt, LOOKS } from "./page-checks.ts";

const isFocused = (place: Locator) => place.evaluate((each) => each.matches(":focus"));
/** Of a payment: its 402 has one of its own where the client took another connection for it. */
const entry = (page: Page, text: string) =>
  page.locator("article", { hasText: text, hasNotText: "asked to pay" });

describe.skipIf(!hasChromium)(`the page of payments, ${CHROMIUM}`, () => {
  let chain: Chain;
  let gateway: RunningGateway;
  let browser: Browser;
  let url = "";

  beforeAll(async () => {
    [chain, browser] = await Promise.all([startChain(), openBrowser()]);
    gateway = await startGateway({
      chain,
      backend: (request, response) => {
        if (request.url === "/reports/broken") response.destroy();
        else response.end("sold");
      },
    });
    url = `${gateway.adminUrl}/payments`;
    await refuse();
  });

  afterAll(async () => {
    await browser.close();
    await gateway[Symbol.asyncDispose]();
    await chain.stop();
  });

  async function buy(path: string): Promise<void> {
    const { privateKey: key } = await richBuyer(chain);
    expect((await purchase({ kind: "evm", key }, gateway.url + path)).status).toBe(200);
  }

  /** By somebody who holds nothing. */
  async function refuse(): Promise<void> {
    const weather = `${gateway.url}/weather`;
    const answer = await present(weather, await sign(freshAccount(), weather));
    expect(answer.status).toBe(402);
  }

  test("shows a purchase while the page is open, and what was bought before", async () => {
    await buy("/reports/before");
    await using tab = await openTab(browser);
    await tab.page.goto(url);
    await entry(tab.page, "GET /reports/before").getByText("paid and delivered (200)").waitFor();
    await tab.page.getByText("Live:").waitFor();

    await buy("/reports/live?secret=hidden");

    const live = entry(tab.page, "GET /reports/live");
    await live.getByText("paid and delivered (200)").waitFor();
    await live.getByText("Details").click();
    const text = await live.innerText();
    expect(text.replaceAll(/\s*done\s*/g, " ")).toMatch(/verification \S+ ms\s+valid/);
    expect(text).toMatch(/value\s+250000 \(0\.25 USDC\)/);
    expect(text).toContain("the backend answered 200");
    expect(text).toContain("?secret=…");
    expect(text).not.toContain("hidden");
    expect(text).toMatch(/0\.25 USDC on base-sepolia from 0x\w{4}…\w{4}/);
    expect(tab.faults).toEqual([]);
  });

  test("says why a payment was refused, and what to do", async () => {
    await using tab = await openTab(browser);
    await tab.page.goto(url);
    await tab.page.getByText("Live:").waitFor();

    await refuse();

    const refused = entry(tab.page, "payment refused (402)");
    await expect.poll(() => refused.count(), { timeout: 10_000 }).toBe(2);
    const text = await refused.first().innerText();
    expect(text).toContain(
      "insufficient_funds: the payer holds 0 of 10000 atomic units ($0 of $0.01)",
    );
    expect(text).toContain("The payer's account holds less of the token than the price");
  });

  test("is used by the keyboard: details stay open, and the focus stays, as others come in", async () => {
    await using tab = await openTab(browser);
    await tab.page.goto(url);
    await tab.page.getByText("Live:").waitFor();
    const first = await tab.page.locator("#list > li").first().getAttribute("id");
    const summary = tab.page.locator(`[id="${first}"] summary`);
    // The field, the box, their button, the pause; of the first entry its payer, and its details.
    for (let presses = 0; presses < 6; presses += 1) await tab.page.keyboard.press("Tab");
    expect(await isFocused(summary)).toBe(true);
    await tab.page.keyboard.press("Enter");

    await buy("/reports/meanwhile");

    await entry(tab.page, "GET /reports/meanwhile").first().waitFor();
    expect(await tab.page.locator(`[id="${first}"] details`).getAttribute("open")).not.toBeNull();
    expect(await isFocused(summary)).toBe(true);
  });

  test("can be held still, and goes on from there", async () => {
    await using tab = await openTab(browser);
    await tab.page.goto(url);
    await tab.page.getByText("Live:").waitFor();
    await tab.page.getByRole("button", { name: "Pause" }).click();
    await tab.page.getByText("Paused.").waitFor();

    await buy("/reports/unseen");
    await tab.page.getByRole("button", { name: "Go on" }).click();

    await entry(tab.page, "GET /reports/unseen").getByText("paid and delivered (200)").waitFor();
  });

  test("gives its connection back while nobody sees it, and shows what came meanwhile", async () => {
    await using tab = await openTab(browser);
    const { page } = tab;
    await page.goto(url);
    await page.getByText("Live:").waitFor();
    const become = (state: string): Promise<unknown> =>
      page.evaluate(`Object.defineProperty(document, "visibilityState", { value: "${state}", configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));`);
    const closed = page.waitForEvent("requestfailed", (each) => each.url().includes("events"));
    await become("hidden");
    await closed;

    await buy("/reports/unwatched");
    await become("visible");

    await entry(page, "GET /reports/unwatched").getByText("paid and delivered (200)").waitFor();
  });

  test("goes on by itself after it was turned away", async () => {
    await using tab = await openTab(browser);
    const { page } = tab;
    let refusals = 0;
    await page.route("**/payments/events*", (route) => {
      if (refusals > 0) return route.continue();
      refusals += 1;
      return route.fulfill({ status: 503, body: "starting" });
    });
    await page.goto(url);
    await page.getByText("The gateway does not answer; trying again.").waitFor();
    await page.getByText("Live:").waitFor();
  });

  test("shows everything without its script, and one payment on a page of its own", async () => {
    await buy("/reports/static");
    await using tab = await openTab(browser, { hasScripts: false });
    await tab.page.goto(url);
    const bought = entry(tab.page, "GET /reports/static");
    await bought.getByText("Details").click();
    const key = bought.locator("details").getByRole("link").first();
    const name = (await key.textContent()) ?? "";
    await key.click();
    await tab.page.getByRole("heading", { name: "Payment: delivered" }).waitFor();
    expect(await tab.page.innerText("main")).toContain("attempt 1 of 3");

    await tab.page.goto(url);
    await tab.page.getByRole("searchbox").fill(name.split("/").at(-1) ?? "");
    await tab.page.keyboard.press("Enter");
    await tab.page.getByRole("heading", { name: "Payment: delivered" }).waitFor();
  });

  test("shows one payer's alone, or what needs the operator, also of what comes while it is open", async () => {
    await buy("/reports/one");
    await using tab = await openTab(browser);
    const { page } = tab;
    await page.goto(url);
    const one = entry(page, "GET /reports/one").first();
    await one.locator(".sale").getByRole("link").click();
    await page.getByText(/^Only with 0x\w{40}\. All requests$/).waitFor();
    await page.getByText("Live:").waitFor();
    expect(await page.locator("article").allInnerTexts()).toEqual([
      expect.stringContaining("GET /reports/one"),
    ]);

    await page.getByRole("searchbox").fill("/reports/BROKEN");
    await page.getByLabel("Needs me").check();
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByText("Nothing here fits that").waitFor();
    await page.getByText("Live:").waitFor();
    await buy("/reports/one");
    const { privateKey: key } = await richBuyer(chain);
    const broken = `${gateway.url}/reports/broken`;
    await purchase({ kind: "evm", key }, broken).catch(() => undefined);
    const owed = entry(page, "GET /reports/broken").first();
    await owed.getByText("Needs you").waitFor();
    expect(await page.locator("article", { hasText: "/reports/one" }).count()).toBe(0);
    await page.getByRole("link", { name: "All requests" }).click();
    await entry(page, "GET /reports/one").first().waitFor();
    expect(tab.faults).toEqual([]);
  });

  test("has nothing that axe finds where a part is shown", async () => {
    for (const [name, look] of Object.entries(LOOKS)) {
      const part = `${url}?find=${"/reports/".repeat(9)}&needs=me`;
      const found = await lookAt(browser, { url: part, look, name: "payments-part" });
      expect({ name, ...found }).toMatchObject({ axe: [], faults: [], overflow: 0 });
    }
  });

  test.each(Object.entries(LOOKS))("has nothing that axe finds, in %s", async (_, look) => {
    const found = await lookAt(browser, { url, look, name: "payments" });
    expect(found).toEqual({ axe: [], faults: [], overflow: 0, origins: [gateway.adminUrl] });
  });

  describe("the overview", () => {
    const overview = () => `${gateway.adminUrl}/`;

    test("tells what was earned, what became of requests and what needs the operator, and follows it", async () => {
      await buy("/reports/first");
      const { privateKey: key } = await richBuyer(chain);
      await purchase({ kind: "evm", key }, `${gateway.url}/reports/broken`).catch(() => undefined);
      await using tab = await openTab(browser);
      const { page } = tab;
      await page.goto(overview());
      const text = async (part: string): Promise<string> => page.locator(`#${part}`).innerText();
      await expect.poll(() => text("needs")).toMatch(/not delivered[^]*--undelivered/);
      expect(await text("needs")).toContain("Ready");
      await expect.poll(() => text("money"), { timeout: 20_000 }).toContain("today");
      const money = await text("money");
      const [, sum = "0", sales = "0"] =
        /([\d.]+) in thirty days, by (\d+) sales?/.exec(money) ?? [];
      // Everything here costs the same, and today is the only day.
      expect(Number(sum)).toBe(Number(sales) * 0.25);
      expect(money).toContain(`${sum} today`);
      expect(money).toMatch(/GET \/reports\/:id\s+\d+\s+[\d.]+ USDC\s+[\d.]+ USDC/);
      expect(money).toMatch(/base-sepolia\s+\d+\s+[\d.]+ USDC\s+[\d.]+ USDC\s+[\d.]+ ETH/);
      expect(await text("waits")).toMatch(/GET \/reports\/:id\s+\d+\s+[\d.]+ ms/);
      const delivered = async (): Promise<number> =>
        Number(/delivered\s+(\d+)/.exec(await text("flow"))?.[1]);
      const before = await delivered();
      await buy("/reports/next");
      await expect.poll(delivered, { timeout: 20_000 }).toBe(before + 1);
      await page.getByText("Live.").waitFor();
      expect(tab.faults).toEqual([]);
    });

    test.each(Object.entries(LOOKS))("has nothing that axe finds, in %s", async (_, look) => {
      const found = await lookAt(browser, { url: overview(), look, name: "overview" });
      expect(found).toEqual({ axe: [], faults: [], overflow: 0, origins: [gateway.adminUrl] });
    });
  });
});
