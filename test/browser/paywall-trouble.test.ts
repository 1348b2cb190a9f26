/** What goes wrong around a purchase, and what the buyer reads and can do then: never is anything charged twice. */
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import type { Browser, Page } from "playwright-core";
import type { FreshAccount } from "../support/payer.ts";
import { CHROMIUM, hasChromium, openBrowser, openTab, type Tab } from "./chromium.ts";
import { axeFindings } from "./page-checks.ts";
import { injectEvmWallet, type EvmWallet, type EvmWalletOptions } from "./evm-wallet.ts";
import { openShop, PRICE, type Shop } from "./stage.ts";

// A browser and a gateway are started.
vi.setConfig({ hookTimeout: 60_000, testTimeout: 60_000 });

const BASE_SEPOLIA = 84_532;
const SIGN = "eth_signTypedData_v4";
const PAID = { name: "Paid: here it is" };
const AGAIN = { name: "Try again with the same payment" };
const PAY = { name: /^Pay .* with/ };

/** How long something may take to be loaded, milliseconds. */
const SOON = { timeout: 15_000 };

/** In the browser, of a picture. */
const widthOf = (each: unknown): unknown => Object(each).naturalWidth;

const statusOf = (page: Page): Promise<string> => page.getByRole("status").innerText();

describe.skipIf(!hasChromium)(`trouble with the paywall page ${CHROMIUM}`, () => {
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
    changes: Partial<EvmWalletOptions> & { readonly script?: string } = {},
  ): Promise<Tab & { readonly wallet: EvmWallet }> {
    const tab = await openTab(browser);
    const { account } = buyer;
    const chosen = { account, rpcUrl: shop.chain.rpcUrl, chainId: BASE_SEPOLIA, ...changes };
    const wallet = await injectEvmWallet(tab.page, chosen);
    if (changes.script !== undefined) await tab.page.addInitScript({ content: changes.script });
    await tab.page.goto(shop.url + path);
    return { ...tab, wallet };
  }

  it.each([
    [
      "keeps nothing for pages",
      `for (const name of ["sessionStorage", "localStorage"]) {
        Object.defineProperty(window, name, { get() { throw new DOMException("", "SecurityError"); } });
      }`,
    ],
    [
      "has no more room for pages",
      `Storage.prototype.setItem = () => { throw new DOMException("", "QuotaExceededError"); };`,
    ],
  ])("takes nothing for a reload where the browser %s", async (_, script) => {
    await using tab = await open("/weather?refused", { script });
    const { page } = tab;
    shop.failures.push(500);
    await page.getByRole("button", PAY).click();
    await page.getByRole("status").getByText("answered with an error (500)").waitFor();
    for (const time of [1, 2]) {
      await page.reload();
      await page.getByRole("heading", PAID).waitFor();
      expect(await paid(), `reload ${time}`).toBe(PRICE);
    }
    await page.getByRole("button", { name: "Buy it again" }).click();
    await page.getByRole("button", PAY).waitFor();
  });

  it("says that the shop cannot be reached, before anything is signed", async () => {
    await using tab = await open("/weather?offline");
    await tab.context.setOffline(true);
    await tab.page.getByRole("button", PAY).click();
    const said = "The shop cannot be reached. Nothing was charged.";
    await tab.page.getByRole("status").getByText(said).waitFor();
    expect(tab.wallet.methods()).not.toContain(SIGN);
    await tab.context.setOffline(false);
    await tab.page.getByRole("button", PAY).click();
    await tab.page.getByRole("heading", PAID).waitFor();
  });

  it("names the transaction where it was paid and nothing came, and brings it for a new signature", async () => {
    await using tab = await open("/weather?broken");
    const { page } = tab;
    shop.failures.push(500, 500, 500);
    await page.getByRole("button", PAY).click();
    await page.getByRole("status").getByText("answered with an error (500)").waitFor();
    const receipt = page.getByRole("link", { name: /^0x[\da-f]{64}$/ });
    const transaction = await receipt.innerText();
    expect(await receipt.getAttribute("href")).toBe(
      `https://sepolia.basescan.org/tx/${transaction}`,
    );
    for (let times = 0; times < 2; times += 1) {
      await page.getByRole("button", AGAIN).click();
      await page.getByRole("status").getByText("answered with an error (500)").waitFor();
    }
    await page.getByRole("button", AGAIN).click();
    await page.getByRole("status").getByText("each attempt to deliver it has failed").waitFor();
    const said = await statusOf(page);
    expect(said).toContain(`paid in ${transaction}`);
    expect(said).toContain("Sign again with the same account: that is not charged.");
    expect(await axeFindings(page)).toEqual([]);
    await page.getByRole("button", PAY).click();
    await page.getByRole("heading", PAID).waitFor();
    await page.getByRole("link", { name: transaction }).waitFor();
    expect(await paid()).toBe(PRICE);
  });

  it.each([
    ["/moved/here", "/health?moved"],
    ["/moved/sold", "/weather"],
  ])("shows what a redirect within the shop leads to: %s", async (path, goods) => {
    await using tab = await open(path);
    await tab.page.getByRole("button", PAY).click();
    await tab.page.getByRole("heading", PAID).waitFor();
    expect(await tab.page.locator("#bought pre").innerText()).toContain(goods);
    expect(await paid()).toBe(PRICE);
  });

  it.each([
    ["/moved/away", "the answer leads elsewhere"],
    ["/moved/dearer", "the answer leads to /premium, which has a price of its own"],
  ])(
    "says that it was paid, and what happened, where the answer leads elsewhere: %s",
    async (path, happened) => {
      await using tab = await open(path);
      await tab.page.getByRole("button", PAY).click();
      await tab.page.getByRole("button", AGAIN).waitFor();
      const said = await statusOf(tab.page);
      expect(said).toContain("You have paid");
      expect(said).toContain(happened);
      // Of a redirect to another host a page may read nothing, its receipt neither.
      const receipt = tab.page.getByRole("link", { name: /^0x[\da-f]{64}$/ });
      expect(await receipt.count()).toBe(path === "/moved/away" ? 0 : 1);
      expect(said).not.toContain("not known");
      expect(await paid()).toBe(PRICE);
    },
  );

  it("sends one payment from two tabs at the same time, and charges it once", async () => {
    const deciding = Promise.withResolvers<void>();
    await using tab = await open("/weather?twice", { thinks: () => deciding.promise });
    const { page, context } = tab;
    await page.getByRole("button", PAY).click();
    await page.getByRole("status").getByText("Sign the payment").waitFor();
    let isFirst = true;
    await context.route(/twice/, async (route) => {
      const { "payment-signature": payment } = route.request().headers();
      if (payment !== undefined && isFirst) {
        isFirst = false;
        await (await context.newPage()).goto(page.url());
      }
      await route.continue();
    });
    deciding.resolve();
    await page.getByRole("heading", PAID).waitFor();
    for (const each of context.pages()) await each.getByRole("heading", PAID).waitFor();
    expect(context.pages()).toHaveLength(2);
    expect(await paid()).toBe(PRICE);
  });

  it("brings what another tab has bought meanwhile, and signs nothing for it", async () => {
    await using tab = await open("/weather?meanwhile");
    const { page, context, wallet } = tab;
    const other = await context.newPage();
    const { account } = buyer;
    const { rpcUrl } = shop.chain;
    await injectEvmWallet(other, { account, rpcUrl, chainId: BASE_SEPOLIA });
    await other.goto(page.url());
    await other.getByRole("button", PAY).click();
    await other.getByRole("heading", PAID).waitFor();
    await page.getByRole("button", PAY).click();
    await page.getByRole("heading", PAID).waitFor();
    expect(wallet.methods()).toEqual([]);
    expect(await paid()).toBe(PRICE);
  });

  it.each([404, 422])(
    "offers to ask for something else with the same payment where the seller says %i",
    async (code) => {
      await using tab = await open(`/weather?place=nowhere-${code}`);
      const { page, context } = tab;
      const sent: (string | undefined)[] = [];
      context.on("request", (request) => sent.push(request.headers()["payment-signature"]));
      shop.failures.push(code);
      await page.getByRole("button", PAY).click();
      await page.getByRole("status").getByText("You have paid").waitFor();
      const what = code === 404 ? "has nothing at this address" : "cannot use this request";
      const told = `the seller's server ${what} (${code}). It says: <b>out of order</b>.`;
      expect(await statusOf(page)).toContain(told);
      const help = page.locator("#retry").getByRole("link", { name: "Ask the seller for help" });
      expect(await help.getAttribute("href")).toBe("mailto:help@example.com");
      expect(await page.getByRole("button", PAY).count()).toBe(0);
      expect(await axeFindings(page)).toEqual([]);
      await page.getByLabel("Query").fill(`place=somewhere-${code}`);
      await page.keyboard.press("Enter");
      await page.waitForURL(/somewhere/);
      await page.getByRole("heading", PAID).waitFor();
      const payments = sent.filter((payment) => payment !== undefined);
      expect(payments).toHaveLength(2);
      expect(payments[1]).toBe(payments[0]);
      expect(await page.getByRole("button", PAY).count()).toBe(0);
      expect(await paid()).toBe(PRICE);
    },
  );

  it("says what is missing before anything is charged, and where to put it right", async () => {
    await using tab = await open("/forecast/:city?dais=3");
    const { page } = tab;
    await page.getByRole("button", PAY).click();
    await page.getByRole("status").getByText("Nothing was charged").waitFor();
    expect(await statusOf(page)).toBe(
      "This cannot be asked for so: put a value in the place of :city in the path; " +
        "the query parameter days is missing. Nothing was charged.",
    );
    expect(await axeFindings(page)).toEqual([]);
    await page.getByLabel("Address").fill("https://attacker.example/forecast");
    await page.keyboard.press("Enter");
    await page.waitForLoadState();
    expect(page.url()).toContain(`${shop.url}/forecast/`);
    await page.getByRole("button", PAY).click();
    await page.getByLabel("Address").fill("/forecast/Oslo?days=3");
    await page.keyboard.press("Enter");
    await page.waitForURL(/Oslo/);
    await page.getByRole("button", PAY).click();
    await page.getByRole("heading", PAID).waitFor();
    expect(await paid()).toBe(PRICE);
  });

  it("keeps what was paid where the other query lacks something, until one is right", async () => {
    await using tab = await open("/forecast/Oslo?days=99");
    const { page } = tab;
    shop.failures.push(404);
    await page.getByRole("button", PAY).click();
    await page.getByRole("status").getByText("You have paid").waitFor();
    await page.getByLabel("Query").fill("dais=9");
    await page.keyboard.press("Enter");
    await page.waitForURL(/dais/);
    const said = "the query parameter days is missing. Nothing more was charged.";
    await page.getByRole("status").getByText(said).waitFor();
    expect(await page.getByRole("button", PAY).count()).toBe(0);
    await page.getByRole("link", { name: "Back to what was paid for" }).waitFor();
    await page.getByLabel("Query").fill("days=9");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", PAID).waitFor();
    expect(await page.locator("#bought pre").innerText()).toContain("days=9");
    expect(await paid()).toBe(PRICE);
  });

  it("shows whom to ask where nothing more can be had for a payment, and never how to pay again", async () => {
    await using tab = await open("/weather?exhausted");
    const { page } = tab;
    const error =
      "invalid_transaction_state: paid in 0x1, and each attempt to deliver it has failed, " +
      "those of the last day included; try again later, or ask the seller";
    await page.route(/exhausted/, (route) => {
      const isPayment = route.request().headers()["payment-signature"] !== undefined;
      return isPayment ? route.fulfill({ status: 402, json: { error } }) : route.continue();
    });
    await page.getByRole("button", PAY).click();
    await page.getByRole("status").getByText("each attempt to deliver it has failed").waitFor();
    await page.locator("#retry").getByRole("link", { name: "Ask the seller for help" }).waitFor();
    expect(await page.getByRole("button", PAY).count()).toBe(0);
    expect(await page.getByText(/again/i).allInnerTexts()).toEqual([
      "Not delivered: paid in 0x1, and each attempt to deliver it has failed, those of the last day included; try again later, or ask the seller.",
      "Try again with the same payment",
    ]);
    await page.reload();
    await page.getByRole("button", AGAIN).waitFor();
    await page.getByRole("button", { name: "Forget this payment" }).click();
    await page.getByRole("button", PAY).waitFor();
  });

  it("charges once for a reload in the middle of the settlement", async () => {
    await using tab = await open("/weather?middle");
    const { page, context } = tab;
    const sent = Promise.withResolvers<void>();
    let isFirst = true;
    await context.route(/middle/, async (route) => {
      if (route.request().headers()["payment-signature"] === undefined || !isFirst)
        return route.continue();
      isFirst = false;
      const answer = route.fetch();
      sent.resolve();
      await answer;
      return route.abort();
    });
    await page.getByRole("button", PAY).click();
    await sent.promise;
    await page.reload();
    await page.getByRole("heading", PAID).waitFor();
    expect(await paid()).toBe(PRICE);
    expect(tab.wallet.methods().filter((name) => name === SIGN)).toHaveLength(1);
  });

  it("shows what was bought again when one comes back to it", async () => {
    await using tab = await open("/weather?back");
    const { page } = tab;
    await page.getByRole("button", PAY).click();
    await page.getByRole("heading", PAID).waitFor();
    await page.goto(`${shop.url}/health`);
    await page.goBack();
    await page.getByRole("heading", PAID).waitFor();
    expect(await paid()).toBe(PRICE);
  });

  it("charges the price that was signed, also where it changes while the buyer thinks", async () => {
    const deciding = Promise.withResolvers<void>();
    await using tab = await open("/weather?rises", { thinks: () => deciding.promise });
    const { page } = tab;
    await page.getByRole("button", PAY).click();
    await page.getByRole("status").getByText("Sign the payment").waitFor();
    await shop.reprice("$0.03");
    deciding.resolve();
    await page.getByRole("heading", PAID).waitFor();
    await shop.reprice("$0.01");
    expect(await page.locator("#bought").innerText()).toContain("0.01 USDC on Base Sepolia");
    expect(await paid()).toBe(PRICE);
  });

  it.each([
    ["has no account to show", "eth_requestAccounts", { result: null }, "shows no account"],
    ["throws nothing at all", "eth_requestAccounts", {}, "this is not possible"],
    ["throws a text", "eth_requestAccounts", { error: "The device is locked" }, "device is locked"],
    ["claims another chain", "eth_chainId", { result: "0x1" }, "not on Base Sepolia"],
    [
      "signs with another key",
      SIGN,
      { result: `0x${"11".repeat(65)}` },
      "signature is not the pay",
    ],
    ["lost the account", SIGN, { error: { code: 4100, message: "not known" } }, "says: not known"],
    ["gives no signature", SIGN, { result: null }, "signature must be a string"],
    [
      "is busy",
      "eth_requestAccounts",
      { error: { code: -32_002, message: "Already processing. Please wait." } },
      "Already processing. Please wait.",
    ],
  ])("says in a sentence that a wallet %s", async (_, method, answer, said) => {
    const script = `addEventListener("eip6963:announceProvider", ({ detail: { provider } }) => {
      const { request } = provider;
      const answer = ${JSON.stringify(answer)};
      const lie = () => "result" in answer ? Promise.resolve(answer.result) : Promise.reject(answer.error);
      provider.request = (call) => call.method === "${method}" ? lie() : request(call);
    }, { once: true });`;
    await using tab = await open("/weather?lies", { script });
    await tab.page.getByRole("button", PAY).click();
    await tab.page.getByRole("status").getByText("Nothing was charged.").waitFor();
    const text = await statusOf(tab.page);
    expect(text).toContain(said);
    expect(text).toMatch(/^[A-Z][^_]*[^.]\. Nothing was charged\.$/);
    expect(tab.faults).toEqual([]);
    expect(await paid()).toBe(0n);
  });

  it("lets a bought document reach nothing", async () => {
    await using tab = await open("/letter");
    const { page, context } = tab;
    await page.getByRole("button", PAY).click();
    const frame = page.frameLocator("iframe");
    await frame.getByRole("heading", { name: "Dear buyer" }).waitFor();
    for (const name of ["Top", "Script"]) await frame.getByRole("link", { name }).click();
    await frame.getByRole("button", { name: "Send" }).click();
    const opening = context.waitForEvent("page");
    await frame.getByRole("link", { name: "Opener" }).click();
    const opened = await opening;
    await opened.waitForURL(/opened/);
    // It is a page of the shop's own origin: with an opener it could sign in this page's name.
    expect(await opened.evaluate("window.opener")).toBeNull();
    expect(page.url()).toBe(`${shop.url}/letter`);
    expect(await page.title()).toBe("Paid: here it is");
    const asked = tab.requested.map((url) => url.replace(shop.url, ""));
    expect([...new Set(asked)]).toEqual(["/letter", "/health?opened"]);
    for (const stopped of [/redirect specified via/, /base URI/, /Framing/, /Blocked script/]) {
      expect(tab.faults.join("\n")).toMatch(stopped);
    }
  });

  it("shows a bought drawing as a picture that runs nothing, also where it is opened", async () => {
    await using tab = await open("/drawing");
    const { page } = tab;
    await page.getByRole("button", PAY).click();
    const image = page.locator("#bought img");
    await expect.poll(() => image.evaluate(widthOf), SOON).toBe(20);
    const url = await page.getByRole("link", { name: "Save" }).getAttribute("href");
    const opening = tab.context.waitForEvent("page");
    await page.evaluate(`window.open(${JSON.stringify(url)})`);
    const opened = await opening;
    await opened.waitForLoadState();
    expect(await opened.locator("rect").count()).toBe(1);
    expect(await page.title()).toBe("Paid: here it is");
    expect(tab.requested.filter((each) => !each.startsWith(shop.url))).toEqual([]);
  });

  it("runs nothing of what has no type", async () => {
    await using tab = await open("/unnamed");
    const { page } = tab;
    await page.getByRole("button", PAY).click();
    const opening = tab.context.waitForEvent("page");
    const open_ = page.getByRole("link", { name: "Open what was bought" });
    // As bad as it can be: a browser that takes it for a document and tells it who opened it.
    await open_.evaluate((each) => void (Object(each).rel = "opener"));
    await open_.click();
    await (await opening).waitForLoadState();
    expect(await page.title()).toBe("Paid: here it is");
  });

  it.each(["https://attacker.example/", "the shop itself"])(
    "cannot be put into a frame of %s",
    async (place) => {
      await using tab = await openTab(browser);
      const { page } = tab;
      const url = place.startsWith("https") ? place : `${shop.url}/health`;
      const body = `<iframe src="${shop.url}/weather"></iframe>`;
      await page.route(url, (route) => route.fulfill({ contentType: "text/html", body }));
      await page.goto(url);
      const framed = (): string | undefined => page.frames().at(1)?.url();
      await expect.poll(framed, SOON).toBe("chrome-error://chromewebdata/");
    },
  );

  it("offers what is marked, also where a browser restores that late", async () => {
    await using tab = await open("/weather?late", {
      script: `addEventListener("DOMContentLoaded", () => {
        document.querySelectorAll("input")[1].checked = true;
      });`,
    });
    await tab.page.getByText("No wallet for Solana devnet was found").waitFor();
    expect(await tab.page.getByRole("button", PAY).count()).toBe(0);
  });

  it("shows a document on white, whatever the buyer's browser prefers", async () => {
    await using tab = await open("/article");
    await tab.page.emulateMedia({ colorScheme: "dark" });
    await tab.page.getByRole("button", PAY).click();
    const frame = tab.page.locator("iframe");
    const scheme = frame.evaluate((each) => Object(globalThis).getComputedStyle(each).colorScheme);
    expect(await scheme).toBe("light");
  });
});
