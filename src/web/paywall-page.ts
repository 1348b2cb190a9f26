/**
 * The page that a person sees who opens a priced URL in a browser: what is sold, what it costs, and a way to
 * pay with a wallet of the browser. One document that loads nothing else, of at most {@link MAX_PAGE_BYTES} where it
 * has no more than {@link FITTING_OFFERS}; its script is written in `browser/` and bundled once for each version of
 * the protocol, `paywall-v…-script.json`. What depends on the URL the script puts in: the document is the same for each.
 */
import { createHash } from "node:crypto";
import { formatAmount } from "../x402/amount.ts";
import { networkOf, type Asset, type Network, type NetworkName } from "../x402/network.ts";
import { caip2Of } from "../x402/version-2.ts";
import { X402_VERSION, X402_VERSION_2, type X402Version } from "../x402/x402.ts";
import { escapeText, html, jsonData, type Html } from "./html.ts";
import payingV1 from "./paywall-v1-script.json" with { type: "json" };
import payingV2 from "./paywall-v2-script.json" with { type: "json" };
import { PAYWALL_CSS } from "./paywall-style.ts";
import { THEME_CSS } from "./theme.ts";

/** The whole document in gzip, as it is sent to every browser. */
export const MAX_PAGE_BYTES = 15_000;
/** So many ways to pay fit, whatever else a page says; with more of them it depends. */
export const FITTING_OFFERS = 6;
/** Longest description that is shown whole, bytes as they are written into HTML. */
const MAX_DESCRIPTION_BYTES = 500;
/** From here on a description is a text to read, and no heading, characters. */
const LONG_DESCRIPTION = 120;
/** What is shown of an address: so many characters of its beginning, and of its end. */
const ADDRESS_ENDS = [6, 4] as const;

/** One way to pay, as the configuration says it. */
export interface PageOffer {
  readonly network: NetworkName;
  readonly asset: Asset;
  readonly payTo: string;
  /** Atomic units. */
  readonly amountAtomic: bigint;
}

/** What opens several routes, and is bought elsewhere. */
export interface PagePass {
  readonly url: string;
  /** `day: $1` */
  readonly text: string;
}

export interface PageFacts {
  /** Whose shop it is; "" where nobody says. */
  readonly brand: string;
  /** Where buyers are told to ask; "": wherever they ask. */
  readonly host: string;
  /** What is sold; "" where nobody says. */
  readonly description: string;
  /** Type of that; "" where nobody says. */
  readonly mimeType: string;
  readonly maxTimeoutSeconds: number;
  /** So long what was sold may be asked for again. */
  readonly againSeconds: number;
  /** Where balances are bought that it may be paid from; null: from none. Default: null. */
  readonly credits?: string | null;
  /** Whether its price is the most that is charged. Default: it is what is charged. */
  readonly metered?: boolean;
  /** Whether whoever has paid before may say so with his wallet. */
  readonly asksWho: boolean;
  /** What a browser can pay with, in the order that buyers see. */
  readonly offers: readonly PageOffer[];
  /** What only programs can pay with. */
  readonly others: readonly PageOffer[];
  /** The version of the protocol that the page pays by. */
  readonly version: X402Version;
  /** URL of the discovery listing; null: there is none. */
  readonly listing: string | null;
  /** What opens it beside a payment for it, and where that is bought. Default: nothing. */
  readonly passes?: readonly PagePass[];
  /** Where the seller can be asked, as a link; null: nowhere. */
  readonly support: string | null;
}

export interface PaywallPage {
  /** Raw header lines, without those on the body and Cache-Control. */
  readonly lines: readonly string[];
  /** The document. */
  readonly body: string;
}

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
    ["Vary", "Accept, Accept-Encoding"],
    ["X-Content-Type-Options", "nosniff"],
    ["Referrer-Policy", "no-referrer"],
    ["Cross-Origin-Opener-Policy", "same-origin"],
  ].flat();
}

// Tags that may be left out are: `head`, `body`, and the ends of both.
const HEAD = '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" ';
const SCALE = 'content="width=device-width,initial-scale=1">';
const STYLED = `${HEAD}${SCALE}<style>${STYLE}</style>`;

/** The page of a route, for what can be paid now: every way to pay is in it, or that there is none. */
export function paywallPage(facts: PageFacts): PaywallPage {
  const { lines, end } = PAYING[facts.version];
  const hasWays = facts.offers.length + facts.others.length > 0;
  return {
    lines,
    body: STYLED + (hasWays ? String(middleOf(facts)) + end : String(shutOf(facts))),
  };
}

function endOf(script: string): string {
  return `<script>${script}</script>`;
}

function hashOf(text: string): string {
  return `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
}

const FORM = html`<fieldset id="form"><legend>Pay on</legend>`;
const NO_FORM = html`<fieldset id="form" hidden>`;
/** Of networks whose tokens are worth nothing. */
const PLAY_MONEY = "test network, play money";
const TEST = html`<mark id="test">`;
const NO_TEST = html`<mark id="test" hidden>`;

/** What is sold, and by whom. */
function headOf({ brand, host, description }: PageFacts): Html {
  const sold = cut(description, MAX_DESCRIPTION_BYTES) || "This page is sold";
  // Nobody says in which language sellers write.
  const heading =
    sold.length > LONG_DESCRIPTION
      ? html`<h1 id="item" dir="auto" lang="" class="long">${sold}</h1>`
      : html`<h1 id="item" dir="auto" lang="">${sold}</h1>`;
  return html`<p class="dim" id="seller">${brand !== "" && html`<bdi lang="">${brand}</bdi> · `}<bdi id="host">${host}</bdi></p>${heading}`;
}

/** While nothing can be paid on any network: there is nothing to run, and nothing to sign. */
function shutOf(facts: PageFacts): Html {
  const { support } = facts;
  return html`<title>Not for sale at the moment</title><main><div class="card" id="main">
${headOf(facts)}
<p id="status" role="status">This cannot be paid for at the moment, and nothing was charged. <a href="">Try again</a> in a minute.</p>
${support !== null && html`<p class="dim"><a href="${support}">Ask the seller</a></p>`}</div></main>`;
}

function middleOf(facts: PageFacts): Html {
  const { mimeType, offers, others, listing, support, version, passes = [] } = facts;
  const { credits = null, metered = false } = facts;
  const { maxTimeoutSeconds: seconds, againSeconds: again, asksWho } = facts;
  const all = [...offers, ...others];
  const [first] = all;
  const price = first === undefined ? "" : priceOf(first);
  const ways = unlikeFirst(offers.map((offer) => dataOf(offer, version)));
  const beside = { ...(credits !== null && { credits: true }), ...(metered && { metered }) };
  const data = { seconds, again, asksWho, ...beside, offers: ways };
  return html`<title>${price} · Payment required</title><main><div class="card" id="main">
${headOf(facts)}
<p class="price" id="price">${price}</p>${first !== undefined && factsOf(first, mimeType)}
${offers.length > 0 ? FORM : NO_FORM}<div class="ways">${offers.map(radio)}</div><div id="wallets"></div></fieldset>
${others.length > 0 && html`<p class="dim">${elsewhere(others)}</p>`}<ol id="steps" hidden><li>Sign in your wallet<li>Pay on chain<li>Delivery</ol>
<p id="status" role="status" tabindex="-1"></p><div id="retry"></div>
<noscript><p>This page needs JavaScript. Without it, pay with a program.</p></noscript>
<div id="more"><details id="phone" hidden><summary>Pay with a phone, or get a wallet</summary><div id="ways"></div></details>
${passes.map(({ url, text }) => html`<p><a href="${url}">Or a pass: ${text}</a></p>`)}${credits !== null && html`<p><a href="${credits}">Or from a balance: prepay, then sign in</a></p>`}<details><summary>Pay with a program</summary>${snippet(all, version)}${listing !== null && html`<p><a href="${listing}">All that is sold here</a></p>`}
</details></div>${support !== null && html`<p><a id="support" href="${support}">Ask the seller for help</a></p>`}</div><div class="card" id="bought" hidden></div></main>
<script type="application/json" id="offers">${jsonData(data)}</script>`;
}

/** What is sold, and who gets the money: the script fills in what depends on the URL, and on the choice. */
function factsOf({ network, payTo, asset, amountAtomic }: PageOffer, mimeType: string): Html {
  const { displayName, testnet, explorer } = networkOf(network);
  const [beginning, end] = ADDRESS_ENDS;
  const short = `${payTo.slice(0, beginning)}…${payTo.slice(-end)}`;
  const exact = `${formatAmount(amountAtomic, asset.decimals)} ${asset.symbol} on ${displayName}`;
  return html`<dl><dt>Price<dd><span id="exact">${exact}</span> ${testnet ? TEST : NO_TEST}${PLAY_MONEY}</mark><dt>You get<dd>${mimeType && `${mimeType} · `}<code id="what">this URL</code>
<dt>Paid to<dd><a class="mono" id="payee" href="${explorer.address.replace("{address}", payTo)}" title="${payTo}">${short}</a></dl>`;
}

function radio({ network, asset, amountAtomic }: PageOffer, index: number): Html {
  const { displayName, testnet } = networkOf(network);
  const amount = `${formatAmount(amountAtomic, asset.decimals)} ${asset.symbol}`;
  const box =
    index === 0
      ? html`<input type="radio" name="offer" checked>`
      : html`<input type="radio" name="offer">`;
  return html`<label>${box}<span><b>${displayName}</b><small>${amount}${testnet && ", test network"}</small></span></label>`;
}

/** Dollars where the network's own stablecoin is paid. */
function priceOf({ network, amountAtomic, asset }: PageOffer): string {
  const amount = formatAmount(amountAtomic, asset.decimals);
  if (asset.address !== networkOf(network).asset.address) return `${amount} ${asset.symbol}`;
  const [whole = "", fraction = ""] = amount.split(".");
  return `$${whole}${fraction && `.${fraction.padEnd(2, "0")}`}`;
}

function elsewhere(others: readonly PageOffer[]): string {
  const names = new Set(others.map(({ network }) => networkOf(network).displayName));
  return `Programs can pay on ${[...names].join(", ")}, too; this page cannot.`;
}

/** What an official client does with the URL, which the script puts in. */
function snippet(all: readonly PageOffer[], version: X402Version): Html {
  const evm = all.find(({ network }) => networkOf(network).kind === "evm");
  if (evm === undefined) return html`<p>${PACKAGES[version]} of npm can pay this URL.</p>`;
  const { head, pay } = version === X402_VERSION ? codeV1(evm) : CODE_V2;
  return html`<p>${PACKAGES[version]} of npm can pay this URL:</p><pre>${head}
${pay}
const answer = await pay(<span id="url">"this URL"</span>);
console.log(await answer.text());</pre>`;
}

const PACKAGES = {
  [X402_VERSION]: "x402-fetch",
  [X402_VERSION_2]: "@x402/fetch, with @x402/evm or @x402/svm,",
};

interface Code {
  readonly head: string;
  readonly pay: string;
}

const CODE_V2: Code = {
  head: [
    imported("wrapFetchWithPaymentFromConfig", "@x402/fetch"),
    imported("ExactEvmScheme", "@x402/evm"),
    imported("privateKeyToAccount", "viem/accounts"),
  ].join(""),
  pay: `const client = new ExactEvmScheme(privateKeyToAccount(process.env.KEY));
const schemes = [{ network: "eip155:*", client }];
const pay = wrapFetchWithPaymentFromConfig(fetch, { schemes });`,
};

function imported(names: string, from: string): string {
  return `import { ${names} } from "${from}";\n`;
}

/** It pays nothing that is dearer than it is told. */
function codeV1({ network, amountAtomic }: PageOffer): Code {
  return {
    head: imported("createSigner, wrapFetchWithPayment", "x402-fetch"),
    pay: `const signer = await createSigner("${network}", process.env.KEY);
const pay = wrapFetchWithPayment(fetch, signer, ${amountAtomic}n);`,
  };
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
function dataOf(offer: PageOffer, protocol: X402Version): Data {
  const { network, asset, payTo, amountAtomic } = offer;
  const about = networkOf(network);
  const common = {
    network: protocol === X402_VERSION ? network : caip2Of(network),
    name: about.displayName,
    isTest: about.testnet,
    isGiven: about.testnet && asset.address === about.asset.address,
    asset: asset.address,
    symbol: asset.symbol,
    decimals: asset.decimals,
    payTo,
    amount: String(amountAtomic),
    price: priceOf(offer),
    explorer: about.explorer.tx,
    account: isUsual(about.explorer) ? "" : about.explorer.address,
  };
  if (about.kind === "solana" || !("eip712" in asset)) {
    const cluster = about.testnet ? "solana:devnet" : "solana:mainnet";
    return { ...common, chainId: 0, cluster };
  }
  const { chainId, nativeCurrency: currency, rpcUrls } = about;
  const { name, version } = asset.eip712;
  return { ...common, chainId, domain: { name, version }, currency, rpc: rpcUrls[0] };
}

/** Whether an account's page stands beside a transaction's, as the script knows it. */
function isUsual({ tx, address }: Network["explorer"]): boolean {
  return tx.replace("tx/{hash}", "address/{address}") === address;
}
