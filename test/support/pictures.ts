/**
 * `npm run pictures`: the pictures of the README, each from where it cannot lie. Two are of the running product: the
 * gateway as its own process before a local chain, a local Solana and a sample backend, looked at with Chromium while
 * purchases are made. The third is drawn of the table in `test/README.md`. They are written into `deploy/pictures/`, or the folder that is named.
 */
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { keccak256, toHex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { openBrowser } from "../browser/chromium.ts";
import { injectEvmWallet } from "../browser/evm-wallet.ts";
import { present, PURSE, sign } from "./buyer.ts";
import { startChain, type Chain } from "./chain.ts";
import type { FreshAccount } from "./payer.ts";
import { benchPlot } from "./pictures-plot.ts";
import { smallerPng } from "./pictures-png.ts";
import { purchase } from "./purchase.ts";
import { createSampleBackend } from "./sample-backend.ts";
import { Site } from "./serve.ts";
import { freshSolanaKey } from "./solana-key.ts";
import { USDC_DEVNET } from "./solana/set-up.ts";
import { GENESIS_HASHES, startSolanaNode, type SolanaNode } from "./solana/solana-node.ts";

const ROOT = join(import.meta.dirname, "../..");
const FOLDER = process.argv[2] ?? join(ROOT, "deploy/pictures");
/** Where the figures of the plot stand. */
const BENCH_PAPER = join(ROOT, "test/README.md");
/** Where buyers ask, as the pages tell it. */
const SHOP_NAME = "Example Weather";
/** Who is paid: on EVM networks the payee of the README. */
const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const SOLANA_PAYEE = "6BoaVempcnFUDQJoCnXthXFhWzLAvBYKXkjoNMtJxvos";
/** The report that the backend cannot make. */
const OUT_OF_ORDER = "/reports/8";
/** How long the gateway may take to start, on a machine that is busy with tests. */
const START_TIMEOUT_MS = 60_000;
const GAS_WEI = 10n ** 18n;
const FEE_LAMPORTS = 1_000_000_000n;
/** Pixels of a picture for each one of the page. */
const SCALE = 2;

/** Who takes part, with the same addresses in every picture. */
function somebody(name: string): FreshAccount {
  const privateKey = keccak256(toHex(`coinslot pictures: ${name}`));
  const account = privateKeyToAccount(privateKey);
  return { address: account.address, privateKey, account };
}

interface Scene {
  readonly chain: Chain;
  readonly solana: SolanaNode;
  readonly url: string;
  readonly adminUrl: string;
  readonly browser: Browser;
}

async function open(closing: AsyncDisposableStack): Promise<Scene> {
  const chain = closing.use(await startChain());
  const genesisHash = GENESIS_HASHES["solana-devnet"];
  const solana = closing.use(await startSolanaNode({ slotMs: 50, genesisHash }));
  const [gas, fees] = [somebody("gas"), freshSolanaKey()];
  await chain.fund(gas.address, 0n, GAS_WEI);
  solana.fundSol(fees.address, FEE_LAMPORTS);
  await solana.fundToken({ mint: USDC_DEVNET, owner: SOLANA_PAYEE, amount: 1n });

  const sample = createSampleBackend();
  const backend = createServer((request, response) => {
    // One report cannot be made: what was paid for it is owed.
    if (request.url === OUT_OF_ORDER) response.writeHead(500).end();
    else sample.emit("request", request, response);
  });
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(backend, AbortSignal.timeout(1_000)));

  const site = closing.use(await Site.create());
  const env = { EVM_KEY: gas.privateKey, SOLANA_KEY: fees.secret };
  const served = await site.serve(
    `
upstream: http://127.0.0.1:${port}
payTo: { evm: "${PAYEE}", solana: ${SOLANA_PAYEE} }
accept: [base-sepolia, solana-devnet]
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ["${chain.rpcUrl}"], signers: [env:EVM_KEY] }
      solana-devnet: { rpc: ["${solana.rpcUrl}"], signers: [env:SOLANA_KEY] }
paywall: { brand: ${SHOP_NAME} }
unmatched: deny
logging: { level: fatal }
routes:
  GET /weather: { price: $0.01, description: Current weather of a city }
  GET /reports/:id: { price: $0.25, description: "One report, complete" }
  GET /health: free
`,
    env,
  );
  await served.untilReady(200, START_TIMEOUT_MS);
  const browser = await openBrowser();
  closing.defer(() => browser.close());
  return { chain, solana, url: served.url, adminUrl: served.adminUrl, browser };
}

/** A page of that size, in the light theme, where nothing moves. */
async function openPage(browser: Browser, width: number, height: number): Promise<Page> {
  const context = await browser.newContext({
    colorScheme: "light",
    viewport: { width, height },
    deviceScaleFactor: SCALE,
    reducedMotion: "reduce",
    locale: "en-GB",
    timezoneId: "UTC",
  });
  return context.newPage();
}

async function rich(chain: Chain, name: string): Promise<FreshAccount> {
  const buyer = somebody(name);
  await chain.fund(buyer.address, PURSE);
  return buyer;
}

/** The page that sells, as somebody with a wallet sees it, who then buys there. */
async function takePaywall({ chain, url, browser }: Scene): Promise<void> {
  const { account } = await rich(chain, "a person");
  const page = await openPage(browser, 660, 544);
  const { chainId, rpcUrl } = chain;
  await injectEvmWallet(page, { account, rpcUrl, chainId, name: "Your Wallet" });
  await page.goto(`${url}/weather?city=Oslo`);
  const button = page.getByRole("button", { name: /^Pay / });
  await button.waitFor();
  await take(page, "paywall.png");
  await button.click();
  await page.getByRole("heading", { name: "Paid: here it is" }).waitFor();
  await page.context().close();
}

/** What the operator sees of purchases, of a payer who holds nothing, and of what is owed. */
async function takePayments(scene: Scene): Promise<void> {
  const { chain, solana, url, adminUrl, browser } = scene;
  const { privateKey } = await rich(chain, "a program");
  const evm = { kind: "evm", key: privateKey } as const;
  const wallet = freshSolanaKey();
  await solana.fundToken({ mint: USDC_DEVNET, owner: wallet.address, amount: PURSE });
  const onSolana = { kind: "solana", key: wallet.secret, rpcUrl: solana.rpcUrl } as const;

  const buy = async (purse: typeof evm | typeof onSolana, path: string, wanted: number) => {
    const { status } = await purchase(purse, url + path);
    if (status !== wanted) throw new Error(`the purchase of ${path} was answered ${status}`);
  };
  await buy(onSolana, "/weather?city=Bergen", 200);
  const header = await sign(somebody("a payer without money"), `${url}/weather`);
  const { status } = await present(`${url}/weather`, header);
  if (status !== 402) throw new Error(`a payer without money was answered ${status}`);
  await buy(evm, OUT_OF_ORDER, 500);
  await buy(evm, "/reports/7", 200);

  const page = await openPage(browser, 880, 826);
  await page.goto(`${adminUrl}/payments`);
  await page.getByText("Live:").waitFor();
  await take(page, "payments.png");
  await page.context().close();
}

async function take(page: Page, name: string): Promise<void> {
  writeFileSync(join(FOLDER, name), smallerPng(await page.screenshot()));
}

async function main(): Promise<void> {
  mkdirSync(FOLDER, { recursive: true });
  writeFileSync(join(FOLDER, "how-it-compares.svg"), benchPlot(readFileSync(BENCH_PAPER, "utf8")));
  await using closing = new AsyncDisposableStack();
  const scene = await open(closing);
  await takePaywall(scene);
  await takePayments(scene);
}

await main();
