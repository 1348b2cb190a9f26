/** Refunds on Solana: whatever kills the gateway, a transfer that was signed is moved once, and no other beside it. */
import { createServer } from "node:http";
import { afterEach, beforeEach, expect, test } from "vitest";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { encodeBase58 } from "../../src/x402/solana-address.ts";
import { Site, type Served } from "../support/serve.ts";
import { testKey } from "../support/solana-messages.ts";
import { secretOf } from "../support/solana-requests.ts";
import { BUYER, PRICE, SOLANA_ENV, SolanaStage } from "../support/solana-stage.ts";
import { USDC_DEVNET } from "../support/solana/set-up.ts";
import { runHere } from "./cli/run-here.ts";

/** Gateways are processes that are started and ended several times, on a machine that may be busy. */
const TIMEOUT_MS = 120_000;
const PATIENCE_MS = 40_000;
const POLL = { timeout: 60_000 };
const REFUND_KEY = 5;
const FLOAT = 1_000_000n;
const ENV = {
  ...SOLANA_ENV,
  REFUNDER: encodeBase58(Buffer.from(secretOf(REFUND_KEY), "hex")),
};

const closing: (() => unknown)[] = [];
let stage: SolanaStage;
let upstreamUrl: string;

beforeEach(async () => {
  stage = await SolanaStage.open();
  closing.push(() => stage[Symbol.asyncDispose]());
  const owner = testKey(REFUND_KEY).address;
  await stage.node.fundToken({ mint: USDC_DEVNET, owner, amount: FLOAT });
  const backend = createServer((_, response) => void response.writeHead(503).end("later"));
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  closing.push(() => drain(backend, AbortSignal.timeout(1_000)));
  upstreamUrl = `http://127.0.0.1:${port}`;
});

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

const left = () => stage.node.tokenBalanceOf(testKey(REFUND_KEY).address, USDC_DEVNET);
const has = () => stage.node.tokenBalanceOf(BUYER.address, USDC_DEVNET);

async function start(site: Site): Promise<Served> {
  const more = "refunds: { signer: { solana: env:REFUNDER }, maxPerDay: $5, automatic: true }";
  const served = await site.serve(stage.yaml(undefined, { upstreamUrl, more }), ENV);
  await served.untilReady(200, PATIENCE_MS);
  return served;
}

async function fail({ url }: Served): Promise<void> {
  const transaction = stage.pay(await stage.quote(`${url}/weather`));
  for (const _attempt of [1, 2, 3]) {
    expect((await stage.present(`${url}/weather`, transaction)).status).toBe(503);
  }
}

async function refund(site: Site): Promise<{ readonly state: string; readonly transfer: string }> {
  const { stdout } = await runHere(["payments", site.file, "--json"], ENV);
  const all: readonly { readonly refund: never }[] = Object(JSON.parse(stdout)).payments;
  return all.map((each) => each.refund).find((each) => each !== null) ?? Object({ state: "none" });
}

test(
  "a refund is sent once, also where the gateway is killed while it is in the air",
  { timeout: TIMEOUT_MS },
  async () => {
    await using site = await Site.create();
    let served = await start(site);
    const before = await has();
    await fail(served);
    await expect.poll(has, POLL).toBe(before);
    expect(await left()).toBe(FLOAT - PRICE);

    const transaction = stage.pay(await stage.quote(`${served.url}/weather`));
    for (const _attempt of [1, 2]) await stage.present(`${served.url}/weather`, transaction);
    // The node forgets what it is sent.
    const lost = stage.node.inject({ method: "sendTransaction", lose: true, times: 10_000 });
    expect((await stage.present(`${served.url}/weather`, transaction)).status).toBe(503);
    await lost.hit();
    // So slow that the blockhash outlives the restart.
    stage.node.setSlotMs(400);
    await served.end("SIGKILL");
    const { transfer } = await refund(site);
    lost.lift();
    served = await start(site);
    await expect.poll(has, POLL).toBe(before);
    await expect.poll(async () => (await refund(site)).state, POLL).toBe("REFUNDED");
    // By the very transfer that was signed first.
    expect((await refund(site)).transfer).toBe(transfer);
    expect(await left()).toBe(FLOAT - 2n * PRICE);
    expect(await served.end("SIGTERM")).toBe(0);
  },
);
