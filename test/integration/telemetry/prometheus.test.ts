import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { runHere } from "../cli/run-here.ts";
import { wrapFetchWithPayment } from "x402-fetch";
import { X402_VERSION } from "../../../src/x402/x402.ts";
import { inHeader, present, quote, richBuyer, sign } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freePort } from "../../support/free-port.ts";
import { FIRST } from "../../support/listener-tls.ts";
import { freshAccount, signPayment } from "../../support/payer.ts";
import {
  DEPLOY,
  prometheusMissing,
  promtool,
  startPrometheus,
  type Prometheus,
} from "../../support/prometheus.ts";
import { startScriptedFacilitator } from "../../support/scripted-facilitator.ts";
import { Site, type Served } from "../../support/serve.ts";
import { freshSolanaKey } from "../../support/solana-key.ts";
import { SLOT_MS } from "../../support/solana-shop.ts";
import { startSolanaNode } from "../../support/solana/solana-node.ts";
import { startBackend } from "./stage.ts";
import { SECRET, startWebhookReceiver } from "../../unit/webhooks/webhook-receiver.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const MISSING = prometheusMissing();
/** What Grafana fills in. */
const VARIABLES: Readonly<Record<string, string>> = {
  $__rate_interval: "1m",
  $__range: "5m",
  $instance: ".*",
  $network: ".*",
  $route: ".*",
};

interface Panel {
  readonly title: string;
  readonly expr: string;
}

async function panels(): Promise<readonly Panel[]> {
  const text = await readFile(join(DEPLOY, "grafana/dashboards/coinslot.json"), "utf8");
  const dashboard = Object(JSON.parse(text));
  return dashboard.panels.flatMap(({ title, targets = [] }: Record<string, unknown>) =>
    Array.from(Object(targets), (target) => ({ title, expr: fill(String(Object(target).expr)) })),
  );
}

function fill(expr: string): string {
  let filled = expr;
  for (const [name, value] of Object.entries(VARIABLES)) filled = filled.replaceAll(name, value);
  return filled;
}

describe.skipIf(MISSING !== null)(`a real Prometheus (${MISSING ?? "installed"})`, () => {
  const closing = new AsyncDisposableStack();
  const signer = freshAccount();
  let chain: Chain;
  let site: Site;
  let served: Served;
  let prometheus: Prometheus;

  beforeAll(async () => {
    chain = await startChain();
    closing.defer(() => chain.stop());
    await chain.fund(signer.address, 0n, 10n ** 18n);
    const node = closing.use(await startSolanaNode({ slotMs: SLOT_MS }));
    const feePayer = freshSolanaKey();
    node.fundSol(feePayer.address, 10n ** 9n);
    const backend = closing.use(await startBackend());
    const elsewhere = closing.use(
      await startScriptedFacilitator(() => ({ status: 200, body: { kinds: [] } })),
    );
    const receiver = closing.use(await startWebhookReceiver());
    site = closing.use(await Site.create());
    await writeFile(join(site.folder, "tls.crt"), FIRST.cert);
    await writeFile(join(site.folder, "tls.key"), FIRST.key);
    const env = {
      SIGNER: signer.privateKey,
      SOLANA_KEY: feePayer.secret,
      REFUNDS: freshAccount().privateKey,
      WEBHOOK_SECRET: SECRET,
    };
    served = await site.serve(
      `
upstreams:
  default: { targets: ["${backend.url}"] }
  files: { command: [node, --version] }
payTo: { evm: "${freshAccount().address}", solana: ${freshSolanaKey().address} }
accept: [base-sepolia, avalanche-fuji, solana-devnet]
facilitator:
  listen: { address: "127.0.0.1:0", tls: { cert: tls.crt, key: tls.key } }
  embedded:
    networks:
      base-sepolia: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER], nativePrice: $2000 }
      solana-devnet: { rpc: ["${node.rpcUrl}"], signers: [env:SOLANA_KEY] }
  remote: [{ url: "${elsewhere.url}" }]
refunds: { signer: { evm: env:REFUNDS }, maxPerDay: $1 }
webhooks: { shop: { url: "${receiver.url}", secrets: env:WEBHOOK_SECRET } }
credits: { packs: [$1] }
members: { rich: { token: USDC, network: base-sepolia, atLeast: 1 } }
unmatched: deny
workers: 2
logging: { level: info, access: { format: combined, file: access.log } }
routes:
  GET /weather: { price: $0.01, description: Weather }
  GET /news: { price: $0.01, description: News }
  GET /first: { price: $0.01, description: Sold once }
  GET /spare: { price: $0.01, description: Not sold for now }
  GET /club: { price: $0.01, prices: { rich: $0.004 }, description: Cheaper for who holds a token }
  GET /bytes: { meter: { of: header(Content-Length), each: $0.000001, max: $0.01 }, description: By the byte }
  GET /health: free
  /files: { price: free, upstream: files }
`,
      env,
    );
    await served.untilReady();
    const paused = await runHere(["pause", site.file, "GET /spare", "--reason", "a trial"], env);
    expect(paused).toMatchObject({ code: 0 });
    prometheus = closing.use(
      await startPrometheus(await freePort(), new URL(served.adminUrl).host, [
        "CoinslotNetworkClosed",
      ]),
    );
    // It begins a few seconds after its start; what was counted before would look like no change.
    await vi.waitUntil(isScraped, { timeout: 60_000, interval: 100 });
  });

  afterAll(() => closing.disposeAsync());

  async function isScraped(): Promise<boolean> {
    const { result } = Object(await prometheus.ask("query", { query: "coinslot_build_info" }));
    return result.length > 0;
  }

  /** Something of everything, over some scrapes. */
  async function trade(): Promise<void> {
    for (let round = 0; round < 4; round += 1) {
      const buyer = await richBuyer(chain);
      const pay = wrapFetchWithPayment(fetch, buyer.account);
      const bought = await pay(`${served.url}/weather?round=${round}`, { method: "GET" });
      expect(bought.status).toBe(200);
      expect((await fetch(`${served.url}/health`)).status).toBe(200);
      const header = await sign(buyer, `${served.url}/weather`);
      expect((await present(`${served.url}/weather`, header)).status).toBe(200);
      // Once more: the kept answer. And for something else: refused.
      expect((await present(`${served.url}/weather`, header)).status).toBe(200);
      expect((await present(`${served.url}/news`, header)).status).toBe(402);
      const asked = { ...(await quote(`${served.url}/club`)), maxAmountRequired: "4000" };
      const paymentPayload = await signPayment({ account: buyer.account, requirements: asked });
      const cheap = inHeader({ paymentPayload, paymentRequirements: asked }, X402_VERSION);
      expect((await present(`${served.url}/club`, cheap)).status).toBe(200);
      const metered = await sign(buyer, `${served.url}/bytes`);
      expect((await present(`${served.url}/bytes`, metered)).status).toBe(200);
      await pause(1_100);
    }
  }

  test("finds data for every panel, and nothing to alarm about, while an official client buys", async () => {
    await trade();
    const left = async (): Promise<readonly string[]> => {
      const all = await panels();
      const results = await Promise.all(
        all.map(async ({ title, expr }) => {
          const { result } = Object(await prometheus.ask("query", { query: expr }));
          const values = result.map(({ value }: { readonly value: unknown[] }) => value[1]);
          return values.some((value: unknown) => value !== "NaN") ? [] : [`${title}: ${expr}`];
        }),
      );
      return results.flat();
    };
    expect((await panels()).length).toBeGreaterThan(50);
    await expect.poll(left, { timeout: 40_000, interval: 1_000 }).toEqual([]);

    const { activeTargets } = Object(await prometheus.ask("targets"));
    expect(activeTargets).toMatchObject([{ health: "up", lastError: "" }]);
    const { groups } = Object(await prometheus.ask("rules"));
    const rules = groups.flatMap((group: Record<string, unknown>) => group["rules"]);
    expect(rules.length).toBeGreaterThan(20);
    for (const { name, health, state } of rules) {
      expect([name, health, state]).toEqual([
        name,
        "ok",
        expect.stringMatching(/inactive|pending/),
      ]);
    }
  });

  test("counts the first sale of a route, what it earned, and its gas", async () => {
    const buyer = await richBuyer(chain);
    const header = await sign(buyer, `${served.url}/first`);
    expect((await present(`${served.url}/first`, header)).status).toBe(200);
    const valueOf = async (query: string): Promise<number> => {
      const { result } = Object(await prometheus.ask("query", { query }));
      return Number(result[0]?.value[1] ?? Number.NaN);
    };
    const sales = 'increase(coinslot_http_requests_total{route="GET /first",outcome="paid"}[5m])';
    const income = 'sum(increase(coinslot_settled_amount_total{route="GET /first"}[5m]))';
    // Without its beginning at 0 both would be 0; what is there is stretched to the whole time.
    await expect.poll(() => valueOf(sales), { timeout: 20_000 }).toBeGreaterThanOrEqual(1);
    await expect.poll(() => valueOf(income), { timeout: 20_000 }).toBeGreaterThanOrEqual(0.01);
    const gas = 'sum(coinslot_gas_spent_total{network="base-sepolia"})';
    const dollars = 'coinslot_gas_spent_dollars_total{network="base-sepolia"}';
    expect(await valueOf(gas)).toBeGreaterThan(0);
    expect((await valueOf(`${dollars} / on () ${gas}`)) / 2000).toBeCloseTo(1, 6);
  });

  test("is told of what the access log tells line by line", async () => {
    const log = await readFile(join(site.folder, "access.log"), "utf8");
    const sold = log.split("\n").filter((line) => line.includes('"GET /first" paid'));
    expect(sold).toEqual([
      expect.stringMatching(
        /^127\.0\.0\.1 - 0x[0-9a-fA-F]{40} \[[^\]]+ \+0000\] "GET \/first HTTP\/1\.1" 200 4 "-" "[^"]*" "GET \/first" paid 0\.01 USDC base-sepolia 0x[0-9a-f]{64} [0-9a-f]{16} [0-9.]+ [0-9a-z-]+$/,
      ),
    ]);
  });

  test("is led from a settlement in a graph to its lines in the log", async () => {
    await trade();
    const query = "coinslot_settlement_duration_seconds_bucket";
    const exemplars = async (): Promise<readonly Record<string, Record<string, string>>[]> => {
      const start = String(Date.now() / 1000 - 600);
      const end = String(Date.now() / 1000 + 60);
      const data = await prometheus.ask("query_exemplars", { query, start, end });
      return Array.from(Object(data)).flatMap((series) => Object(series).exemplars);
    };
    await expect.poll(exemplars, { timeout: 20_000 }).not.toEqual([]);
    for (const exemplar of await exemplars()) {
      const payment = exemplar["labels"]?.["payment_id"];
      expect(payment).toMatch(/^[0-9a-f]{16}$/);
      expect(served.output().stdout).toContain(`"payment":"${payment}"`);
    }
  });

  test("fires while a network is closed, says why, and clears when it opens by itself", async () => {
    const firing = async (): Promise<readonly string[]> => {
      const { alerts } = Object(await prometheus.ask("alerts"));
      return alerts
        .filter(({ state }: { readonly state: string }) => state === "firing")
        .map(({ labels, annotations }: Record<string, Record<string, string>>) => [
          labels?.["alertname"],
          annotations?.["summary"],
        ]);
    };
    const said =
      "payments on base-sepolia are not taken (wallet); what is sold on other networks goes on";
    expect(await firing()).not.toContainEqual(["CoinslotNetworkClosed", said]);
    const buyer = await richBuyer(chain);
    await chain.fund(signer.address, 0n, 0n);
    // Whoever pays now is what it is noticed by, and is served when it is over: told to come again, or kept waiting.
    const header = await sign(buyer, `${served.url}/weather`);
    const paying = present(`${served.url}/weather`, header);
    await expect
      .poll(firing, { timeout: 20_000, interval: 500 })
      .toContainEqual(["CoinslotNetworkClosed", said]);
    const ready = await fetch(`${served.adminUrl}/readyz`);
    expect([ready.status, await ready.text()]).toEqual([
      200,
      expect.stringMatching(
        /^ready\n- base-sepolia: closed \(wallet\)\n- solana-devnet: open\n- avalanche-fuji: open\n- route GET \/spare: paused by operator /,
      ),
    ]);
    await chain.fund(signer.address, 0n, 10n ** 18n);
    await expect
      .poll(firing, { timeout: 30_000, interval: 500 })
      .not.toContainEqual(["CoinslotNetworkClosed", said]);
    await paying;
    const again = async () => (await present(`${served.url}/weather`, header)).status;
    await expect.poll(again, { timeout: 20_000, interval: 500 }).toBe(200);
  });

  test("has nothing to say against the names and types, in either number of processes", async () => {
    const metrics = await (await fetch(`${served.adminUrl}/metrics`)).text();
    expect(metrics).toContain('process_cpu_seconds_total{worker="2"}');
    expect(promtool(["check", "metrics"], metrics)).toEqual({ code: 0, text: "" });
    await using alone = await Site.create();
    const single = await alone.serve(
      `
upstream: http://127.0.0.1:9
payTo: "${freshAccount().address}"
accept: [base-sepolia]
facilitator: http://127.0.0.1:9
unmatched: deny
routes:
  GET /weather: $0.01
  GET /health: free
`,
      {},
    );
    await single.untilReady();
    await fetch(`${single.url}/weather`);
    const few = await (await fetch(`${single.adminUrl}/metrics`)).text();
    expect(promtool(["check", "metrics"], few)).toEqual({ code: 0, text: "" });
  });
});
