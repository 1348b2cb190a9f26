import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startChain, type Chain } from "../support/chain.ts";
import { startGateway, type RunningGateway } from "../support/gateway.ts";
import { CHROMIUM, hasChromium, openBrowser, openTab } from "./chromium.ts";
import { lookAt, LOOKS } from "./page-checks.ts";

const HOSTILE = `</script><script>alert(1)</script><img src=x onerror=alert(1)>`;
const ROUTES = `
  GET /weather: { price: $0.01, description: Current weather, mimeType: application/json, input: { queryParams: { city: { type: string, required: true, example: São Paulo }, days: { type: integer } } } }
  GET /v1/cities/:city/forecast: { price: $0.03, description: The days to come, metadata: { category: weather }, input: { pathParams: { city: { type: string, example: oslo } } }, outputSchema: { type: object, properties: { sunny: { type: boolean, example: true } } } }
  GET /v1/files/*: { price: $0.03, description: A file, input: { pathParams: { rest: { type: string, example: 2026/a b.pdf } } } }
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
    // One of them says so in its metadata alone: as many as the listing finds.
    await tab.page.locator("#count", { hasText: "2 resources for “weather”" }).waitFor();
    expect(await tab.page.locator("article").count()).toBe(2);
    const listed = await (await fetch(`${gateway.url}/discovery/resources?q=weather`)).json();
    expect(Object(listed).pagination.total).toBe(2);
    expect(await tab.page.getByRole("status").textContent()).toBe("2 resources for “weather”");
    expect(new URL(tab.page.url()).search).toBe("?q=weather");
    expect(await tab.page.getByRole("searchbox").inputValue()).toBe("weather");
    expect(tab.faults).toEqual([]);
  });

  test("copies what it shows, with the values that are declared and no template", async () => {
    await using tab = await openTab(browser);
    await tab.context.grantPermissions(["clipboard-read", "clipboard-write"]);
    const copy = async (q: string, name: string): Promise<string> => {
      await tab.page.goto(`${url}?q=${q}`);
      await tab.page.locator("summary").first().click();
      await tab.page.getByRole("button", { name }).first().click();
      await tab.page.getByText("Copied.").waitFor({ state: "attached" });
      return String(await tab.page.evaluate("navigator.clipboard.readText()"));
    };
    expect(await copy("current", "Copy Ask for the price")).toBe(
      "curl -i 'http://localhost:8402/weather?city=S%C3%A3o%20Paulo'",
    );
    const forecast = "http://localhost:8402/v1/cities/oslo/forecast";
    expect(await copy("come", "Copy Ask for the price")).toBe(`curl -i '${forecast}'`);
    expect(await copy("come", "Copy Buy it in a program")).toContain(`pay("${forecast}")`);
    expect(await copy("file", "Copy Ask for the price")).toBe(
      "curl -i 'http://localhost:8402/v1/files/2026/a%20b.pdf'",
    );
    // Of what no value is known for there is nothing to copy, and nothing to follow.
    await tab.page.goto(`${url}?q=report`);
    await tab.page.locator("summary").click();
    await tab.page.getByText("Put a value in place of {id}.").waitFor();
    expect(await tab.page.locator(".copy, article a").count()).toBe(0);
    for (const page of ["", "?page=2"]) {
      await tab.page.goto(url + page);
      const offered = await tab.page.locator(".command pre, article a").allTextContents();
      expect(offered.filter((text) => /\/[:*]|\{\w+\}/.test(text))).toEqual([]);
    }
    expect(tab.faults).toEqual([]);
  });

  test("leads to what is sold, which shows what it costs", async () => {
    await using tab = await openTab(browser);
    await tab.page.goto(`${url}?q=current`);
    await tab.page.getByRole("link", { name: "/weather?city=S%C3%A3o%20Paulo" }).click();
    await tab.page.getByText("Current weather").waitFor();
    expect(new URL(tab.page.url()).pathname).toBe("/weather");
    expect(new URL(tab.page.url()).searchParams.get("city")).toBe("São Paulo");
    // And the page on which it is paid leads back here.
    await tab.page.getByText("Pay with a program").click();
    const back = tab.page.getByRole("link", { name: "All that is sold here" });
    expect(await back.getAttribute("href")).toBe("http://localhost:8402/catalogue");
  });

  test("puts what belongs together under one heading, and shows each in a compact row", async () => {
    await using tab = await openTab(browser, { width: 320 });
    await tab.page.goto(url);
    const headings = await tab.page.locator("section > h2").allInnerTexts();
    // What no two routes have in common is at the end, which is on the second page.
    expect(headings).toEqual(["products"]);
    await tab.page.goto(`${url}?page=2`);
    expect(await tab.page.locator("section > h2").allInnerTexts()).toEqual([
      "products",
      "weather",
      "More",
    ]);
    const weather = tab.page.locator("section", {
      has: tab.page.getByRole("heading", { name: "weather", level: 2 }),
    });
    expect(await weather.locator("h3 code").allInnerTexts()).toEqual([
      "/v1/cities/oslo/forecast",
      "/weather?city=S%C3%A3o%20Paulo",
    ]);
    const heights: number[] = await tab.page
      .locator("ul.list > li")
      .evaluateAll((rows) => rows.map((row) => Object(row).offsetHeight));
    // 26 of these are 3,000 px high at most; they were 15,000.
    expect(heights.reduce((sum, each) => sum + each, 0) / heights.length).toBeLessThan(115);
  });

  test("shows a sample of what comes back, and what has to be sent, in the row", async () => {
    await using tab = await openTab(browser);
    await tab.page.goto(`${url}?q=come`);
    await tab.page.locator("summary").click();
    const row = await tab.page.locator("article").innerText();
    expect(row).toContain('"sunny": true');
    expect(row).toMatch(/city\s+path, string, required\s+"oslo"/);
  });

  test("is where the address of the host alone leads", async () => {
    await using tab = await openTab(browser);
    await tab.page.goto(gateway.url);
    expect(tab.page.url()).toBe(`${gateway.url}/catalogue`);
    await tab.page.locator("#count", { hasText: "65 resources" }).waitFor();
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
    expect(await tab.page.locator("article h3").innerText()).toBe("GET /reports/{id}");
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
