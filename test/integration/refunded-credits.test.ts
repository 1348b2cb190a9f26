/** What a buyer has prepaid and not used, sent back to him on a chain: once, whatever kills the gateway. */
import { createServer, type Server } from "node:http";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import type { PaymentKey } from "../../src/x402/payment-key.ts";
import { present, PURSE, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { freshAccount } from "../support/payer.ts";
import { Site, type Finished, type Served } from "../support/serve.ts";
import { runHere } from "./cli/run-here.ts";

/** Gateways are processes that are started and ended several times, on a machine that may be busy. */
vi.setConfig({ testTimeout: 120_000 });

const PRICE = 10_000n;
const POLL = { timeout: 40_000 };
const signer = freshAccount();
const refunder = freshAccount();
const env = { SIGNER: signer.privateKey, REFUNDER: refunder.privateKey };

let chain: Chain;
let backend: Server;
let backendUrl: string;

beforeAll(async () => {
  chain = await startChain();
  // Charged by what it says: all that there is, where nobody has asked for less.
  backend = createServer((request, response) => {
    const { searchParams } = new URL(request.url ?? "", "http://backend");
    response.setHeader("X-Usage", searchParams.get("usage") ?? String(PRICE));
    response.end("fine");
  });
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  backendUrl = `http://127.0.0.1:${port}`;
  await chain.fund(signer.address, 0n, 10n ** 18n);
  await chain.fund(refunder.address, 1_000_000n);
});

afterAll(async () => {
  await Promise.all([chain.stop(), drain(backend, AbortSignal.timeout(1_000))]);
});

const yaml = (refunds: string): string => `
upstream: ${backendUrl}
payTo: "${freshAccount().address}"
accept: [base-sepolia]
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
${refunds}
unmatched: deny
shutdown: 1s
credits: { packs: [$1] }
routes:
  GET /weather: { meter: { of: header(X-Usage), each: $0.000001, max: $0.01 }, description: Weather }
`;

const payments = (site: Site, ...options: readonly string[]): Promise<Finished> =>
  runHere(["payments", site.file, ...options], env);

async function start(site: Site): Promise<Served> {
  const served = await site.launch(env);
  await served.untilReady();
  return served;
}

/** A buyer with so much of each of his payments in his balance, as change of it; the gateway is ended. */
async function prepaid(site: Site, served: Served, kept: readonly bigint[]) {
  const buyer = await richBuyer(chain);
  const weather = `${served.url}/weather`;
  for (const amount of kept) {
    const asked = `${weather}?usage=${PRICE - amount}`;
    expect((await present(asked, await sign(buyer, asked))).status).toBe(200);
  }
  await chain.mine(30);
  const { stdout } = await payments(site, "--payer", buyer.address, "--json");
  const keys = (Object(JSON.parse(stdout)).payments as { readonly key: PaymentKey }[]).map(
    ({ key }) => key,
  );
  expect(await served.end("SIGTERM")).toBe(0);
  return { buyer, keys };
}

test("unspent credits are sent back once, and the books are what the chain says", async () => {
  await using site = await Site.create();
  await site.write(yaml("refunds: { signer: { evm: env:REFUNDER }, maxPerDay: $100 }"));
  let served = await start(site);
  const { buyer, keys } = await prepaid(site, served, [5_000n, 8_000n]);
  const before = await chain.balanceOf(buyer.address);
  expect(before).toBe(PURSE - 2n * PRICE);
  const float = await chain.balanceOf(refunder.address);

  const ask = (...options: readonly string[]): Promise<Finished> =>
    payments(site, "--refund-credits", buyer.address, ...options);
  // Without a gateway; what is asked for is sent by the next one.
  const asked = await ask("--amount", "$0.009", "--note", "sorry");
  expect(asked).toMatchObject({ code: 0, stderr: "" });
  expect(asked.stdout).toMatch(
    /^to be refunded: 0\.008 USDC on base-sepolia, of \S+\n.*0\.001 USDC/,
  );
  expect(await ask("--amount", "$0.0041")).toMatchObject({
    code: 1,
    stderr: "not refunded: $0.004 of the balance are free\n",
  });
  for (const afterKill of [true, true, false]) {
    served = await start(site);
    if (afterKill) await served.end("SIGKILL");
  }
  await expect.poll(() => chain.balanceOf(buyer.address), POLL).toBe(before + 9_000n);
  for (const key of keys) {
    await expect
      .poll(async () => (await payments(site, "--show", key, "--json")).stdout, POLL)
      .toContain('"state": "REFUNDED"');
  }
  expect(await chain.balanceOf(refunder.address)).toBe(float - 9_000n);
  expect((await payments(site, "--show", keys[0] ?? "")).stdout).toMatch(
    /REFUNDED {2}0\.008 of the buyer's balance {2}0x/,
  );

  // Each payment is sent back once; what is left goes by other means.
  const none = await ask();
  expect(none).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/only \$0 of it .*--by-hand/),
  });
  const books = async (...words: readonly string[]): Promise<Finished> =>
    runHere(["books", site.file, ...words], env);
  const { stdout } = await books();
  expect(stdout).toContain(
    "credits, USDC on evm-testnet: 0.013 bought = 0 used + 0.009 refunded + 0.004 left (1 balances)\n",
  );
  expect(stdout).toMatch(/refund wallets +\S* *0\.009/);
  const verified = await books("--verify", "--json");
  expect(JSON.parse(verified.stdout).verification.differences).toEqual([]);
  const rest = await ask("--by-hand");
  expect(rest).toMatchObject({ code: 0, stderr: "" });
  expect((await books()).stdout).toContain("0.013 bought = 0 used + 0.013 refunded + 0 left");
  const after = await books("--verify", "--json");
  expect(JSON.parse(after.stdout).verification.differences).toEqual([]);
  expect(await chain.balanceOf(refunder.address)).toBe(float - 9_000n);
  expect(await served.end("SIGTERM")).toBe(0);
});

test("beside a running gateway, by hand without a key, and as JSON", async () => {
  await using site = await Site.create();
  await site.write(yaml(""));
  let served = await start(site);
  const { buyer, keys } = await prepaid(site, served, [8_000n]);
  served = await start(site);
  const before = await chain.balanceOf(buyer.address);
  const ask = (...options: readonly string[]): Promise<Finished> =>
    payments(site, "--refund-credits", buyer.address, ...options);
  expect(await ask()).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/`refunds` has no key for a network on which it was bought/),
  });
  expect((await ask("--held")).code).toBe(2);
  const done = await ask("--by-hand", "--network", "base-sepolia", "--json");
  expect(done).toMatchObject({ code: 0, stderr: "" });
  expect(JSON.parse(done.stdout)).toEqual({
    refused: null,
    left: null,
    refunds: [
      {
        key: keys[0],
        network: "base-sepolia",
        amount: "0.008",
        amountAtomic: "8000",
        symbol: "USDC",
        resolved: { kind: "done", state: "DELIVERED" },
      },
    ],
  });
  const again = await ask("--by-hand", "--json");
  expect(again.code).toBe(1);
  expect(JSON.parse(again.stdout)).toMatchObject({ refused: expect.stringMatching(/no balance/) });
  const { stdout } = await runHere(["books", site.file], env);
  expect(stdout).toContain("0.008 bought = 0 used + 0.008 refunded + 0 left");
  expect(stdout).toMatch(/^GET \/weather +refunds +0\.008/m);
  expect(await chain.balanceOf(buyer.address)).toBe(before);
  for (const words of [
    ["--amount", "$1"],
    ["--by-hand"],
    ["--refund-credits", buyer.address, "--show", "x"],
  ])
    expect((await payments(site, ...words)).code).toBe(2);
  expect(await served.end("SIGTERM")).toBe(0);
});

test("a pack that was bought here goes back as far as it is not used, and with it all that is known of its buyer", async () => {
  await using site = await Site.create();
  const refunds = "refunds: { signer: { evm: env:REFUNDER }, maxPerDay: $100 }";
  const file = yaml(refunds).replace("Weather }", "Weather, credits: true }");
  await site.write(file);
  const served = await start(site);
  const { url } = served;
  const buyer = freshAccount();
  await chain.fund(buyer.address, 1_500_000n);
  const pay = (...words: readonly string[]): Promise<Finished> =>
    runHere(["pay", ...words], { COINSLOT_KEY: buyer.privateKey });
  const pack = ["-X", "POST", "--max", "$1", `${url}/.x402/credits/1`, "--yes"];
  expect(await pay(...pack)).toMatchObject({ code: 0 });
  expect(await pay("--credits", `${url}/weather`, "--yes")).toMatchObject({ stdout: "fine" });
  const ask = (): Promise<Finished> =>
    payments(site, "--refund-credits", buyer.address, "--amount", "$0.99");
  // What a process has leased comes back when nobody has used it for a moment; until then nothing is taken.
  await expect.poll(async () => (await ask()).code, POLL).toBe(0);
  expect(await ask()).toMatchObject({ code: 1 });
  await chain.mine(30);
  await expect.poll(() => chain.balanceOf(buyer.address), POLL).toBe(1_490_000n);
  const { stdout } = await runHere(["books", site.file, "--verify", "--json"], env);
  const { credits, verification } = JSON.parse(stdout);
  expect(verification.differences).toEqual([]);
  expect(credits).toMatchObject([{ bought: "1", used: "0.01", refunded: "0.99", left: "0" }]);
  expect(await pay("--balance", url)).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(/has prepaid nothing/),
  });
  expect(await served.end("SIGTERM")).toBe(0);
});
