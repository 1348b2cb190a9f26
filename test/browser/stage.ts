/**
 * A shop for people with browsers: the gateway as a process of its own, a local EVM chain, a local Solana,
 * and a backend that sells one thing of each kind.
 */
import { EventEmitter } from "node:events";
import { createServer, type RequestListener } from "node:http";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { richBuyer } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { freshAccount, type FreshAccount } from "../support/payer.ts";
import { Site, type Served } from "../support/serve.ts";
import { freshSolanaKey, type SolanaKey } from "../support/solana-key.ts";
import { USDC_DEVNET } from "../support/solana/set-up.ts";
import { GENESIS_HASHES, startSolanaNode, type SolanaNode } from "../support/solana/solana-node.ts";

/** One US cent. */
export const PRICE = 10_000n;
/** What a shopper on Solana owns, atomic units. */
const PURSE = 5_000_000n;

/** Of what is sold at `/booked`. */
export const MEMO = "book 17";

/** Tries everything that text can try; it stands in the configuration and in URLs. */
export const HOSTILE = `</script></title><script>alert(1)</script><img src=x onerror=alert(2)>"'--> &lt;\u2028`;

const PIXEL = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAoAAAAKCAIAAAACUFjqAAAAEklEQVR4nGP4z8CAB+GTG8HSALfKY52fTcuYAAAAAElFTkSuQmCC",
  "base64",
);

/** A document of the seller's, with everything that it may and may not do in its frame. */
const ARTICLE = `<!doctype html><title>Article</title><link rel="stylesheet" href="/style.css">
<h1>The whole story</h1><img src="/pixel.png" alt="a pixel"><img src="https://elsewhere.example/x.png" alt="">
<script>document.body.textContent = "taken over"; parent.document.title = "taken over"</script>
<a href="/health">More</a>`;

/** Tries to reach the page that it is shown in, with everything that needs no click and with links that need one. */
const LETTER = `<!doctype html><title>Letter</title><meta http-equiv="refresh" content="0;url=/health?refreshed">
<base href="https://elsewhere.example/" target="_top"><h1>Dear buyer</h1>
<a href="/health?top" target="_top">Top</a> <a href="javascript:parent.document.title='taken over'" target="_parent">Script</a>
<a href="/health?opened" target="_blank" rel="opener">Opener</a>
<form action="/health?sent" method="post" target="_top"><button>Send</button></form>
<svg onload="parent.document.title='taken over'"></svg><iframe src="/health?framed"></iframe>
<object data="/health?object"></object><embed src="/health?embedded">`;

const DRAWING = `<svg xmlns="http://www.w3.org/2000/svg" width="20" height="10" onload="top.document.title='taken over'">
<script>top.document.title = "taken over"</script><image href="https://elsewhere.example/x.png" width="1" height="1"/>
<rect width="20" height="10" fill="#c00"/></svg>`;

export interface Shop {
  readonly url: string;
  readonly chain: Chain;
  readonly solana: SolanaNode;
  readonly payee: `0x${string}`;
  readonly solanaPayee: string;
  /** Requests that reached the backend for what is sold, in order. */
  readonly sold: readonly string[];
  /** Statuses that the backend gives next, in place of what it has. */
  readonly failures: number[];
  /** What is sold at `/stream` has a second part, and an end, only after this. */
  readonly goOn: () => void;
  readonly shopper: () => Promise<FreshAccount>;
  readonly solanaShopper: () => Promise<SolanaKey>;
  /** Sells `/weather` at that price from here on. */
  readonly reprice: (price: string) => Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

interface ShopOptions {
  readonly workers: number;
  /** Further sections of the configuration. */
  readonly more?: string;
  /** Further routes. */
  readonly routes?: string;
}

export async function openShop({ workers, more = "", routes = "" }: ShopOptions): Promise<Shop> {
  await using closing = new AsyncDisposableStack();
  const chain = closing.use(await startChain());
  const genesisHash = GENESIS_HASHES["solana-devnet"];
  const solana = closing.use(await startSolanaNode({ slotMs: 50, genesisHash }));
  const [gas, fees] = [freshAccount(), freshSolanaKey()];
  const [payee, solanaPayee] = [freshAccount().address, freshSolanaKey().address];
  await chain.fund(gas.address, 0n, 10n ** 18n);
  solana.fundSol(fees.address, 1_000_000_000n);
  await solana.fundToken({ mint: USDC_DEVNET, owner: solanaPayee, amount: 1n });

  const sold: string[] = [];
  const failures: number[] = [];
  const streams = new EventEmitter();
  const backend = createServer(backendOf(sold, failures, streams));
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(backend, AbortSignal.timeout(1_000)));
  const site = closing.use(await Site.create());
  const terms = {
    workers,
    more,
    routes,
    chain,
    solana,
    payee,
    solanaPayee,
    upstream: `http://127.0.0.1:${port}`,
  };
  const env = { EVM_KEY: gas.privateKey, SOLANA_KEY: fees.secret };
  const served = await site.serve(yaml(terms, "$0.01"), env);
  await served.untilReady();
  const owned = closing.move();
  return {
    url: served.url,
    chain,
    solana,
    payee,
    solanaPayee,
    sold,
    failures,
    goOn: () => void streams.emit("on"),
    shopper: () => richBuyer(chain),
    async solanaShopper() {
      const key = freshSolanaKey();
      await solana.fundToken({ mint: USDC_DEVNET, owner: key.address, amount: PURSE });
      return key;
    },
    async reprice(price) {
      await site.write(yaml(terms, price));
      await reload(served);
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

interface Terms extends Pick<Shop, "chain" | "solana" | "payee" | "solanaPayee"> {
  readonly upstream: string;
  readonly workers: number;
  readonly more: string;
  readonly routes: string;
}

function yaml(
  { workers, more, routes, chain, solana, payee, solanaPayee, upstream }: Terms,
  price: string,
): string {
  return `
upstream: ${upstream}
workers: ${workers}
payTo: { evm: "${payee}", solana: ${solanaPayee} }
accept: [base-sepolia, solana-devnet]
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ["${chain.rpcUrl}"], signers: [env:EVM_KEY] }
      solana-devnet: { rpc: ["${solana.rpcUrl}"], signers: [env:SOLANA_KEY] }
unmatched: deny
support: help@example.com
paywall: { brand: Weather Inc }
${more}
logging: { level: ${process.env["COINSLOT_TEST_LOG"] ?? "fatal"} }
routes:
  GET /weather: { price: ${price}, description: Current weather in Berlin, mimeType: text/csv }
  GET /article: { price: $0.01, description: An article }
  GET /picture: { price: $0.01, description: A picture }
  GET /archive: { price: $0.01, description: An archive }
  GET /drawing: { price: $0.01, description: A drawing }
  GET /letter: { price: $0.01, description: A letter }
  GET /notes: { price: $0.01, description: Notes }
  GET /rtl: { price: $0.01, description: "حالة الطقس الحالية في أي مدينة في العالم" }
  GET /stream: { price: $0.01, description: What happens }
  GET /export: { price: $0.01, description: An export }
  GET /unnamed: { price: $0.01, description: Something }
  GET /moved/here: { price: $0.01, description: Something that has moved }
  GET /moved/away: { price: $0.01, description: Something that is kept elsewhere }
  GET /moved/sold: { price: $0.01, description: Something that leads to something else }
  GET /booked: { price: $0.01, description: Something for the books, memo: "${MEMO}" }
  GET /named:
    price: $0.01
    description: Something with a name
    paymentIdentifier: required
    input: { queryParams: { city: { type: string, example: "Köln, 東京" } } }
  GET /forecast/:city:
    price: $0.01
    description: A forecast
    input: { queryParams: { days: { type: integer, required: true } } }
  GET /moved/dearer: { price: $0.01, description: Something that leads to something dearer }
  GET /premium: { price: $0.05, description: Something dearer }
  GET /hostile/*: { price: $0.01, description: ${JSON.stringify(HOSTILE)} }
  GET /health: free
  GET /style.css: free
  GET /pixel.png: free
${routes}`;
}

async function reload({ adminUrl }: Served): Promise<void> {
  const answer = await fetch(`${adminUrl}/-/reload`, { method: "POST" });
  if (!answer.ok) throw new Error(`not reloaded: ${await answer.text()}`);
}

const GOODS: Readonly<Record<string, readonly [type: string, body: string | Buffer]>> = {
  "/article": ["text/html; charset=utf-8", ARTICLE],
  "/picture": ["image/png", PIXEL],
  "/pixel.png": ["image/png", PIXEL],
  "/style.css": ["text/css", "h1 { color: rgb(1, 2, 3) }"],
  "/archive": ["application/zip", "PK"],
  "/drawing": ["image/svg+xml", DRAWING],
  "/letter": ["text/html", LETTER],
  "/notes": [
    "text/plain; charset=utf-8",
    `<script>alert(1)</script> \u202enotes\n${"a ".repeat(400)}`,
  ],
  // Browsers guess at what has no type.
  "/unnamed": ["", "<!doctype html><script>opener.document.title = 'taken over'</script>"],
};

/** What is kept at another address. */
const MOVED: Readonly<Record<string, string>> = {
  "/moved/here": "/health?moved",
  "/moved/away": "https://elsewhere.example/file",
  "/moved/sold": "/weather",
  "/moved/dearer": "/premium",
};

/** Its name has a folder that it must not go to, and a character that hides its end. */
const EXPORT_NAME =
  "attachment; filename*=UTF-8''..%2Fb%C3%BCcher%E2%80%AE.csv; filename=\"books.csv\"";

function backendOf(sold: string[], failures: number[], streams: EventEmitter): RequestListener {
  return ({ url = "" }, response) => {
    const path = url.replace(/\?.*/, "");
    const isSold = !/^\/(?:health|pixel|style)/.test(path);
    if (isSold) sold.push(url);
    const failure = isSold ? failures.shift() : undefined;
    if (failure !== undefined) {
      response.writeHead(failure, { "Content-Type": "application/json" });
      response.end('{"error":"<b>out of order</b>"}');
      return;
    }
    const moved = MOVED[path];
    if (moved !== undefined) {
      response.writeHead(302, { Location: moved });
      response.end();
      return;
    }
    if (path === "/stream") {
      response.writeHead(200, { "Content-Type": "text/event-stream" });
      response.write("data: first\n\n");
      streams.once("on", () => response.end("data: last\n\n"));
      return;
    }
    if (path === "/export") {
      response.writeHead(200, { "Content-Type": "text/csv", "Content-Disposition": EXPORT_NAME });
      response.end("title\n");
      return;
    }
    const [type, body] = GOODS[path] ?? ["application/json", JSON.stringify({ url, degrees: 21 })];
    response.writeHead(200, type === "" ? {} : { "Content-Type": type });
    response.end(body);
  };
}
