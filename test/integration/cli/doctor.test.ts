/** `coinslot doctor` on real chains, a running gateway, proxies before it, and what can be wrong with each. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import { systemTime } from "../../../src/time/time.ts";
import { MULTICALL3_ADDRESS, startChain } from "../../support/chain.ts";
import { freshAccount } from "../../support/payer.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { DoctorShop, NOWHERE } from "./doctor-shop.ts";
import { about, fixOf, troubles, type DoctorStage } from "./doctor-stage.ts";
import { runHere } from "./run-here.ts";

let shop: DoctorShop;
let stage: DoctorStage;

beforeAll(async () => {
  shop = await DoctorShop.open();
  ({ stage } = shop);
});

afterAll(() => shop[Symbol.asyncDispose]());

describe("a gateway that runs well", () => {
  test("is found well, with what it is made of", async () => {
    const report = await stage.examine(shop.own(), shop.env);

    expect(troubles(report)).toEqual([]);
    expect(report).toMatchObject({ code: 0, ok: true });
    const host = new URL(shop.chain.rpcUrl).host;
    expect(about(report, /^base-sepolia rpc /)).toEqual([
      expect.stringMatching(/^ok answers in \d+ ms, chain 84532, head \d+ is \d+ s old$/),
    ]);
    expect(report.findings[0]?.subject).toBe(`base-sepolia rpc ${host}`);
    expect(about(report, /^base-sepolia token USDC$/)).toEqual([
      `ok ${shop.chain.asset} has 6 decimals, EIP-712 domain "USDC" "2", EIP-3009`,
    ]);
    expect(about(report, new RegExp(`^base-sepolia account ${shop.signer.address}$`))).toEqual([
      expect.stringMatching(
        /^ok key from env:SIGNER; has 1 ETH, a settlement costs 0\.\d+ ETH: enough for \d+$/,
      ),
    ]);
    expect(about(report, /payTo/)).toEqual(["ok is a plain account"]);
    expect(about(report, /^default /)).toEqual([
      expect.stringMatching(/^ok answers HTTP \(200 to HEAD \/\) in \d+ ms$/),
    ]);
    expect(about(report, /^store$/)).toEqual([
      expect.stringMatching(/: a gateway has it open; 0 unresolved, 0 paid and undelivered$/),
    ]);
    expect(about(report, /^publicUrl$/)).toEqual([
      expect.stringMatching(
        /^ok is this gateway: GET \/weather asks for what this file says, in \d+ ms$/,
      ),
      "ok no cache keeps the 402",
      "ok X-PAYMENT reaches the gateway",
      "ok PAYMENT-SIGNATURE reaches the gateway",
      "ok preflights of browsers reach the gateway",
    ]);
    expect(about(report, /official clients/)).toEqual([
      "ok all can pay for GET /weather, GET /reports/:id",
    ]);
    expect(report.clients).toContainEqual({
      route: "GET /weather",
      client: "@x402/fetch 2.27.0",
      wallet: { kind: "evm", chain: "base-sepolia" },
      pays: true,
      said: "pays in USDC on base-sepolia",
    });
  });

  test("is shown to people with a line for each finding, and no secret", async () => {
    const file = await stage.write("text.yaml", shop.own());
    const { code, stdout, stderr } = await runHere(["doctor", file], shop.env);

    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^networks\n {2}ok {4}base-sepolia rpc /);
    expect(stdout).toMatch(/\n\d+ ok, 0 to look at, 0 failed\n$/);
    expect(stdout).not.toContain("fix:");
    expect(stdout).not.toContain(shop.signer.privateKey.slice(2));
  });

  test("goes on serving while it is looked at, and nothing of it is kept", async () => {
    await stage.examine(shop.own(), shop.env);
    expect((await fetch(`${shop.served.adminUrl}/readyz`)).status).toBe(200);
    expect((await fetch(`${shop.served.url}/weather`)).status).toBe(402);
  });
});

const isLatest = ({ params }: { readonly params: readonly unknown[] }) => params[0] === "latest";

describe("RPC endpoints", () => {
  test("that are broken beside a good one are warned of, with the fix below", async () => {
    const report = await stage.examine(
      shop.with({ rpc: [`${NOWHERE}/v2/a-secret-key`, shop.chain.rpcUrl] }),
      shop.env,
    );

    expect(troubles(report)).toEqual([
      "warn base-sepolia rpc 127.0.0.1:1: refuses connections: nothing listens there",
    ]);
    expect(report).toMatchObject({ code: 0, ok: true });
    expect(fixOf(report, /refuses connections/)).toMatch(/correct or replace this endpoint/);
    expect(JSON.stringify(report)).not.toContain("a-secret-key");
    const file = await stage.write("strict.yaml", shop.with({ rpc: [NOWHERE, shop.chain.rpcUrl] }));
    const { code, stdout } = await runHere(["doctor", file, "--strict"], shop.env);
    expect(code).toBe(1);
    expect(stdout).toContain("        fix: correct or replace this endpoint");
  });

  test("that are all broken fail", async () => {
    const report = await stage.examine(shop.with({ rpc: [NOWHERE] }), shop.env);
    expect(report.code).toBe(1);
    expect(troubles(report)).toEqual([
      "fail base-sepolia rpc 127.0.0.1:1: refuses connections: nothing listens there",
    ]);
  });

  test("that serve another chain fail, and nothing else is asked of them", async () => {
    await using other = await startChain({ network: "polygon" });
    const report = await stage.examine(shop.with({ rpc: [other.rpcUrl] }), shop.env);
    const host = new URL(other.rpcUrl).host;
    expect(troubles(report)).toEqual([
      `fail base-sepolia rpc ${host}: ${host} serves chain 137, but base-sepolia is chain 84532`,
    ]);
  });

  test("that are behind the others, or have an old head, are warned of", async () => {
    await using proxy = await startRpcProxy(shop.chain.rpcUrl);
    await shop.chain.mine(20);
    const both = shop.with({ rpc: [shop.chain.rpcUrl, proxy.url] });
    const method = "eth_getBlockByNumber";
    const behind = proxy.inject({
      method,
      rewrite: (block) => ({ ...Object(block), number: "0x1" }),
    });
    expect(troubles(await stage.examine(both, shop.env))).toEqual([
      expect.stringMatching(/^warn base-sepolia rpc .*: is \d+ blocks behind another endpoint$/),
    ]);
    behind.lift();

    const timestamp = `0x${(Math.floor(Date.now() / 1000) - 3_600).toString(16)}`;
    const rewrite = (block: unknown) => ({ ...Object(block), timestamp });
    proxy.inject({ method, when: isLatest, times: 1, rewrite });
    const report = await stage.examine(shop.with({ rpc: [proxy.url] }), shop.env);
    expect(troubles(report)).toEqual([
      expect.stringMatching(/^warn base-sepolia rpc .*, head \d+ is 360\d s old$/),
    ]);
  });

  test("that say nothing fail when the time is up", async () => {
    const silent = await stage.serve(() => {});
    const file = await stage.write("silent.yaml", shop.with({ rpc: [silent] }));
    const { code, stdout } = await runHere(["doctor", file, "--timeout", "1s"], shop.env);
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /fail {2}base-sepolia rpc 127\.0\.0\.1:\d+: eth_chainId .*: no answer in the time/,
    );
  });
});

describe("accounts", () => {
  test("without a balance fail, and contracts that are paid are warned of", async () => {
    const wallet = await shop.chain.deployWallet(shop.signer.address);
    const poor = freshAccount();
    const report = await stage.examine(shop.with({ payTo: wallet }), {
      SIGNER: poor.privateKey,
    });
    expect(troubles(report)).toEqual([
      `fail base-sepolia account ${poor.address}: holds 0 ETH and cannot pay network fees; send it a little ETH`,
      `warn base-sepolia payTo ${wallet}: is a contract on this network`,
      expect.stringMatching(/^fail publicUrl: sells GET \/weather on other terms .*payTo is/),
    ]);
  });
});

const withOdd = (address: string): string => {
  const accept = `accept: [base-sepolia, { network: base-sepolia, asset: ODD, amount: "5" }]`;
  const domain = `eip712: { name: Odd, version: "1" }`;
  return `${shop.yaml().replace("accept: [base-sepolia]", accept)}
assets:
  ODD: { base-sepolia: { address: "${address}", decimals: 6, ${domain} } }
`;
};

/** Calls of a contract's function, by its selector. */
const calls = (selector: string) => (asked: { readonly params: readonly unknown[] }) =>
  String(Object(asked.params[0]).data).startsWith(`0x${selector}`);

describe("tokens", () => {
  test("that are none, or have another domain, fail; the others are fine beside them", async () => {
    const wallet = await shop.chain.deployWallet(shop.signer.address);
    const odd = await stage.examine(shop.own(shop.served.url, withOdd(wallet)), shop.env);
    expect(about(odd, /^base-sepolia token ODD$/)).toEqual([
      expect.stringMatching(/^fail .* has another EIP-712 domain than name "Odd", version "1"$/),
      expect.stringMatching(/^fail .* has 0 decimals, not 6$/),
    ]);
    expect(about(odd, /^base-sepolia token USDC$/)).toEqual([expect.stringMatching(/^ok /)]);
    expect(odd.code).toBe(1);

    const none = await stage.examine(
      shop.own(shop.served.url, withOdd(MULTICALL3_ADDRESS)),
      shop.env,
    );
    expect(about(none, /^base-sepolia token ODD$/)).toEqual([
      expect.stringContaining("has no DOMAIN_SEPARATOR(), so it is no EIP-3009 token"),
      expect.stringContaining("has no decimals, not 6"),
    ]);
  });

  test("without authorizations fail, and ones of another name are warned of", async () => {
    await using proxy = await startRpcProxy(shop.chain.rpcUrl);
    const text = shop.with({ rpc: [proxy.url] });
    const fault = { error: { code: 3, message: "execution reverted" } };
    const reverting = proxy.inject({ method: "eth_call", when: calls("e94a0102"), ...fault });
    expect(about(await stage.examine(text, shop.env), /token USDC$/)).toEqual([
      `fail ${shop.chain.asset} has no authorizationState, so no EIP-3009`,
    ]);
    reverting.lift();

    proxy.inject({ method: "eth_call", when: calls("95d89b41"), ...fault });
    expect(about(await stage.examine(text, shop.env), /token USDC$/)).toEqual([
      `warn ${shop.chain.asset} calls itself nothing, not USDC`,
    ]);
  });
});

describe("the store", () => {
  test("that nobody has open is told so, and a gateway that is not running is no failure", async () => {
    const store = `sqlite:${stage.folder}/new/ledger.db`;
    const text = shop.own(NOWHERE).replace(shop.site.store, store);
    const report = await stage.examine(text, shop.env);
    expect(about(report, /^store$/)).toEqual([
      expect.stringMatching(/^ok .*\/new\/ledger\.db does not exist yet; the gateway makes it$/),
    ]);
    expect(troubles(report)).toEqual([
      "warn publicUrl: refuses connections: nothing listens there; no gateway is running here",
    ]);
    expect(existsSync(`${stage.folder}/new`)).toBe(false);
  });

  test("that is no ledger fails", async () => {
    const path = await stage.write("broken.db", "no database, and longer than a header".repeat(40));
    const report = await stage.examine(
      shop.own().replace(shop.site.store, `sqlite:${path}`),
      shop.env,
    );
    expect(about(report, /^store$/)).toEqual([
      expect.stringMatching(/^fail .*broken\.db: no gateway/),
    ]);
  });

  test("of a newer version fails, since no gateway of this one can open it", async () => {
    const path = join(stage.folder, "newer.db");
    await (await openSqliteLedger({ path, time: systemTime, life: "newer" })).close();
    using database = new DatabaseSync(path);
    database.exec("PRAGMA user_version = 999");
    const text = shop.own().replace(shop.site.store, `sqlite:${path}`);
    const report = await stage.examine(text, shop.env);
    expect(about(report, /^store$/)).toEqual([
      expect.stringMatching(/^fail .*newer\.db: no gateway.* 999, newer than/),
    ]);
    expect(report.findings.find(({ subject }) => subject === "store")?.fix).toContain(
      "run the version that wrote it",
    );
  });
});

describe("the command", () => {
  test("explains a file that is refused, and exits 1", async () => {
    const file = await stage.write("bad.yaml", "rotues: {}\n");
    const { code, stdout, stderr } = await runHere(["doctor", file]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain('did you mean "routes"?');
  });

  test("shows its progress on a terminal, and nowhere else", async () => {
    const file = await stage.write("progress.yaml", shop.own());
    const before = Object.getOwnPropertyDescriptor(process.stderr, "isTTY");
    Object.defineProperty(process.stderr, "isTTY", { value: true, configurable: true });
    try {
      const { code, stderr } = await runHere(["doctor", file], shop.env);
      expect(code).toBe(0);
      expect(stderr).toContain("0 of 5 checks done; base-sepolia, default 127.0.0.1:");
      expect(stderr).toMatch(/4 of 5 checks done; [^,\r]+\r/);
      expect(stderr.endsWith("\r\u001b[K")).toBe(true);
    } finally {
      if (before === undefined) Reflect.deleteProperty(process.stderr, "isTTY");
      else Object.defineProperty(process.stderr, "isTTY", before);
    }
  });

  test("says its exit codes", async () => {
    const { code, stdout } = await runHere(["doctor", "--help"]);
    expect(code).toBe(0);
    expect(stdout).toContain("Exit codes: 0 nothing failed, 1 something did");
  });
});
