/**
 * What a person downloads, waits for and does who opens a paid link: our paywall page beside the one of the reference
 * implementation, served by the same server as both gateways serve them (ours in gzip, theirs as it is) and loaded by
 * the same browser in turn. `ROUNDS=n` for another number of rounds.
 */
import { createServer } from "node:http";
import { gzipSync } from "node:zlib";
import type { Browser } from "playwright-core";
import { getPaywallHtml } from "x402/paywall";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { OfferPage } from "../../src/gateway/offers/offer-page.ts";
import { Offers } from "../../src/payments/sale/offers.ts";
import { MAX_PAGE_BYTES, paywallPage } from "../../src/web/paywall-page.ts";
import { networkOf } from "../../src/x402/network.ts";
import { openBrowser, openTab } from "../browser/chromium.ts";
import { coinslotVersion, say, sayHead, versionOf } from "./report.ts";
import { sized } from "./size.ts";

const ROUNDS = Number(process.env["ROUNDS"] ?? sized(10, 1));
/** Longest that a page may take, milliseconds. */
const PATIENCE_MS = 60_000;

interface Contender {
  readonly name: string;
  readonly path: string;
  readonly lines: readonly string[];
  /** As it is sent. */
  readonly body: Uint8Array;
  /** As it is read. */
  readonly text: string;
  /** Something of it that can be pressed, once a wallet is there. */
  readonly ready: string;
}

interface Load {
  /** From the navigation until the page is loaded, milliseconds. */
  readonly loadMs: number;
  /** Until there is a button to press, milliseconds. */
  readonly readyMs: number;
  /** CPU time of the page's thread, milliseconds. */
  readonly cpuMs: number;
  /** Requests to other hosts. */
  readonly foreign: number;
}

function contenders(url: string): readonly Contender[] {
  const network = networkOf("base");
  if (network.kind !== "evm") throw new TypeError("base is an EVM network");
  const payTo = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
  const page = paywallPage({
    brand: "",
    host: "",
    mimeType: "application/json",
    support: null,
    description: "Current weather",
    maxTimeoutSeconds: 60,
    againSeconds: 600,
    asksWho: true,
    offers: [{ network: "base", asset: network.asset, payTo, amountAtomic: 10_000n }],
    others: [],
    version: 2,
    listing: null,
  });
  const sent = new OfferPage(new Offers([]), () => page).answer([], "gzip");
  const requirement = {
    scheme: "exact",
    network: "base",
    maxAmountRequired: "10000",
    resource: `${url}/`,
    description: "Current weather",
    mimeType: "application/json",
    payTo,
    maxTimeoutSeconds: 60,
    asset: network.asset.address,
    extra: network.asset.eip712,
  } as const;
  const theirs = getPaywallHtml({
    amount: 0.01,
    paymentRequirements: [requirement],
    currentUrl: url,
    testnet: false,
  });
  return [
    {
      name: "coinslot",
      path: "/ours",
      lines: sent.lines,
      body: sent.bytes ?? Buffer.from(page.body),
      text: page.body,
      ready: "#wallets button",
    },
    {
      name: "x402",
      path: "/theirs",
      lines: [],
      body: Buffer.from(theirs),
      text: theirs,
      ready: "button",
    },
  ];
}

/** Both are ready when a wallet of the browser can be chosen. */
const WALLET = `
  const provider = { request: async ({ method }) => (method === "eth_chainId" ? "0x2105" : []), on() {} };
  const info = { uuid: "7f9a1c1e-3e0b-4a51-9d7e-4c8c1c9d1a2b", name: "W", icon: "data:,", rdns: "w" };
  addEventListener("eip6963:requestProvider", () => dispatchEvent(
    new CustomEvent("eip6963:announceProvider", { detail: Object.freeze({ info, provider }) })));`;

async function load(browser: Browser, url: string, { path, ready }: Contender): Promise<Load> {
  await using tab = await openTab(browser);
  const { page, context } = tab;
  const foreign: string[] = [];
  context.on("request", (request) => {
    const asked = request.url();
    if (/^https?:/.test(asked) && !asked.startsWith(url)) foreign.push(asked);
  });
  await page.addInitScript({ content: WALLET });
  const metrics = await context.newCDPSession(page);
  await metrics.send("Performance.enable");
  await page.goto(url + path, { timeout: PATIENCE_MS });
  const loadMs = await page.evaluate(
    `performance.getEntriesByType("navigation")[0].loadEventEnd || performance.now()`,
  );
  await page.locator(ready).first().waitFor({ timeout: PATIENCE_MS });
  const readyMs = await page.evaluate("performance.now()");
  const told = await metrics.send("Performance.getMetrics");
  const task = told.metrics.find(({ name }) => name === "TaskDuration");
  return {
    loadMs: Number(loadMs),
    readyMs: Number(readyMs),
    cpuMs: (task?.value ?? 0) * 1_000,
    foreign: foreign.length,
  };
}

function median(values: readonly number[]): number {
  return values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)] ?? 0;
}

function times(left: number, right: number): string {
  return `${(right / left).toFixed(0)} times`;
}

async function run(): Promise<boolean> {
  await using closing = new AsyncDisposableStack();
  let pages: readonly Contender[] = [];
  const server = createServer(({ url: asked }, response) => {
    const page = pages.find(({ path }) => path === asked);
    if (page === undefined) return void response.writeHead(404).end();
    const lines = ["Content-Type", "text/html; charset=utf-8", ...page.lines];
    response.writeHead(402, lines).end(page.body);
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(server, AbortSignal.timeout(1_000)));
  const url = `http://127.0.0.1:${port}`;
  pages = contenders(url);
  const browser = await openBrowser();
  closing.defer(() => browser.close());

  sayHead("The paywall page: weight and load time", [coinslotVersion(), versionOf("x402")]);
  say(`  browser   Chromium ${browser.version()}, ${ROUNDS} rounds in alternating order; medians`);
  const loads = new Map<string, Load[]>(pages.map(({ name }) => [name, []]));
  for (const page of pages) await load(browser, url, page);
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const page of round % 2 === 0 ? pages : pages.toReversed()) {
      loads.get(page.name)?.push(await load(browser, url, page));
    }
  }
  say();
  say("  page        as text   as sent      gzip   load ms   button ms   page CPU ms   elsewhere");
  const rows = pages.map(({ name, body, text }) => {
    const all = loads.get(name) ?? [];
    const row = {
      name,
      bytes: body.length,
      text: Buffer.byteLength(text),
      gzip: gzipSync(text).length,
      loadMs: median(all.map((each) => each.loadMs)),
      readyMs: median(all.map((each) => each.readyMs)),
      cpuMs: median(all.map((each) => each.cpuMs)),
      foreign: median(all.map((each) => each.foreign)),
    };
    say(
      `  ${name.padEnd(9)} ${String(row.text).padStart(9)} ${String(row.bytes).padStart(9)} ${String(row.gzip).padStart(9)} ` +
        `${row.loadMs.toFixed(1).padStart(9)} ${row.readyMs.toFixed(1).padStart(11)} ` +
        `${row.cpuMs.toFixed(1).padStart(13)} ${String(row.foreign).padStart(11)}`,
    );
    return row;
  });
  const [ours, theirs] = rows;
  if (ours === undefined || theirs === undefined) return false;
  say();
  say(
    `  ${times(ours.bytes, theirs.bytes)} fewer bytes, ${times(ours.readyMs, theirs.readyMs)} sooner a button, ` +
      `${times(ours.cpuMs, theirs.cpuMs)} less work for the browser`,
  );
  const isReached =
    ours.bytes <= MAX_PAGE_BYTES && ours.foreign === 0 && ours.readyMs < theirs.readyMs;
  say(
    `  aim: at most ${MAX_PAGE_BYTES} bytes, nothing from elsewhere, sooner: ${isReached ? "yes" : "NO"}`,
  );
  return isReached;
}

process.exitCode = (await run()) ? 0 : 1;
