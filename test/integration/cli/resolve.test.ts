/** `coinslot payments --resolve`, `pause` and `resume`, beside running gateways and without one, on both stores. */
import { createServer, type RequestListener, type Server } from "node:http";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { present, PURSE, richBuyer, sign } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freshAccount } from "../../support/payer.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { Site, type Finished, type Served } from "../../support/serve.ts";
import { overtake, pendingOn } from "../../support/stranger.ts";
import { runHere } from "./run-here.ts";

vi.setConfig({ testTimeout: 90_000 });

const fine: RequestListener = (_request, response) => void response.end("fine");
const busy: RequestListener = (_request, response) => void response.writeHead(503).end("later");

let chain: Chain;
let postgres: PostgresServer;
let backend: Server;
let backendUrl: string;
let handler: RequestListener = fine;
const signer = freshAccount();
const env = { SIGNER: signer.privateKey };

beforeAll(async () => {
  [chain, postgres] = await Promise.all([startChain(), startPostgres()]);
  await chain.fund(signer.address, 0n, 10n ** 18n);
  backend = createServer((request, response) => handler(request, response));
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  backendUrl = `http://127.0.0.1:${port}`;
});

afterAll(async () => {
  await Promise.all([chain.stop(), postgres.stop(), drain(backend, AbortSignal.timeout(1_000))]);
});

beforeEach(() => {
  handler = fine;
});
afterEach(() => chain.rpc("evm_setAutomine", [true]));

const yaml = (): string => `
upstream: ${backendUrl}
payTo: "${freshAccount().address}"
accept: [base-sepolia]
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
unmatched: deny
shutdown: 5s
routes:
  GET /weather: { price: $0.01, description: Weather }
`;

async function start(site: Site): Promise<Served> {
  const served = await site.serve(yaml(), env);
  await served.untilReady();
  return served;
}

function payments(site: Site, ...options: readonly string[]): Promise<Finished> {
  return runHere(["payments", join(site.folder, "gateway.yaml"), ...options], env);
}

/** A payment that a stranger has put on chain. */
async function overtaken({ url }: Served) {
  const weather = `${url}/weather`;
  const header = await sign(await richBuyer(chain), weather);
  await chain.rpc("evm_setAutomine", [false]);
  const answer = present(weather, header);
  await expect.poll(() => pendingOn(chain), { timeout: 20_000 }).toBe(1);
  const transaction = await overtake(chain, header);
  expect(await answer).toMatchObject({ status: 500, error: expect.stringContaining(transaction) });
  return { transaction, again: () => present(weather, header) };
}

/** The whole key of the payment in a transaction, as an operator finds it. */
async function keyIn(site: Site, transaction: string): Promise<string> {
  const { stdout } = await payments(site, "--held", "--json");
  const found = (Object(JSON.parse(stdout)).payments as Record<string, string>[]).find(
    ({ heldTransaction }) => heldTransaction === transaction,
  );
  return found?.["key"] ?? "";
}

describe.each([
  ["SQLite", async () => Site.create()],
  ["PostgreSQL", async () => Site.create({ store: await postgres.database() })],
] as const)("what is held, on %s,", (_, createSite) => {
  test("is listed, and delivered, paid back or noted beside a running gateway", async () => {
    await using site = await createSite();
    const served = await start(site);
    const [one, two] = [await overtaken(served), await overtaken(served)];
    const [first, second] = [
      await keyIn(site, one.transaction),
      await keyIn(site, two.transaction),
    ];
    const listed = await payments(site, "--held");
    expect(listed.stdout).toMatch(/HELD[^\n]* \S+\/0x[0-9a-f]{64}\n/);
    expect((await payments(site, "--undelivered")).stdout).toMatch(/HELD/);

    const noted = await payments(site, "--resolve", first, "--note", "asked the other shop");
    expect(noted).toEqual({ code: 0, stdout: "noted\n", stderr: "" });
    expect(await one.again()).toMatchObject({ status: 500 });
    const delivered = await payments(site, "--resolve", first, "--deliver");
    expect(delivered).toMatchObject({ code: 0, stderr: "" });
    const receipt = { transaction: one.transaction };
    expect(await one.again()).toMatchObject({ status: 200, text: "fine", receipt });

    const refund = ["--resolve", second, "--refund", "--note", "in 0x77"];
    expect(await payments(site, ...refund)).toMatchObject({ code: 0, stderr: "" });
    const told =
      "invalid_transaction_state: this payment was refunded by the seller; sign a new one";
    expect(await two.again()).toMatchObject({ status: 402, error: told });
    const repeated = await payments(site, ...refund);
    expect(repeated).toMatchObject({ code: 1, stderr: "not resolved: it is paid back already\n" });
    const { stdout } = await payments(site, "--show", second);
    expect(stdout).toMatch(/the operator: paid back: in 0x77 {2}\(operator \S+@\S+\)/);
    expect((await payments(site, "--held")).stdout).toBe("no payments\n");

    const metrics = await (await fetch(`${served.adminUrl}/metrics`)).text();
    expect(metrics).toContain("# TYPE coinslot_payments_held gauge");
    expect(await served.end("SIGTERM")).toBe(0);
  });

  test("is resolved where no gateway runs", async () => {
    await using site = await createSite();
    const served = await start(site);
    const { transaction, again } = await overtaken(served);
    expect(await served.end("SIGTERM")).toBe(0);
    const key = await keyIn(site, transaction);
    expect(await payments(site, "--resolve", key, "--deliver")).toMatchObject({ code: 0 });
    const next = await site.launch(env);
    await next.untilReady();
    expect(await again()).toMatchObject({ status: 200, receipt: { transaction } });
    expect(await next.end("SIGTERM")).toBe(0);
  });

  test("is not confused with what is being delivered, or was tried too often", async () => {
    await using site = await createSite();
    const served = await start(site);
    const weather = `${served.url}/weather`;
    const header = await sign(await richBuyer(chain), weather);
    const asked = Promise.withResolvers<() => void>();
    handler = (_request, response) => {
      asked.resolve(() => void response.writeHead(503).end("later"));
    };
    const answer = present(weather, header);
    const fail = await asked.promise;
    const { stdout } = await payments(site, "--json");
    const key = String(Object(JSON.parse(stdout)).payments[0].key);
    for (const verb of ["--refund", "--deliver"]) {
      const refused = await payments(site, "--resolve", key, verb);
      expect(refused).toMatchObject({
        code: 1,
        stderr: "not resolved: it is being delivered now\n",
      });
    }
    fail();
    expect(await answer).toMatchObject({ status: 503 });
    handler = busy;
    for (const _attempt of [2, 3]) expect((await present(weather, header)).status).toBe(503);
    handler = fine;
    const used = await present(weather, header);
    expect(used.error).toMatch(/each attempt to deliver it has failed/);
    expect(await payments(site, "--resolve", key, "--deliver")).toMatchObject({ code: 0 });
    expect(await present(weather, header)).toMatchObject({ status: 200, text: "fine" });
    expect(await served.end("SIGTERM")).toBe(0);
  });
});

test("a decision needs the whole key of a payment, and is one", async () => {
  await using site = await Site.create();
  const served = await start(site);
  const { transaction } = await overtaken(served);
  const key = await keyIn(site, transaction);
  for (const name of [transaction, key.slice(key.lastIndexOf("/") + 1), "none"]) {
    const refused = await payments(site, "--resolve", name, "--deliver");
    expect(refused).toMatchObject({ code: 1, stderr: "not resolved: no payment has this key\n" });
  }
  const wrong = [
    ["--resolve", key],
    ["--resolve", key, "--deliver", "--refund"],
    ["--resolve", key, "--deliver", "--held"],
    ["--deliver"],
    ["--note", "text"],
  ];
  for (const options of wrong) expect((await payments(site, ...options)).code).toBe(2);
  expect(await keyIn(site, transaction)).toBe(key);
  expect(await served.end("SIGTERM")).toBe(0);
});

/** What of a shop's replicas, of which each may have workers, is the same for all that share a ledger. */
function shopYaml(payTo: string, more = ""): string {
  return `
upstream: ${backendUrl}
payTo: "${payTo}"
accept: [base-sepolia]
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER], nativePrice: $3000 }
unmatched: deny
shutdown: 5s
${more}
routes:
  GET /weather: { price: $0.01, description: Weather }
  GET /news: { price: $0.01, description: News }
  GET /health: free
`;
}

/** Within which pauses and lists are heard of, workers and busy machines included, milliseconds. */
const SOON = { timeout: 10_000, interval: 50 };
/** Workers start one after the other, milliseconds. */
const START_MS = 60_000;

async function statusOf(served: Served, path = "/weather"): Promise<number> {
  const answer = await fetch(served.url + path);
  await answer.text();
  return answer.status;
}

describe.each([
  ["SQLite, with two workers", 1],
  ["PostgreSQL, two replicas of which one has workers", 2],
] as const)("on %s,", (_, replicas) => {
  test("what is paused is so for all replicas and after a restart, and nobody is charged", async () => {
    const store = replicas > 1 ? { store: await postgres.database() } : {};
    await using closing = new AsyncDisposableStack();
    const payTo = freshAccount().address;
    const sites: Site[] = [];
    const all: Served[] = [];
    for (let index = 0; index < replicas; index += 1) {
      const site = closing.use(await Site.create(store));
      const workers = index === 0 ? "workers: 2" : "";
      await site.write(shopYaml(payTo, `${workers}\npayers: { deny: denied.txt }`));
      if (index === 0) {
        const refused = await site.launch(env);
        expect(await refused.ended).toBe(78);
        expect(refused.output().stderr).toContain("the file cannot be read");
      }
      await writeFile(join(site.folder, "denied.txt"), "# nobody yet\n");
      all.push(await site.launch(env));
      sites.push(site);
    }
    for (const served of all) await served.untilReady(200, START_MS);
    const [first, last] = [all[0], all.at(-1)];
    const [site] = sites;
    if (first === undefined || last === undefined || site === undefined) throw new Error("none");
    const command = (...words: readonly string[]): Promise<Finished> => {
      const [name = "", ...options] = words;
      return runHere([name, site.file, ...options], env);
    };
    const buyer = await richBuyer(chain);
    const signed = await sign(buyer, `${last.url}/weather`);

    const paused = await command("pause", "GET /weather", "--for", "2h", "--reason", "a leak");
    expect(paused.stdout).toMatch(
      /^route GET \/weather is paused until .* by operator .*: a leak\n$/,
    );
    for (const served of all) {
      await expect.poll(() => statusOf(served), SOON).toBe(503);
      expect(await statusOf(served, "/news")).toBe(402);
      expect(await statusOf(served, "/health")).toBe(200);
      expect(await served.untilReady()).toMatch(/route GET \/weather: paused until .*: a leak/);
      const listed = await (await fetch(`${served.url}/.well-known/x402`)).text();
      expect(listed).not.toContain("/weather");
    }
    const answer = await fetch(`${last.url}/weather`, { headers: { "X-PAYMENT": signed } });
    expect(answer.status).toBe(503);
    expect(Number(answer.headers.get("Retry-After"))).toBeGreaterThan(7_000);
    expect(Object(await answer.json()).error).toMatch(/not for sale .* nothing was charged/);

    expect((await command("pause", "base-sepolia")).code).toBe(0);
    for (const served of all) await expect.poll(() => statusOf(served, "/news"), SOON).toBe(503);
    const metrics = await (await fetch(`${first.adminUrl}/metrics`)).text();
    expect(metrics).toContain(
      'coinslot_network_closed_reason{network="base-sepolia",reason="paused"} 1',
    );
    expect(metrics).toContain(
      'coinslot_sales_stopped{scope="route GET /weather",reason="paused"} 1',
    );
    expect(await first.end("SIGTERM")).toBe(0);
    const next = await site.launch(env);
    await next.untilReady(200, START_MS);
    expect(await statusOf(next, "/news")).toBe(503);

    const told = await command("resume", "base-sepolia", "--json");
    const paper = JSON.parse(told.stdout) as { paused: { scope: string }[] };
    expect(paper.paused.map(({ scope }) => scope)).toEqual(["route GET /weather"]);
    expect((await command("resume", "base-sepolia")).stderr).toMatch(/is not paused/);
    expect((await command("resume")).stdout).toBe("nothing is paused\n");
    const sellers = replicas > 1 ? [next, last] : [next];
    for (const served of sellers) await expect.poll(() => statusOf(served), SOON).toBe(402);
    const seller = sellers.at(-1) ?? next;
    expect(await present(`${seller.url}/weather`, signed)).toMatchObject({ status: 200 });
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);

    // Whoever comes onto the list while it runs is not sold to any more; what is no list changes nothing.
    const list = join(sites.at(-1)?.folder ?? "", "denied.txt");
    await writeFile(list, `${buyer.address},why\n`);
    const news = `${seller.url}/news`;
    const another = await sign(buyer, news);
    const output = (): string => seller.output().stdout;
    await expect.poll(output, SOON).toContain("a file that it names has changed");
    expect((await present(news, another)).status).toBe(403);
    await writeFile(list, "torn\n0x12");
    await expect.poll(output, SOON).toContain("line 2 of the file is no EVM address");
    expect((await present(news, another)).status).toBe(403);
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);
    for (const served of sellers) expect(await served.end("SIGTERM")).toBe(0);
  });
});

test("what is no scope, and a ledger that is not there, are told", async () => {
  await using site = await Site.create();
  await site.write(shopYaml(freshAccount().address));
  const paused = await runHere(["pause", site.file, "GET /nothing"], env);
  expect(paused).toMatchObject({ code: 1, stdout: "" });
  expect(paused.stderr).toContain("there is no ledger at");
  const served = await site.launch(env);
  await served.untilReady();
  const unknown = await runHere(["pause", site.file, "GET /nothing"], env);
  expect(unknown.stderr).toContain("neither a priced route nor a network");
  expect((await runHere(["pause", site.file, "GET /health"], env)).code).toBe(1);
  expect((await runHere(["pause", site.file, "all", "--for", "soon"], env)).code).toBe(2);
  const shown = await runHere(["pause", site.file], env);
  expect(shown).toEqual({ code: 0, stdout: "nothing is paused\n", stderr: "" });
  expect(await served.end("SIGTERM")).toBe(0);
});
