/** `coinslot doctor` on real chains, a running gateway, proxies before it, and what can be wrong with each. */
import { existsSync } from "node:fs";
import type { IncomingHttpHeaders } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { MULTICALL3_ADDRESS, startChain, type Chain } from "../../support/chain.ts";
import { freshAccount, type FreshAccount } from "../../support/payer.ts";
import { startRpcProxy } from "../../support/rpc-proxy.ts";
import { Site, type Served } from "../../support/serve.ts";
import { about, DoctorStage, fixOf, troubles, type ProxyChanges } from "./doctor-stage.ts";
import { runHere } from "./run-here.ts";

const NOWHERE = "http://127.0.0.1:1";

let chain: Chain;
let stage: DoctorStage;
let site: Site;
let served: Served;
let upstream: string;
let signer: FreshAccount;
let payee: string;
let env: Record<string, string>;

/** What the gateway runs with, but for listeners and store. */
function yaml(changes: { rpc?: readonly string[]; price?: string; payTo?: string } = {}): string {
  const { rpc = [chain.rpcUrl], price = "$0.01", payTo = payee } = changes;
  return `upstream: ${upstream}
payTo: "${payTo}"
accept: [base-sepolia]
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ${JSON.stringify(rpc)}, signers: [env:SIGNER] }
unmatched: deny
cors: true
logging: { level: fatal }
routes:
  GET /weather: { price: ${price}, description: Weather }
  GET /reports/:id: { price: $0.05, description: A report }
`;
}

/** The file of the running gateway as `doctor` reads it. */
function own(publicUrl = served.url, text = yaml()): string {
  return `publicUrl: ${publicUrl}\nstore: ${site.store}\n${text}`;
}

beforeAll(async () => {
  [chain, stage, site] = await Promise.all([startChain(), DoctorStage.open(), Site.create()]);
  signer = freshAccount();
  payee = freshAccount().address;
  env = { SIGNER: signer.privateKey };
  await chain.fund(signer.address, 0n, 10n ** 18n);
  upstream = await stage.serve((_, response) => response.end("sunny"));
  served = await site.serve(yaml(), env);
  await served.untilReady();
  await chain.mine();
});

afterAll(async () => {
  await site[Symbol.asyncDispose]();
  await stage.closing.disposeAsync();
  await chain.stop();
});

describe("a gateway that runs well", () => {
  test("is found well, with what it is made of", async () => {
    const report = await stage.examine(own(), env);

    expect(troubles(report)).toEqual([]);
    expect(report).toMatchObject({ code: 0, ok: true });
    const host = new URL(chain.rpcUrl).host;
    expect(about(report, /^base-sepolia rpc /)).toEqual([
      expect.stringMatching(/^ok answers in \d+ ms, chain 84532, head \d+ is \d+ s old$/),
    ]);
    expect(report.findings[0]?.subject).toBe(`base-sepolia rpc ${host}`);
    expect(about(report, /^base-sepolia token USDC$/)).toEqual([
      `ok ${chain.asset} has 6 decimals, EIP-712 domain "USDC" "2", EIP-3009`,
    ]);
    expect(about(report, new RegExp(`^base-sepolia account ${signer.address}$`))).toEqual([
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
      "ok preflights of browsers reach the gateway",
    ]);
    expect(about(report, /x402/)).toEqual([
      "ok pays in USDC on base-sepolia: GET /weather, GET /reports/:id",
      "ok pays in USDC on base-sepolia: GET /weather, GET /reports/:id",
      "ok pays in USDC on base-sepolia: GET /weather, GET /reports/:id",
    ]);
    expect(report.clients).toContainEqual({
      route: "GET /weather",
      client: "x402-fetch 1.2.0",
      wallet: { kind: "evm", chain: "base-sepolia" },
      pays: true,
      said: "pays in USDC on base-sepolia",
    });
  });

  test("is shown to people with a line for each finding, and no secret", async () => {
    const file = await stage.write("text.yaml", own());
    const { code, stdout, stderr } = await runHere(["doctor", file], env);

    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout).toMatch(/^networks\n {2}ok {4}base-sepolia rpc /);
    expect(stdout).toMatch(/\n\d+ ok, 0 to look at, 0 failed\n$/);
    expect(stdout).not.toContain("fix:");
    expect(stdout).not.toContain(signer.privateKey.slice(2));
  });

  test("goes on serving while it is looked at, and nothing of it is kept", async () => {
    await stage.examine(own(), env);
    expect((await fetch(`${served.adminUrl}/readyz`)).status).toBe(200);
    expect((await fetch(`${served.url}/weather`)).status).toBe(402);
  });
});

const isLatest = ({ params }: { readonly params: readonly unknown[] }) => params[0] === "latest";

describe("RPC endpoints", () => {
  test("that are broken beside a good one are warned of, with the fix below", async () => {
    const report = await stage.examine(
      own(served.url, yaml({ rpc: [`${NOWHERE}/v2/a-secret-key`, chain.rpcUrl] })),
      env,
    );

    expect(troubles(report)).toEqual([
      "warn base-sepolia rpc 127.0.0.1:1: refuses connections: nothing listens there",
    ]);
    expect(report).toMatchObject({ code: 0, ok: true });
    expect(fixOf(report, /refuses connections/)).toMatch(/correct or replace this endpoint/);
    expect(JSON.stringify(report)).not.toContain("a-secret-key");
    const file = await stage.write(
      "strict.yaml",
      own(served.url, yaml({ rpc: [NOWHERE, chain.rpcUrl] })),
    );
    const { code, stdout } = await runHere(["doctor", file, "--strict"], env);
    expect(code).toBe(1);
    expect(stdout).toContain("        fix: correct or replace this endpoint");
  });

  test("that are all broken fail", async () => {
    const report = await stage.examine(own(served.url, yaml({ rpc: [NOWHERE] })), env);
    expect(report.code).toBe(1);
    expect(troubles(report)).toEqual([
      "fail base-sepolia rpc 127.0.0.1:1: refuses connections: nothing listens there",
    ]);
  });

  test("that serve another chain fail, and nothing else is asked of them", async () => {
    await using other = await startChain({ network: "polygon" });
    const report = await stage.examine(own(served.url, yaml({ rpc: [other.rpcUrl] })), env);
    const host = new URL(other.rpcUrl).host;
    expect(troubles(report)).toEqual([
      `fail base-sepolia rpc ${host}: ${host} serves chain 137, but base-sepolia is chain 84532`,
    ]);
  });

  test("that are behind the others, or have an old head, are warned of", async () => {
    await using proxy = await startRpcProxy(chain.rpcUrl);
    await chain.mine(20);
    const both = own(served.url, yaml({ rpc: [chain.rpcUrl, proxy.url] }));
    const method = "eth_getBlockByNumber";
    const behind = proxy.inject({
      method,
      rewrite: (block) => ({ ...Object(block), number: "0x1" }),
    });
    expect(troubles(await stage.examine(both, env))).toEqual([
      expect.stringMatching(/^warn base-sepolia rpc .*: is \d+ blocks behind another endpoint$/),
    ]);
    behind.lift();

    const timestamp = `0x${(Math.floor(Date.now() / 1000) - 3_600).toString(16)}`;
    const rewrite = (block: unknown) => ({ ...Object(block), timestamp });
    proxy.inject({ method, when: isLatest, times: 1, rewrite });
    const report = await stage.examine(own(served.url, yaml({ rpc: [proxy.url] })), env);
    expect(troubles(report)).toEqual([
      expect.stringMatching(/^warn base-sepolia rpc .*, head \d+ is 360\d s old$/),
    ]);
  });

  test("that say nothing fail when the time is up", async () => {
    const silent = await stage.serve(() => {});
    const file = await stage.write("silent.yaml", own(served.url, yaml({ rpc: [silent] })));
    const { code, stdout } = await runHere(["doctor", file, "--timeout", "1s"], env);
    expect(code).toBe(1);
    expect(stdout).toMatch(/fail {2}base-sepolia rpc 127\.0\.0\.1:\d+: eth_chainId .*abandoned/);
  });
});

describe("accounts", () => {
  test("without a balance fail, and contracts that are paid are warned of", async () => {
    const wallet = await chain.deployWallet(signer.address);
    const poor = freshAccount();
    const report = await stage.examine(own(served.url, yaml({ payTo: wallet })), {
      SIGNER: poor.privateKey,
    });
    expect(troubles(report)).toEqual([
      `fail base-sepolia account ${poor.address}: base-sepolia: ${poor.address} holds 0 ETH and cannot pay network fees`,
      `warn base-sepolia payTo ${wallet}: is a contract on this network`,
      expect.stringMatching(/^fail publicUrl: sells GET \/weather on other terms .*payTo is/),
    ]);
  });
});

const withOdd = (address: string): string => {
  const accept = `accept: [base-sepolia, { network: base-sepolia, asset: ODD, amount: "5" }]`;
  const domain = `eip712: { name: Odd, version: "1" }`;
  return `${yaml().replace("accept: [base-sepolia]", accept)}
assets:
  ODD: { base-sepolia: { address: "${address}", decimals: 6, ${domain} } }
`;
};

/** Calls of a contract's function, by its selector. */
const calls = (selector: string) => (asked: { readonly params: readonly unknown[] }) =>
  String(Object(asked.params[0]).data).startsWith(`0x${selector}`);

/** A status in place of another one. */
const turned =
  (from: number, to: number) =>
  (status: number): number =>
    status === from ? to : status;

/** Headers without one of them. */
const without =
  (name: string) =>
  (headers: IncomingHttpHeaders): IncomingHttpHeaders =>
    Object.fromEntries(Object.entries(headers).filter(([each]) => each !== name));

describe("tokens", () => {
  test("that are none, or have another domain, fail; the others are fine beside them", async () => {
    const wallet = await chain.deployWallet(signer.address);
    const odd = await stage.examine(own(served.url, withOdd(wallet)), env);
    expect(about(odd, /^base-sepolia token ODD$/)).toEqual([
      expect.stringMatching(/^fail .* has another EIP-712 domain than name "Odd", version "1"$/),
      expect.stringMatching(/^fail .* has 0 decimals, not 6$/),
    ]);
    expect(about(odd, /^base-sepolia token USDC$/)).toEqual([expect.stringMatching(/^ok /)]);
    expect(odd.code).toBe(1);

    const none = await stage.examine(own(served.url, withOdd(MULTICALL3_ADDRESS)), env);
    expect(about(none, /^base-sepolia token ODD$/)).toEqual([
      expect.stringContaining("has no DOMAIN_SEPARATOR(), so it is no EIP-3009 token"),
      expect.stringContaining("has no decimals, not 6"),
    ]);
  });

  test("without authorizations fail, and ones of another name are warned of", async () => {
    await using proxy = await startRpcProxy(chain.rpcUrl);
    const text = own(served.url, yaml({ rpc: [proxy.url] }));
    const fault = { error: { code: 3, message: "execution reverted" } };
    const reverting = proxy.inject({ method: "eth_call", when: calls("e94a0102"), ...fault });
    expect(about(await stage.examine(text, env), /token USDC$/)).toEqual([
      `fail ${chain.asset} has no authorizationState, so no EIP-3009`,
    ]);
    reverting.lift();

    proxy.inject({ method: "eth_call", when: calls("95d89b41"), ...fault });
    expect(about(await stage.examine(text, env), /token USDC$/)).toEqual([
      `warn ${chain.asset} calls itself nothing, not USDC`,
    ]);
  });
});

describe("the public URL", () => {
  test("of a file that is newer than the running gateway fails with the first difference", async () => {
    const report = await stage.examine(own(served.url, yaml({ price: "$0.02" })), env);
    expect(troubles(report)).toEqual([
      'fail publicUrl: sells GET /weather on other terms than this file: maxAmountRequired is "10000", not "20000"',
    ]);
    expect(fixOf(report, /other terms/)).toMatch(/reload or restart it/);
  });

  test("that leads past the gateway fails", async () => {
    const report = await stage.examine(own(upstream), env);
    expect(troubles(report)).toEqual(["fail publicUrl: answers 200 for GET /weather, not 402"]);
    expect(fixOf(report, /answers 200/)).toMatch(/gives away what has a price/);
  });

  test("that does not resolve, or refuses, fails", async () => {
    const unknown = await stage.examine(own("http://coinslot.invalid"), env);
    expect(troubles(unknown)).toEqual([
      expect.stringMatching(
        /^fail publicUrl: coinslot\.invalid is a name that (?:does not resolve|cannot be resolved now)$/,
      ),
    ]);
    const refused = await stage.examine(own(NOWHERE), env);
    expect(troubles(refused)).toEqual([
      "fail publicUrl: refuses connections: nothing listens there",
    ]);
  });

  test("that redirects fails", async () => {
    const redirecting = await stage.serve((_, response) => {
      response.writeHead(301, { Location: served.url }).end();
    });
    const report = await stage.examine(own(redirecting), env);
    expect(troubles(report)).toEqual([
      `fail publicUrl: answers 301, to ${served.url}, for GET /weather`,
    ]);
  });
});

describe("a proxy before the gateway", () => {
  let changes: ProxyChanges = {};
  let proxied: string;
  let inner: Site;

  beforeAll(async () => {
    let origin = NOWHERE;
    proxied = await stage.proxy(
      () => origin,
      () => changes,
    );
    inner = await Site.create({ publicUrl: proxied });
    const running = await inner.serve(yaml(), env);
    await running.untilReady();
    origin = running.url;
  });

  afterAll(() => inner[Symbol.asyncDispose]());

  const examineBehind = async (given: ProxyChanges): Promise<readonly string[]> => {
    changes = given;
    const report = await stage.examine(own(proxied).replace(site.store, inner.store), env);
    return troubles(report);
  };

  test("that passes everything on is fine", async () => {
    expect(await examineBehind({})).toEqual([]);
  });

  test("that drops X-PAYMENT is found", async () => {
    expect(await examineBehind({ request: without("x-payment") })).toEqual([
      "fail publicUrl: X-PAYMENT is lost on the way to the gateway",
    ]);
  });

  test("that turns 402 into something else is found", async () => {
    expect(await examineBehind({ status: turned(402, 502) })).toEqual([
      "fail publicUrl: answers 502 for GET /weather, not 402",
    ]);
  });

  test("that has pages of its own for errors is found", async () => {
    expect(await examineBehind({ body: "<h1>Payment required</h1>" })).toEqual([
      "fail publicUrl: answers 402 for GET /weather without the offers in its body",
    ]);
  });

  test("that caches, or lets others do so, is found", async () => {
    const cached = { answer: (headers: IncomingHttpHeaders) => ({ ...headers, age: "7" }) };
    expect(await examineBehind(cached)).toEqual([
      "fail publicUrl: a cache answers in place of the gateway",
    ]);
    expect(await examineBehind({ answer: without("cache-control") })).toEqual([
      "fail publicUrl: a 402 comes without Cache-Control: no-store, which it was sent with",
    ]);
  });

  test("that answers preflights itself is found", async () => {
    expect(await examineBehind({ status: turned(204, 405) })).toEqual([
      "warn publicUrl: answers 405 to a browser's preflight, not 204",
    ]);
  });
});

describe("the store", () => {
  test("that nobody has open is told so, and a gateway that is not running is no failure", async () => {
    const store = `sqlite:${stage.folder}/new/ledger.db`;
    const text = own(NOWHERE).replace(site.store, store);
    const report = await stage.examine(text, env);
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
    const report = await stage.examine(own().replace(site.store, `sqlite:${path}`), env);
    expect(about(report, /^store$/)).toEqual([
      expect.stringMatching(/^fail .*broken\.db: no gateway/),
    ]);
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
    const file = await stage.write("progress.yaml", own());
    const before = Object.getOwnPropertyDescriptor(process.stderr, "isTTY");
    Object.defineProperty(process.stderr, "isTTY", { value: true, configurable: true });
    try {
      const { code, stderr } = await runHere(["doctor", file], env);
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
