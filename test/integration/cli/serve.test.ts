/** What `coinslot serve` says at its start, and what its gauges show, on a real chain and database. */
import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startChain, type Chain } from "../../support/chain.ts";
import { freshAccount } from "../../support/payer.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { runCoinslot, Site } from "../../support/serve.ts";
import { readScrape } from "../../unit/telemetry/scrape.ts";

const TIMEOUT_MS = 60_000;
const PASSWORD = "correct-horse";

let chain: Chain;
let postgres: PostgresServer;
const signers = [freshAccount(), freshAccount()] as const;
const env = { FIRST_KEY: signers[0].privateKey, SECOND_KEY: signers[1].privateKey };

beforeAll(async () => {
  [chain, postgres] = await Promise.all([startChain(), startPostgres()]);
  await chain.fund(signers[0].address, 0n, 10n ** 18n);
  await chain.fund(signers[1].address, 0n, 5n * 10n ** 17n);
});

afterAll(async () => {
  await Promise.all([chain.stop(), postgres.stop()]);
});

async function gauge(adminUrl: string, name: string): Promise<Record<string, number>> {
  const { samples } = readScrape(await (await fetch(`${adminUrl}/metrics`)).text());
  return Object.fromEntries(
    samples
      .filter((sample) => sample.name === name)
      .map(({ labels, value }) => [Object.values(labels).sort().join(" "), value]),
  );
}

/** A pattern of what a wallet is said to have. */
function funds(amount: string): string {
  return `has ${amount} ETH, a settlement costs 0\\.\\d+ ETH: enough for \\d+`;
}

test(
  "serve uses every signer and endpoint, warns of losses, and hides the database's password",
  { timeout: TIMEOUT_MS },
  async () => {
    const store = await postgres.database();
    await using site = await Site.create({ store });
    const { port } = new URL(chain.rpcUrl);
    const yaml = `
upstream: http://127.0.0.1:1
payTo: "${freshAccount().address}"
accept: [base-sepolia]
facilitator:
  embedded:
    networks:
      base-sepolia:
        rpc: ["http://127.0.0.1:${port}", "http://localhost:${port}"]
        signers: [env:FIRST_KEY, env:SECOND_KEY]
        nativePrice: $3000000000
unmatched: deny
routes:
  GET /weather: { price: $0.01, description: Weather }
  GET /dear: { price: $1000000000, description: Dear }
`;
    const served = await site.serve(yaml, env);
    await served.untilReady();

    const { stdout, stderr } = served.output();
    expect(stderr).toMatch(/^ {2}store +postgres 127\.0\.0\.1:\d+\/test_1$/m);
    expect(stderr).toMatch(
      new RegExp(
        `^ {2}base-sepolia +settled here, .*, rpc 127.0.0.1:${port}, localhost:${port},`,
        "m",
      ),
    );
    const [first, second] = signers.map(({ address }) => address);
    expect(stderr).toMatch(new RegExp(`${first}  key from env:FIRST_KEY  ${funds("1")}$`, "m"));
    expect(stderr).toMatch(new RegExp(`${second}  key from env:SECOND_KEY  ${funds("0.5")}$`, "m"));
    expect(stderr).toMatch(
      /^ {2}base-sepolia +GET \/weather earns \$0\.01, its settlement alone costs about \$\d+(\.\d+)? of gas \(0\.\d+ ETH at \$3000000000\)$/m,
    );
    expect(stderr).not.toContain("GET /dear earns");
    expect(stdout + stderr).not.toContain(PASSWORD);

    await expect
      .poll(() => gauge(served.adminUrl, "coinslot_wallet_balance"))
      .toEqual({ [`${first} base-sepolia`]: 1, [`${second} base-sepolia`]: 0.5 });
    const left = await gauge(served.adminUrl, "coinslot_wallet_settlements_left");
    expect(Object.values(left).every((count) => count > 1_000 && Number.isInteger(count))).toBe(
      true,
    );
    expect(await gauge(served.adminUrl, "coinslot_rpc_endpoint_healthy")).toEqual({
      [`127.0.0.1:${port} base-sepolia`]: 1,
      [`base-sepolia localhost:${port}`]: 1,
    });
    for (const what of ["unresolved", "undelivered", "offered"]) {
      expect(await gauge(served.adminUrl, `coinslot_payments_${what}`)).toEqual({ "": 0 });
    }
    expect(await served.end("SIGTERM")).toBe(0);
    expect(served.output().stdout).not.toContain(PASSWORD);
  },
);

const FREE = `
upstream: http://127.0.0.1:1
unmatched: deny
routes: { GET /free: free }
`;

test("serve says what to do where an address is taken, or is not this machine's", async () => {
  await using site = await Site.create();
  const squatter = createServer().listen(site.port, "127.0.0.1");
  await once(squatter, "listening");
  try {
    const taken = await site.serve(FREE, {});
    expect(await taken.ended).toBe(1);
    expect(taken.output().stderr).toContain(
      `could not start: listen EADDRINUSE: address already in use 127.0.0.1:${site.port}\n  another process listens there`,
    );
  } finally {
    squatter.close();
  }
  const file = `${site.folder}/elsewhere.yaml`;
  const own = `listen: 192.0.2.1:1\npublicUrl: http://localhost:1\nstore: sqlite:${site.folder}/other.db\n`;
  await writeFile(file, own + FREE);
  const { code, stderr } = await runCoinslot(["serve", file]);
  expect([code, stderr]).toEqual([1, expect.stringContaining("this machine has no such address")]);
});

test("serve names the ledger that it cannot open, and who says what to do", async () => {
  await using site = await Site.create();
  const path = `${site.folder}/text.db`;
  await writeFile(path, "no database, and longer than a header".repeat(40));
  const file = `${site.folder}/text.yaml`;
  await writeFile(
    file,
    `listen: 127.0.0.1:${site.port}\npublicUrl: http://localhost:1\nstore: sqlite:${path}\n${FREE}`,
  );
  const { code, stderr } = await runCoinslot(["serve", file]);
  expect([code, stderr]).toEqual([
    1,
    expect.stringContaining(
      `file is not a database (${path})\n  coinslot doctor ${file} says what is wrong`,
    ),
  ]);
});
