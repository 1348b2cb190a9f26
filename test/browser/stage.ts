/**
 * A shop for people with browsers: the gateway as a process of its own, a local EVM chain, a local Solana,
 * and a backend that sells one thing of each kind.
 */
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
  readonly shopper: () => Promise<FreshAccount>;
  readonly solanaShopper: () => Promise<SolanaKey>;
  /** Sells `/weather` at that price from here on. */
  readonly reprice: (price: string) => Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export async function openShop({ workers }: { readonly workers: number }): Promise<Shop> {
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
  const backend = createServer(backendOf(sold, failures));
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(backend, AbortSignal.timeout(1_000)));
  const site = closing.use(await Site.create());
  const terms = {
    workers,
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
}

function yaml(
  { workers, chain, solana, payee, solanaPayee, upstream }: Terms,
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
logging: { level: ${process.env["COINSLOT_TEST_LOG"] ?? "fatal"} }
routes:
  GET /weather: { price: ${price}, description: Current weather in Berlin }
  GET /article: { price: $0.01, description: An article }
  GET /picture: { price: $0.01, description: A picture }
  GET /archive: { price: $0.01, description: An archive }
  GET /hostile/*: { price: $0.01, description: ${JSON.stringify(HOSTILE)} }
  GET /health: free
  GET /style.css: free
  GET /pixel.png: free
`;
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
};

function backendOf(sold: string[], failures: number[]): RequestListener {
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
    const [type, body] = GOODS[path] ?? ["application/json", JSON.stringify({ url, degrees: 21 })];
    response.writeHead(200, { "Content-Type": type });
    response.end(body);
  };
}
