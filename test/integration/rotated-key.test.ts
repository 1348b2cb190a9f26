/** A key that is taken out of the configuration while its payments are in the air: they end as if it were there. */
import { createServer, type Server } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import { present, PURSE, richBuyer, sign } from "../support/buyer.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { freshAccount } from "../support/payer.ts";
import { startPostgres, type PostgresServer } from "../support/postgres.ts";
import { runCoinslot, Site, type Served } from "../support/serve.ts";

/** Gateways are processes that are started and ended several times, on a machine that may be busy. */
const TIMEOUT_MS = 60_000;
const PRICE = 10_000n;
const NETWORK = "base-sepolia";

let chain: Chain;
let postgres: PostgresServer;
let backend: Server;
let backendUrl: string;
let served = 0;
const [oldKey, newKey, payee] = [freshAccount(), freshAccount(), freshAccount()];
const env = { OLD: oldKey.privateKey, NEW: newKey.privateKey };

beforeAll(async () => {
  [chain, postgres] = await Promise.all([startChain(), startPostgres()]);
  for (const { address } of [oldKey, newKey]) await chain.fund(address, 0n, 10n ** 18n);
  backend = createServer((_request, response) => {
    served += 1;
    response.end("fine");
  });
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  backendUrl = `http://127.0.0.1:${port}`;
}, TIMEOUT_MS);

afterAll(async () => {
  await Promise.all([chain.stop(), postgres.stop(), drain(backend, AbortSignal.timeout(1_000))]);
});

beforeEach(() => {
  served = 0;
});

afterEach(async () => {
  await chain.rpc("evm_setAutomine", [true]);
  await chain.mine();
});

function yaml(facilitator: string): string {
  return `
upstream: ${backendUrl}
payTo: "${payee.address}"
accept: [${NETWORK}]
facilitator: ${facilitator}
unmatched: deny
shutdown: 1s
routes:
  GET /weather: { price: $0.01, description: Weather }
  GET /health: free
`;
}

function signedBy(...signers: readonly string[]): string {
  const keys = signers.map((name) => `env:${name}`).join(", ");
  return yaml(
    `{ embedded: { networks: { ${NETWORK}: { rpc: ["${chain.rpcUrl}"], signers: [${keys}] } } } }`,
  );
}

/** Somebody else's facilitator, which nobody reaches; the chain can be asked. */
function settledElsewhere(): string {
  return yaml(`{ remote: [http://127.0.0.1:1], rpc: { ${NETWORK}: ["${chain.rpcUrl}"] } }`);
}

interface InTheAir {
  readonly header: string;
  readonly buyer: Awaited<ReturnType<typeof richBuyer>>;
}

/** One payment that is sent and in no block. */
async function pay({ url }: Served): Promise<InTheAir & { readonly answer: Promise<unknown> }> {
  const buyer = await richBuyer(chain);
  const header = await sign(buyer, `${url}/weather`);
  await chain.rpc("evm_setAutomine", [false]);
  const answer = present(`${url}/weather`, header).catch(() => "lost");
  while (Object(await chain.rpc("txpool_status")).pending === "0x0") await turn();
  return { header, buyer, answer };
}

/** A gateway with the old key, ended in order while its payment is in the air. */
async function leave(site: Site, end: NodeJS.Signals = "SIGTERM"): Promise<InTheAir> {
  const before = await site.serve(signedBy("OLD"), env);
  await before.untilReady();
  const { answer, ...inTheAir } = await pay(before);
  await before.end(end);
  await answer;
  return inTheAir;
}

async function includeAll(): Promise<void> {
  await chain.rpc("evm_setAutomine", [true]);
  await chain.mine();
}

/** The same payment is presented again: it was charged once, and is delivered. */
async function expectDelivered({ url }: Served, { header, buyer }: InTheAir): Promise<void> {
  expect(await present(`${url}/weather`, header)).toMatchObject({
    status: 200,
    text: "fine",
    receipt: { success: true },
  });
  expect(served).toBe(1);
  expect(await chain.balanceOf(buyer.address)).toBe(PURSE - PRICE);
}

const recover = (site: Site, ...options: readonly string[]) =>
  runCoinslot(["recover", site.file, ...options], env);

describe.each([
  ["SQLite", async () => Site.create()],
  ["PostgreSQL", async () => Site.create({ store: await postgres.database() })],
] as const)("a payment of a rotated key, on %s,", { timeout: TIMEOUT_MS }, (_, createSite) => {
  test("is delivered by the gateway with another key, and named when it starts", async () => {
    await using site = await createSite();
    const paid = await leave(site);
    await includeAll();
    const after = await site.serve(signedBy("NEW"), env);
    await after.untilReady();
    await expectDelivered(after, paid);
    const lines = logOf(after).split("\n");
    const named = lines.filter((line) => line.includes("an account whose key is not in this"));
    expect(named).toHaveLength(1);
    expect(named[0]).toContain(oldKey.address);
    expect(named[0]).toContain(NETWORK);
    expect(await after.end("SIGTERM")).toBe(0);
    expect(await recover(site)).toMatchObject({ code: 0, stdout: "0 resolved, 0 left\n" });
  });

  test("that the chain forgot is sent again from the stored bytes", async () => {
    await using site = await createSite();
    const paid = await leave(site, "SIGKILL");
    await chain.rpc("anvil_dropAllTransactions");
    await chain.rpc("evm_setAutomine", [true]);
    const after = await site.serve(signedBy("NEW"), env);
    await after.untilReady();
    await expectDelivered(after, paid);
  });

  test("is resolved by `recover`, which names the key", async () => {
    await using site = await createSite();
    await leave(site);
    await site.write(signedBy("NEW"));
    const early = await recover(site, "--timeout", "2s");
    expect(early.code).toBe(1);
    const [warning, left] = early.stdout.split("\n");
    const warned = `^warning {5}${NETWORK}, ${oldKey.address}: 1 open, the oldest of 20\\S+Z: .*put the key back`;
    expect(warning).toMatch(new RegExp(warned));
    expect(left).toMatch(/^unresolved .*the chain has not decided it yet; .*put the key back/);

    await includeAll();
    const late = await recover(site);
    expect(late.code).toBe(0);
    expect(late.stdout).toMatch(/\nsettled {5}in 0x[0-9a-f]{64}; .*\n1 resolved, 0 left\n$/);
    expect(await recover(site)).toMatchObject({ code: 0, stdout: "0 resolved, 0 left\n" });
  });
});

describe("a network that is settled elsewhere by now", { timeout: TIMEOUT_MS }, () => {
  test("has the payments that we signed delivered all the same", async () => {
    await using site = await Site.create();
    const paid = await leave(site, "SIGKILL");
    await chain.rpc("anvil_dropAllTransactions");
    await chain.rpc("evm_setAutomine", [true]);
    const after = await site.serve(settledElsewhere(), env);
    await after.untilReady();
    await expectDelivered(after, paid);
    expect(logOf(after)).toContain(oldKey.address);
  });

  test("is resolved by `recover` through facilitator.rpc, and says so where there is none", async () => {
    await using site = await Site.create();
    await leave(site);
    await includeAll();
    await site.write(yaml("{ remote: [http://127.0.0.1:1] }"));
    const blind = await recover(site, "--timeout", "1s");
    expect(blind.code).toBe(1);
    const advice = `facilitator.rpc.${NETWORK}`;
    expect(blind.stdout).toMatch(
      new RegExp(`^warning {5}${NETWORK}, ${oldKey.address}: 1 open, .*nobody looks.*${advice}\n`),
    );
    expect(blind.stdout).toMatch(
      new RegExp(`\nunresolved .*with ${advice} the chain can be asked\n`),
    );

    await site.write(settledElsewhere());
    const seeing = await recover(site);
    expect(seeing.code).toBe(0);
    expect(seeing.stdout).toMatch(/\n1 resolved, 0 left\n$/);
  });
});

describe("two replicas, one of them with the key,", { timeout: TIMEOUT_MS }, () => {
  test("leave the account to the one that has it, whenever that comes", async () => {
    const store = await postgres.database();
    await using keyless = await Site.create({ store });
    await using keyed = await Site.create({
      store,
      publicUrl: `http://127.0.0.1:${keyless.port}`,
    });
    const paid = await leave(keyless);
    const without = await keyless.serve(signedBy("NEW"), env);
    await without.untilReady();
    await untilSaid(without, "an account whose key is not in this configuration");
    const having = await keyed.serve(signedBy("OLD"), env);
    await having.untilReady();
    // It signs with its account at once, although the other one watches what was left.
    const other = await pay(having);
    await includeAll();
    expect(await other.answer).toMatchObject({ status: 200 });
    served = 0;
    await expectDelivered(without, paid);
    expect(logOf(having)).not.toContain("whose key is not in this configuration");
  });
});

async function untilSaid(gateway: Served, said: string): Promise<void> {
  while (!logOf(gateway).includes(said)) await turn();
}

function logOf({ output }: Served): string {
  return output().stdout;
}
