/**
 * The page that a person sees who opens a priced URL in a browser: what is sold, what it costs, and a way to
 * pay with a wallet of the browser. One document of at most {@link MAX_PAGE_BYTES} that loads nothing else;
 * its script is written in `browser/` and bundled once for each version of the protocol, `paywall-v…-script.json`.
 */
import { createHash } from "node:crypto";
import { formatAmount } from "../x402/amount.ts";
import { networkOf, type Asset, type NetworkName } from "../x402/network.ts";
import { caip2Of } from "../x402/version-2.ts";
import { X402_VERSION, X402_VERSION_2, type X402Version } from "../x402/x402.ts";
import { escapeText, html, jsonData, type Html } from "./html.ts";
import payingV1 from "./paywall-v1-script.json" with { type: "json" };
import payingV2 from "./paywall-v2-script.json" with { type: "json" };
import { PAYWALL_CSS } from "./paywall-style.ts";
import { THEME_CSS } from "./theme.ts";

/** The whole document as it is sent, uncompressed. */
export const MAX_PAGE_BYTES = 15_000;
/** Longest description that is shown whole, bytes as they are written into HTML. */
const MAX_DESCRIPTION_BYTES = 500;
/** From here on a description is a text to read, and no heading, characters. */
const LONG_DESCRIPTION = 120;
/** Longest URL that is repeated in commands, bytes; a longer one is in the address bar anyway. */
const MAX_RESOURCE_BYTES = 300;

/** One way to pay, as the configuration says it. */
export interface PageOffer {
  readonly network: NetworkName;
  readonly asset: Asset;
  readonly payTo: string;
  /** Atomic units. */
  readonly amountAtomic: bigint;
}

export interface PageFacts {
  /** Whose shop it is; "": the host of the URL. */
  readonly brand: string;
  /** What is sold; "" where nobody says. */
  readonly description: string;
  readonly maxTimeoutSeconds: number;
  /** What a browser can pay with, in the order that buyers see. */
  readonly offers: readonly PageOffer[];
  /** What only programs can pay with. */
  readonly others: readonly PageOffer[];
  /** The version of the protocol that the page pays by. */
  readonly version: X402Version;
  /** URL of the discovery listing; null: there is none. */
  readonly listing: string | null;
}

/** A page without the URL that it is for. */
export interface PaywallPage {
  /** Raw header lines, without those on the body and Cache-Control. */
  readonly lines: readonly string[];
  /** The document; `resource` is the absolute URL that is asked for. */
  readonly body: (resource: string) => string;
}

/** Stands where the URL goes in; no configuration text can contain it. */
const PLACEHOLDER = "\u0000resource\u0000";

const STYLE = THEME_CSS + PAYWALL_CSS;
/** The script, and what stands with it in each page that has it. */
const PAYING = {
  [X402_VERSION]: { lines: linesFor(payingV1.script), end: endOf(payingV1.script) },
  [X402_VERSION_2]: { lines: linesFor(payingV2.script), end: endOf(payingV2.script) },
} as const;

/**
 * The policy says what of the page's own and of what was bought may do what. The answer is shown in a frame that
 * inherits all of this and runs no script, so `self` lets it have its own images and styles, and nothing of others.
 */
function linesFor(script: string): readonly string[] {
  const policy = [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(STYLE)} 'self'`,
    "img-src 'self' data: blob:",
    "font-src 'self'",
    "media-src 'self' blob:",
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  return [
    ["Content-Security-Policy", policy],
    ["Vary", "Accept"],
    ["X-Content-Type-Options", "nosniff"],
    ["Referrer-Policy", "no-referrer"],
    ["Cross-Origin-Opener-Policy", "same-origin"],
  ].flat();
}

// Tags that may be left out are: `head`, `body`, and the ends of both.
const HEAD = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" ';
const SCALE = 'content="width=device-width,initial-scale=1">';
const STYLED = `${HEAD}${SCALE}<style>${STYLE}</style>`;

/**
 * The page of a route, for what can be paid now. Networks for which there is no room are named in it, and where
 * that is not enough the description is cut, so that it never becomes larger than {@link MAX_PAGE_BYTES}.
 */
export function paywallPage(facts: PageFacts): PaywallPage {
  const { offers, description, version } = facts;
  const { lines, end } = PAYING[version];
  const data = unlikeFirst(offers.map((offer) => dataOf(offer, version)));
  let count = offers.length;
  let most = MAX_DESCRIPTION_BYTES;
  for (;;) {
    const shown = offers.slice(0, count);
    const others = [...offers.slice(count), ...facts.others];
    const sold = cut(description, most);
    const told = { ...facts, description: sold, offers: shown, others };
    const middle = String(middleOf(told, data.slice(0, count)));
    const parts = middle.split(PLACEHOLDER);
    const room = MAX_RESOURCE_BYTES * (parts.length - 1);
    const bytes = Buffer.byteLength(STYLED + middle + end) + room;
    if (bytes <= MAX_PAGE_BYTES || most < 1) {
      return { lines, body: (resource) => STYLED + parts.join(commandOf(resource)) + end };
    }
    if (count > 1) count -= 1;
    else most -= bytes - MAX_PAGE_BYTES;
  }
}

function endOf(script: string): string {
  return `<script>${script}</script>`;
}

function hashOf(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

const FORM = html`<fieldset id="form"><legend>Pay on</legend>`;
const NO_FORM = html`<fieldset id="form" hidden>`;

/** The URL as a word of a shell, written as HTML. */
function commandOf(resource: string): string {
  const word = escapeText(`'${resource.replaceAll("'", String.raw`'\''`)}'`);
  return Buffer.byteLength(word) <= MAX_RESOURCE_BYTES ? word : "'URL'";
}

/** @param data of each of the offers, as of {@link unlikeFirst} */
function middleOf(facts: PageFacts, data: readonly Data[]): Html {
  const { offers, others, listing, maxTimeoutSeconds: seconds } = facts;
  const [first] = [...offers, ...others];
  const brand = facts.brand === "" ? "Payment" : html`<bdi>${facts.brand}</bdi>: payment`;
  const sold = facts.description === "" ? "This page is sold" : facts.description;
  const heading =
    sold.length > LONG_DESCRIPTION
      ? html`<h1 dir="auto" class="long">${sold}</h1>`
      : html`<h1 dir="auto">${sold}</h1>`;
  const price = first === undefined ? "" : priceOf(first);
  return html`<title>${price} · Payment required</title><main class="card" id="main">
<p class="dim">${brand} required</p>${heading}<p class="price">${price}</p>
${offers.length > 0 ? FORM : NO_FORM}${offers.map(radio)}<div id="wallets"></div></fieldset>
${others.length > 0 && html`<p class="dim">${elsewhere(others)}</p>`}
<p id="status" role="status" tabindex="-1"></p><div id="retry"></div>
<noscript><p>This page needs JavaScript. Without it, pay from a terminal.</p></noscript>
<details><summary>Pay from a terminal or a program</summary><p>This pays, and prints what was bought:</p>
<pre>coinslot pay ${PLACEHOLDER}</pre><p>Other x402 clients can pay, too.</p>${listing !== null && html`<p><a href="${listing}">All that is sold here</a></p>`}
</details></main><main class="card" id="bought" hidden></main>
<script type="application/json" id="offers">${jsonData({ seconds, offers: data })}</script>`;
}

function radio(offer: PageOffer, index: number): Html {
  const { displayName } = networkOf(offer.network);
  const { amountAtomic, payTo } = offer;
  const exact = `${amountAtomic} atomic units`;
  const box =
    index === 0
      ? html`<input type="radio" name="offer" checked>`
      : html`<input type="radio" name="offer">`;
  return html`<label>${box}<span><b>${displayName}</b> ${priceOf(offer)}<small>${exact} to <code>${payTo}</code></small></span></label>`;
}

function priceOf({ amountAtomic, asset }: PageOffer): string {
  return `${formatAmount(amountAtomic, asset.decimals)} ${asset.symbol}`;
}

function elsewhere(others: readonly PageOffer[]): string {
  const names = new Set(others.map(({ network }) => networkOf(network).displayName));
  return `Programs can pay on ${[...names].join(", ")}, too; this page cannot.`;
}

/** As much of the text as has that many bytes as HTML. */
function cut(text: string, most: number): string {
  let shown = "";
  let bytes = 0;
  for (const character of text) {
    bytes += Buffer.byteLength(escapeText(character));
    if (bytes > most) return `${shown}…`;
    shown += character;
  }
  return text;
}

type Data = Readonly<Record<string, unknown>>;

/** Of every offer but the first only what is different from it: so there is room for more of them. */
function unlikeFirst(all: readonly Data[]): readonly Data[] {
  const same = new Map(
    Object.entries(all[0] ?? {}).map(([name, of]) => [name, JSON.stringify(of)]),
  );
  return all.map((data, index) => {
    const own = Object.entries(data).filter(([name, of]) => JSON.stringify(of) !== same.get(name));
    return index === 0 ? data : Object.fromEntries(own);
  });
}

/** What the script has to know of an offer: see `browser/offer.ts`. The URLs are public ones. */
function dataOf({ network, asset, payTo, amountAtomic }: PageOffer, protocol: X402Version): Data {
  const about = networkOf(network);
  const common = {
    network: protocol === X402_VERSION ? network : caip2Of(network),
    name: about.displayName,
    asset: asset.address,
    symbol: asset.symbol,
    decimals: asset.decimals,
    payTo,
    amount: String(amountAtomic),
    explorer: about.explorer.tx,
  };
  if (about.kind === "solana" || !("eip712" in asset)) {
    const cluster = about.testnet ? "solana:devnet" : "solana:mainnet";
    return { ...common, chainId: 0, cluster };
  }
  const { chainId, nativeCurrency, rpcUrls } = about;
  const { name, version } = asset.eip712;
  return { ...common, chainId, domain: { name, version }, currency: nativeCurrency, rpc: rpcUrls };
}
