/**
 * `npm run demo`: the main job on embedded parts, narrated. A local chain with Circle's real USDC, a
 * sample backend, the gateway as its own process with `config/demo.yaml`, and a purchase by the official
 * client. Stays up for the reader to try; `-- --once` buys and ends; `-- --solana` buys on Solana, too.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatAmount } from "../../src/x402/amount.ts";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { startChain, type Chain } from "./chain.ts";
import type { SolanaScene } from "./demo-solana.ts";
import { say, show, step } from "./narration.ts";
import { freshAccount, type FreshAccount } from "./payer.ts";
import { purchase } from "./purchase.ts";
import { evmClients } from "./evm-clients.ts";
import { createSampleBackend } from "./sample-backend.ts";
import { untilAnswer } from "./until-answer.ts";

const ROOT = join(import.meta.dirname, "../..");
/** How long the gateway may take to start, milliseconds. */
const START_TIMEOUT_MS = 15_000;

interface Scene {
  readonly chain: Chain;
  readonly buyer: FreshAccount;
  readonly seller: FreshAccount;
  readonly gatewayUrl: string;
  readonly adminUrl: string;
  readonly facilitatorUrl: string;
  /** Undefined where nothing is sold on Solana. */
  readonly solana: SolanaScene | undefined;
}

async function main(): Promise<void> {
  const isOnce = process.argv.includes("--once");
  const isOnSolana = process.argv.includes("--solana");
  await using closing = new AsyncDisposableStack();
  const scene = await setUp(closing, isOnSolana);
  await askWithoutPaying(scene);
  await buy(scene);
  if (scene.solana !== undefined) {
    const { buyOnSolana } = await import("./demo-solana.ts");
    await buyOnSolana(scene.solana, `${scene.gatewayUrl}/weather?city=Oslo`);
  }
  await lookAround(scene);
  if (isOnce) return;
  suggest(scene);
  await Promise.race([once(process, "SIGINT"), once(process, "SIGTERM")]);
  say("\nstopping");
}

async function setUp(closing: AsyncDisposableStack, isOnSolana: boolean): Promise<Scene> {
  step("A local chain that stands in for Base Sepolia, with Circle's real USDC contract");
  const chain = await startChain();
  closing.defer(() => chain.stop());
  const [buyer, seller, facilitator] = [freshAccount(), freshAccount(), freshAccount()];
  await chain.fund(buyer.address, 5_000_000n);
  await chain.fund(facilitator.address, 0n, 10n ** 18n);
  show(`chain id ${chain.chainId} at ${chain.rpcUrl}, USDC at ${chain.asset}`);
  show(`buyer  ${buyer.address} owns 5 USDC and no gas: the facilitator pays that`);
  show(`seller ${seller.address} owns nothing yet`);
  const solana = isOnSolana
    ? await (await import("./demo-solana.ts")).openSolana(closing)
    : undefined;

  step("A backend that knows nothing of payments");
  const backend = createSampleBackend();
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  closing.defer(() => drain(backend, AbortSignal.timeout(1_000)));
  show(`http://127.0.0.1:${port}`);

  const file = isOnSolana ? "config/demo-solana.yaml" : "config/demo.yaml";
  step(`The gateway before it: npm run -s coinslot -- serve ${file}`);
  const [gatewayPort, facilitatorPort, adminPort] = [
    await preferPort(8402),
    await preferPort(4021),
    await preferPort(9402),
  ];
  const folder = await mkdtemp(join(tmpdir(), "coinslot-demo-"));
  closing.defer(() => rm(folder, { recursive: true, force: true }));
  const gatewayUrl = `http://localhost:${gatewayPort}`;
  const adminUrl = `http://127.0.0.1:${adminPort}`;
  const gateway = spawn(process.execPath, ["src/main.ts", "serve", file], {
    cwd: ROOT,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...process.env,
      NO_COLOR: "1",
      DEMO_LISTEN: `:${gatewayPort}`,
      DEMO_PUBLIC_URL: gatewayUrl,
      DEMO_UPSTREAM: `http://127.0.0.1:${port}`,
      DEMO_RPC: chain.rpcUrl,
      DEMO_FACILITATOR_LISTEN: `127.0.0.1:${facilitatorPort}`,
      DEMO_ADMIN: `127.0.0.1:${adminPort}`,
      DEMO_STORE: `sqlite:${join(folder, "coinslot.db")}`,
      DEMO_PAY_TO: seller.address,
      DEMO_FACILITATOR_KEY: facilitator.privateKey,
      ...solana?.env,
    },
  });
  closing.defer(() => stop(gateway));
  for (const stream of [gateway.stdout, gateway.stderr]) {
    stream.setEncoding("utf8");
    stream.on("data", (text: string) => show(text.trimEnd()));
  }
  // Ready means that a payment would be taken: the chain was checked and the ledger can be written.
  await untilAnswer(gateway, {
    url: `${adminUrl}/readyz`,
    status: 200,
    withinMs: START_TIMEOUT_MS,
  });
  const facilitatorUrl = `http://127.0.0.1:${facilitatorPort}`;
  return { chain, buyer, seller, gatewayUrl, adminUrl, facilitatorUrl, solana };
}

async function askWithoutPaying({ gatewayUrl }: Scene): Promise<void> {
  step("Asked without a payment, the gateway answers 402 and says what it costs");
  const response = await fetch(`${gatewayUrl}/weather?city=Oslo`);
  show(`GET /weather?city=Oslo -> ${response.status}`);
  show(await response.json());
}

async function buy(scene: Scene): Promise<void> {
  const { chain, buyer, seller, gatewayUrl } = scene;
  step("The official client (x402-fetch) signs what is asked for and asks again");
  const before = await balances(scene);
  const started = performance.now();
  const bought = await purchase(
    { kind: "evm", key: buyer.privateKey },
    `${gatewayUrl}/weather?city=Oslo`,
  );
  const tookMs = Math.round(performance.now() - started);
  show("X-PAYMENT, decoded:");
  show(bought.payment);

  step(
    `The gateway settled on the chain, then asked the backend: ${bought.status} in ${tookMs} ms`,
  );
  show(bought.body);
  show("X-PAYMENT-RESPONSE, decoded:");
  show(bought.receipt);
  if (bought.status !== 200 || bought.receipt?.success !== true) {
    throw new Error(`the purchase was answered ${bought.status}`);
  }
  const receipt = await chain.rpc("eth_getTransactionReceipt", [bought.receipt.transaction]);
  const { status, gasUsed, blockNumber } = Object(receipt);
  show(`receipt: status ${Number(status)}, block ${Number(blockNumber)}, ${Number(gasUsed)} gas`);

  step("The same URL sells in version 2: its official client (@x402/fetch) reads PAYMENT-REQUIRED");
  const newer = await evmClients["@x402/fetch 2.27.0 with version 2"]?.buy(
    `${gatewayUrl}/weather?city=Oslo`,
    buyer,
  );
  if (newer?.status !== 200) throw new Error(`the purchase was answered ${newer?.status}`);
  show(newer.body);
  show("PAYMENT-RESPONSE, decoded:");
  show(newer.receipt);

  step("Balances: the price has moved once for each purchase, exactly");
  const after = await balances(scene);
  show(`buyer  ${before.buyer} -> ${after.buyer} USDC   ${buyer.address}`);
  show(`seller ${before.seller} -> ${after.seller} USDC      ${seller.address}`);
}

async function lookAround({ gatewayUrl, adminUrl }: Scene): Promise<void> {
  step("What is for sale: GET /discovery/resources");
  const listing = await fetch(`${gatewayUrl}/discovery/resources`);
  const { items } = Object(await listing.json());
  for (const { resource, accepts } of items) {
    show(`${formatAmount(BigInt(accepts[0].maxAmountRequired), 6).padEnd(6)} USDC  ${resource}`);
  }

  step("What the operator sees: three of the metrics");
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
  const wanted = /^coinslot_(settled_amount_total|payment_required_total|settlements_total)\{.*$/gm;
  show((metrics.match(wanted) ?? []).join("\n"));
}

function suggest({ buyer, gatewayUrl, adminUrl, facilitatorUrl, solana }: Scene): void {
  say("\nIt stays up. In another terminal, in this folder:\n");
  show(`curl -i "${gatewayUrl}/weather?city=Oslo"`);
  show(`BUYER_KEY=${buyer.privateKey} npm run -s buy -- ${gatewayUrl}/reports/7`);
  show(
    `BUYER_KEY=${buyer.privateKey} npm run -s buy -- ${gatewayUrl}/summarize '{"text":"a b c"}'`,
  );
  if (solana !== undefined) {
    const wallet = `SOLANA_BUYER_KEY=${solana.buyer.secret} SOLANA_RPC=${solana.node.rpcUrl}`;
    show(`${wallet} npm run -s buy -- ${gatewayUrl}/reports/7`);
  }
  show(`curl ${facilitatorUrl}/supported`);
  show(`curl -g "${gatewayUrl}/discovery/resources?metadata[category]=weather"`);
  show(`curl ${adminUrl}/metrics`);
  show(
    `BUYER_KEY=${buyer.privateKey} npm run -s coinslot -- pay ${gatewayUrl}/weather --key env:BUYER_KEY`,
  );
  say("\nIn a browser:\n");
  show(`${gatewayUrl}/weather?city=Oslo   the page that sells to people`);
  show(`${gatewayUrl}/catalogue           what is for sale`);
  show(`${adminUrl}/payments            each request, step by step`);
  say("\nCtrl-C ends it.");
}

async function balances({ chain, buyer, seller }: Scene) {
  const read = async ({ address }: FreshAccount) => formatAmount(await chain.balanceOf(address), 6);
  return { buyer: await read(buyer), seller: await read(seller) };
}

/** The wanted port where it is free, else any: another gateway may be running. */
async function preferPort(wanted: number): Promise<number> {
  for (const port of [wanted, 0]) {
    const server = createServer();
    const opened = await listen(server, { host: null, port }).catch(() => undefined);
    if (opened === undefined) continue;
    await drain(server, AbortSignal.timeout(1_000));
    return opened.port;
  }
  throw new Error("no free port");
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  await once(child, "exit");
}

await main();
say("\nDone.");
