/** `coinslot payments --resolve`, beside a running gateway and without one, on both stores. */
import { createServer, type RequestListener, type Server } from "node:http";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { present, richBuyer, sign } from "../../support/buyer.ts";
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
