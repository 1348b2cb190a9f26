/** `coinslot recover` as a program: after a crash, beside a running gateway, and where nothing helps. */
import { randomUUID } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import { present, PURSE, richBuyer, sign } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freshAccount } from "../../support/payer.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { runCoinslot, Site, type Finished } from "../../support/serve.ts";
import type { ExamplePayment } from "../../unit/ledger/example-payment.ts";
import { ACCOUNT, MinuteTime, prepare, type Prepared } from "./prepared-ledger.ts";

/** Each test runs the program several times, on a machine that may be busy. */
const TIMEOUT_MS = 60_000;

let chain: Chain;
let postgres: PostgresServer;
let backend: Server;
let backendUrl: string;
const signer = freshAccount();
const payee = freshAccount();
const env = { SIGNER: signer.privateKey };

beforeAll(async () => {
  [chain, postgres] = await Promise.all([startChain(), startPostgres()]);
  await chain.fund(signer.address, 0n, 10n ** 18n);
  backend = createServer((_request, response) => void response.end("fine"));
  const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
  backendUrl = `http://127.0.0.1:${port}`;
});

afterAll(async () => {
  await chain.rpc("evm_setAutomine", [true]);
  await Promise.all([chain.stop(), postgres.stop(), drain(backend, AbortSignal.timeout(1_000))]);
});

function yaml(): string {
  return `
upstream: ${backendUrl}
payTo: "${payee.address}"
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
}

function recover(site: Site, ...options: readonly string[]): Promise<Finished> {
  return runCoinslot(["recover", join(site.folder, "gateway.yaml"), ...options], env);
}

function named({ key }: ExamplePayment): string {
  return `0.01 USDC on base-sepolia, GET /weather, ${key}`;
}

/** A gateway whose chain makes no blocks, with one payment that it has sent. */
async function startWithUnresolved(site: Site) {
  const served = await site.serve(yaml(), env);
  await served.untilReady();
  const buyer = await richBuyer(chain);
  const header = await sign(buyer, `${served.url}/weather`);
  await chain.rpc("evm_setAutomine", [false]);
  const answer = present(`${served.url}/weather`, header).catch(() => "lost");
  while (Object(await chain.rpc("txpool_status")).pending === "0x0") await turn();
  return { served, buyer, header, answer };
}

describe.each([
  ["SQLite", async () => Site.create()],
  ["PostgreSQL", async () => Site.create({ store: await postgres.database() })],
] as const)("recover on %s", { timeout: TIMEOUT_MS }, (_, createSite) => {
  test("says what a crash left, and finds its outcome once the chain goes on", async () => {
    await using site = await createSite();
    const { served, buyer, answer } = await startWithUnresolved(site);
    await served.end("SIGKILL");
    expect(await answer).toBe("lost");
    // The node forgets it too: only the bytes in the ledger can bring the settlement back.
    await chain.rpc("anvil_dropAllTransactions");

    const early = await recover(site, "--timeout", "2s");
    expect(early).toMatchObject({ code: 1, stderr: "" });
    expect(early.stdout).toMatch(
      /^unresolved {2}0\.01 USDC on base-sepolia, GET \/weather, base-sepolia\/0x\S+: the chain has not decided it yet; .*\n0 resolved, 1 left\n$/,
    );
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE);

    await chain.rpc("evm_setAutomine", [true]);
    await chain.mine();
    const late = await recover(site);
    expect(late).toMatchObject({ code: 0, stderr: "" });
    expect(late.stdout).toMatch(
      /^settled {5}in 0x[0-9a-f]{64}; {2}0\.01 USDC on base-sepolia, GET \/weather, .*\n1 resolved, 0 left\n$/,
    );
    expect(await chain.balanceOf(buyer.address)).toBe(PURSE - 10_000n);

    expect(await recover(site)).toEqual({ code: 0, stdout: "0 resolved, 0 left\n", stderr: "" });
  });
});

describe(
  "recover, of what a gateway with another configuration left,",
  { timeout: TIMEOUT_MS },
  () => {
    let folder: string;
    let prepared: Prepared;

    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), "coinslot-recover-"));
      const path = join(folder, "ledger.db");
      const time = new MinuteTime();
      const ledger = await openSqliteLedger({ path, time, life: randomUUID() });
      prepared = await prepare(ledger, time);
      await ledger.close();
    });

    afterEach(() => rm(folder, { recursive: true, force: true }));

    async function recoverWith(facilitator: string, exit: number): Promise<readonly string[]> {
      const file = join(folder, "gateway.yaml");
      // What can be resolved ends the wait.
      const patience = exit === 0 ? "45s" : "5s";
      await writeFile(file, `store: sqlite:./ledger.db\nfacilitator:\n${facilitator}`);
      const { code, stdout } = await runCoinslot(["recover", file, "--timeout", patience], env);
      expect(code).toBe(exit);
      return stdout.trimEnd().split("\n");
    }

    test("asks the chain where it can, and says whose key is missing", async () => {
      const facilitator = `
  listen: 127.0.0.1:0
  embedded:
    networks:
      base-sepolia: { rpc: ["${chain.rpcUrl}"], signers: [env:SIGNER] }
`;
      const [warning, ...lines] = await recoverWith(facilitator, 0);
      expect(warning).toMatch(
        `warning     base-sepolia, ${ACCOUNT}: 1 open, the oldest of 2025-08-01T12:04:00.000Z: `,
      );
      expect(lines.toSorted()).toEqual([
        "2 resolved, 0 left",
        expect.stringMatching(/^failed {6}invalid_\S+: .*; {2}/),
        expect.stringMatching(/^failed {6}invalid_\S+: .*; {2}/),
      ]);
      for (const payment of [prepared.handedOver, prepared.signed]) {
        expect(lines.filter((line) => line.endsWith(`;  ${named(payment)}`))).toHaveLength(1);
      }
    });

    test("says what would help where nothing can be asked", async () => {
      const lines = await recoverWith(
        `
  listen: 127.0.0.1:0
  remote: [http://127.0.0.1:1]
`,
        1,
      );

      const asked = "https://facilitator.example.com has not said for certain what became of it";
      expect(lines).toEqual([
        expect.stringMatching(
          /^warning {5}base-sepolia, 0x\S+: 1 open, .*: name one under facilitator\.rpc\.base-sepolia$/,
        ),
        `unresolved  ${named(prepared.handedOver)}: ${asked}; with facilitator.rpc.base-sepolia the chain can be asked`,
        `unresolved  ${named(prepared.signed)}: base-sepolia has no endpoint here; with facilitator.rpc.base-sepolia the chain can be asked`,
        "0 resolved, 2 left",
      ]);
    });
  },
);

test(
  "recover leaves the outcomes to a gateway with the ledger's file, and shows them",
  { timeout: TIMEOUT_MS },
  async () => {
    await using site = await Site.create();
    const { served, answer } = await startWithUnresolved(site);

    const beside = await recover(site);
    expect(beside.code).toBe(1);
    expect(beside.stderr).toMatch(/^coinslot recover: another process is using the ledger /);
    expect(beside.stdout).toMatch(
      /^the process that has the ledger open finds the outcomes by itself, every few seconds\nunresolved {2}0\.01 USDC on base-sepolia, GET \/weather, .*\n1 unresolved\n$/,
    );

    await chain.rpc("evm_setAutomine", [true]);
    await chain.mine();
    expect(await answer).toMatchObject({ status: 200 });
    const idle = await recover(site);
    expect(idle.code).toBe(0);
    expect(idle.stdout).toMatch(/\n0 unresolved\n$/);
    expect(await served.end("SIGTERM")).toBe(0);
  },
);
