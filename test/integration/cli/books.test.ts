/** `coinslot books` beside a gateway that sells on a real chain: its sums are what the chain says has moved. */
import { createServer } from "node:http";
import { DatabaseSync, type SQLInputValue } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { richBuyer } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freshAccount } from "../../support/payer.ts";
import { purchase } from "../../support/purchase.ts";
import { Site, type Served } from "../../support/serve.ts";
import { runHere } from "./run-here.ts";

const ETHER = 10n ** 18n;

describe("the books of a gateway", () => {
  const closing = new AsyncDisposableStack();
  const [signer, payee] = [freshAccount(), freshAccount().address];
  const env = { KEY: signer.privateKey };
  let chain: Chain;
  let site: Site;
  let served: Served;

  beforeAll(async () => {
    chain = await startChain();
    closing.defer(() => chain.stop());
    await chain.fund(signer.address, 0n, ETHER);
    const backend = createServer((_, response) => void response.end("sold"));
    const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
    closing.defer(() => drain(backend, AbortSignal.timeout(1_000)));
    site = closing.use(await Site.create());
    served = await site.serve(
      `upstream: http://127.0.0.1:${port}
payTo: "${payee}"
accept: [base-sepolia]
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ["${chain.rpcUrl}"], signers: [env:KEY], nativePrice: $2500 }
routes:
  GET /weather/:city: $0.01
  GET /reports/*: $0.25
unmatched: deny
`,
      env,
    );
    await served.untilReady();
    const buy = async (path: string): Promise<void> => {
      const { privateKey: key } = await richBuyer(chain);
      expect((await purchase({ kind: "evm", key }, served.url + path)).status).toBe(200);
    };
    await Promise.all([buy("/weather/oslo"), buy("/weather/rome"), buy("/reports/1")]);
    await buy("/reports/2");
  });

  afterAll(() => closing.disposeAsync());

  const books = (...words: readonly string[]) => runHere(["books", site.file, ...words], env);

  test("say by route what payees got and gas cost, to the last unit of both", async () => {
    await expect
      .poll(() => gasOf(books), { timeout: 20_000 })
      .toBe(ETHER - (await balance(chain, signer.address)));
    const { lines } = await read(books);
    const sold = lines.filter(({ account }) => account === "sales");
    expect(sold.map(({ group, credit, payments }) => [group["route"], credit, payments])).toEqual([
      ["GET /reports/*", "0.5", 2],
      ["GET /weather/:city", "0.02", 2],
    ]);
    const paid = lines.filter(({ account }) => account === "payees");
    expect(sum(paid, "debitAtomic")).toBe(await chain.balanceOf(payee));
    const gas = lines.filter(({ account }) => account === "gas");
    expect(gas.map(({ group }) => group["route"])).toEqual([
      "GET /reports/*",
      "GET /weather/:city",
    ]);
    for (const { debitAtomic, dollars } of gas) {
      // At $2500 for a whole one.
      const attodollars = Math.round(Number(dollars) * 1e18);
      expect(attodollars / (Number(debitAtomic) * 2500)).toBeCloseTo(1, 6);
    }
  });

  test("are told to people, and to spreadsheets", async () => {
    const { code, stdout, stderr } = await books("--by", "month,payee");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(
      /^from \d{4}-\d\d-01 to \d{4}-\d\d-\d\d, UTC\nMONTH +PAYEE +ACCOUNT +DEBIT/,
    );
    expect(stdout).toContain(payee);
    expect(stdout).toContain("USDC on base-sepolia: balanced\n");
    expect(stdout).toContain("ETH on base-sepolia: balanced\n");
    const csv = await books("--format", "csv", "--by", "route");
    const [head, ...rows] = csv.stdout.trimEnd().split("\r\n");
    expect(head).toBe(
      "route,account,network,asset,symbol,payments,debitAtomic,creditAtomic,debit,credit,dollars",
    );
    expect(rows).toHaveLength(8);
    const none = await books("--from", "2001-01-01", "--to", "2001-02-01");
    expect(none.stdout).toBe(
      "from 2001-01-01 to 2001-02-01, UTC\nnothing was paid on those days\n",
    );
  });

  test("are held against the chain, and what differs is listed", async () => {
    const agreed = await books("--verify");
    expect({ code: agreed.code, stderr: agreed.stderr }).toEqual({
      code: 0,
      stderr: `held against the chains: 4 payments and the cost of ${costs(site)} transactions are as told\n`,
    });
    expect(agreed.stdout).toContain("USDC on base-sepolia: balanced\n");

    // What somebody has done to the ledger since.
    using ledger = new DatabaseSync(site.store.replace(/^sqlite:/, ""));
    const rows = ledger.prepare("SELECT payment_key AS key FROM payments ORDER BY key").all();
    const [dearer, misled, none] = rows.map(({ key }) => String(key));
    const change = (sql: string, ...values: readonly SQLInputValue[]) =>
      ledger.prepare(sql).run(...values);
    change("UPDATE payments SET amount_atomic = '990000' WHERE payment_key = ?", dearer ?? "");
    const elsewhere = `0x${"12".repeat(32)}`;
    const to = "UPDATE payments SET settled_transaction = ? WHERE payment_key = ?";
    change(to, elsewhere, misled ?? "");
    const payer = `0x${"34".repeat(20)}`;
    const unpaid = `UPDATE payments SET request = json_replace(request,
      '$.paymentPayload.payload.authorization.from', ?) WHERE payment_key = ?`;
    change(unpaid, payer, none ?? "");
    const [submission] = ledger.prepare("SELECT id FROM submissions LIMIT 1").all();
    const cheaper = "UPDATE submissions SET cost = json_set(cost, '$.feeAtomic', '1') WHERE id = ?";
    change(cheaper, submission?.["id"] ?? "");

    const { code, stdout, stderr } = await books("--verify", "--json");
    expect({ code, stderr }).toEqual({ code: 1, stderr: "" });
    const { verification } = JSON.parse(stdout);
    expect(verification).toMatchObject({ payments: 1, swept: 0, unchecked: [] });
    const told = verification.differences.map(({ name, detail }: Record<string, string>) => [
      name,
      detail,
    ]);
    expect(Object.fromEntries(told)).toEqual({
      [dearer ?? ""]: expect.stringMatching(
        /^stands there as 990000 of 0x\w+ to 0x\w+, and was signed as/,
      ),
      [misled ?? ""]: expect.stringMatching(
        `^stands there as paid in ${elsewhere}, and was paid in 0x`,
      ),
      [none ?? ""]: expect.stringMatching(
        /^stands there as paid in 0x\w+: the authorization is not used/,
      ),
      [String(submission?.["id"])]: expect.stringMatching(
        /^stands there at 1, and has cost \d{9,}$/,
      ),
    });
    expect((await books("--verify")).stderr).toContain(
      `DIFFERS: payment ${misled} on base-sepolia: `,
    );

    await chain.stop();
    const alone = await books("--verify");
    expect(alone.code).toBe(1);
    expect(alone.stderr).toMatch(/^held against the chains: 0 payments/);
    expect(alone.stderr.match(/^not checked: /gm)).toHaveLength(3 + costs(site));
  });

  test("say what is wrong with what they are asked", async () => {
    for (const [words, said] of [
      [["--from", "2026-02-30"], "A day is written as 2026-08-01."],
      [
        ["--from", "2026-02-03", "--to", "2026-02-01"],
        "--from 2026-02-03 comes after --to 2026-02-01",
      ],
      [["--by", "colour"], "Lines are told apart by day, month, route, payee, network, asset."],
    ] as const) {
      const { code, stderr } = await books(...words);
      expect(code).toBe(2);
      expect(stderr).toContain(said);
    }
  });
});

/** Submissions whose cost is known. */
function costs({ store }: Site): number {
  using ledger = new DatabaseSync(store.replace(/^sqlite:/, ""), { readOnly: true });
  const row = ledger.prepare("SELECT count(*) AS n FROM submissions WHERE cost IS NOT NULL").get();
  return Number(row?.["n"]);
}

interface Line {
  readonly group: Readonly<Record<string, string>>;
  readonly account: string;
  readonly payments: number;
  readonly debitAtomic: string;
  readonly creditAtomic: string;
  readonly credit: string;
  readonly dollars: string | null;
}

async function read(
  books: (...words: readonly string[]) => ReturnType<typeof runHere>,
): Promise<{ readonly lines: readonly Line[] }> {
  const { code, stdout, stderr } = await books("--format", "json");
  expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
  return JSON.parse(stdout);
}

async function gasOf(books: Parameters<typeof read>[0]): Promise<bigint> {
  const { lines } = await read(books);
  return sum(
    lines.filter(({ account }) => account === "gas"),
    "debitAtomic",
  );
}

function sum(lines: readonly Line[], side: "debitAtomic" | "creditAtomic"): bigint {
  return lines.reduce((total, line) => total + BigInt(line[side]), 0n);
}

async function balance(chain: Chain, address: string): Promise<bigint> {
  return BigInt(String(await chain.rpc("eth_getBalance", [address, "latest"])));
}
