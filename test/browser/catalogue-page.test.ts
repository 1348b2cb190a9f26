import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { CHROMIUM, hasChromium, openBrowser, openTab } from "./chromium.ts";
import { lookAt, LOOKS } from "./page-checks.ts";

const HOSTILE = `</script><script>alert(1)</script><img src=x onerror=alert(1)>`;
const ROUTES = `
  GET /weather: { price: $0.01, description: Current weather, mimeType: application/json, input: { queryParams: { city: { type: string, required: true } } } }
  POST /summarize: { price: $0.02, description: "${HOSTILE}", input: { bodyType: json, bodyFields: { text: { type: string, required: true } } } }
  GET /reports/:id: { price: $0.25, description: A report }
${Array.from({ length: 60 }, (_, index) => `  GET /products/${index}: { price: $0.01, description: Product ${index} }`).join("\n")}
`;

describe.skipIf(!hasChromium)(`the catalogue page, ${CHROMIUM}`, () => {
  let chain: Chain;
  let gateway: RunningGateway;
  let browser: Browser;
  let url = "";

  beforeAll(async () => {
    [chain, browser] = await Promise.all([startChain(), openBrowser()]);
    const more = "discovery: { page: /catalogue }";
    gateway = await startGateway({ chain, routes: ROUTES, more });
    url = `${gateway.url}/catalogue`;
  });

  afterAll(async () => {
    await browser.close();
    await gateway[Symbol.asyncDispose]();
    await chain.stop();
  });

  test("searches while one types, by the keyboard alone, and says how much is found", async () => {
    await using tab = await openTab(browser);
    await tab.page.goto(url);
    await tab.page.keyboard.press("Tab");
    await tab.page.keyboard.type("weather");
    await tab.page.locator("#count", { hasText: "1 resource for “weather”" }).waitFor();
    expect(await tab.page.locator("article").count()).toBe(1);
    expect(await tab.page.getByRole("status").textContent()).toBe("1 resource for “weather”");
    expect(new URL(tab.page.url()).search).toBe("?q=weather");
    expect(await tab.page.getByRole("searchbox").inputValue()).toBe("weather");
    expect(tab.faults).toEqual([]);
  });

  test("copies the command that it shows", async () => {
    await using tab = await openTab(browser);
    await tab.context.grantPermissions(["clipboard-read", "clipboard-write"]);
    await tab.page.goto(`${url}?q=weather`);
    await tab.page.getByRole("button", { name: "Copy Pay for it once" }).click();
    await tab.page.getByText("Copied.").waitFor({ state: "attached" });
    const copied = await tab.page.evaluate("navigator.clipboard.readText()");
    expect(copied).toBe("coinslot pay 'http://localhost:8402/weather?city=…'");
  });

  test("is searched and turned over without its script", async () => {
    await using tab = await openTab(browser, { hasScripts: false });
    await tab.page.goto(url);
    expect(await tab.page.getByRole("button", { name: "Copy" }).count()).toBe(0);
    await tab.page.getByRole("link", { name: "Next" }).click();
    await tab.page.getByText("Page 2 of 2").waitFor();
    await tab.page.getByRole("searchbox").fill("report");
    await tab.page.keyboard.press("Enter");
    await tab.page.locator("#count", { hasText: "1 resource for “report”" }).waitFor();
    expect(await tab.page.locator("article h2").innerText()).toBe("GET /reports/:id");
  });

  test("runs nothing that the configuration says", async () => {
    await using tab = await openTab(browser);
    await tab.page.goto(`${url}?q=summarize`);
    expect(await tab.page.locator("article").innerText()).toContain(HOSTILE);
    await tab.page.getByRole("searchbox").fill("alert");
    await tab.page.locator("#count", { hasText: "1 resource for “alert”" }).waitFor();
    expect(tab.faults).toEqual([]);
    expect(await tab.page.locator("img").count()).toBe(0);
  });

  test.each(Object.entries(LOOKS))("has nothing that axe finds, in %s", async (_, look) => {
    const place = { url: `${url}?page=2`, look, name: "catalogue" };
    expect(await lookAt(browser, place)).toEqual({
      axe: [],
      faults: [],
      overflow: 0,
      origins: [gateway.url],
    });
  });
});
