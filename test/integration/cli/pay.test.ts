/** `coinslot pay` buys from the real gateway: on a local chain with the real token, and on a local Solana. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startChain, type Chain } from "../../support/chain.ts";
import { richBuyer } from "../../support/buyer.ts";
import { startGateway, type RunningGateway } from "../../support/gateway.ts";
import type { FreshAccount } from "../../support/payer.ts";
import { runCoinslot } from "../../support/serve.ts";
import { openSolanaShop, PURSE, type SolanaShop } from "../../support/solana-shop.ts";
import { runHere } from "./run-here.ts";

const run = promisify(execFile);
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-pay-"));
});

afterAll(() => rm(folder, { recursive: true, force: true }));

describe("on an EVM network", () => {
  let chain: Chain;
  let gateway: RunningGateway;
  let buyer: FreshAccount;
  let env: Record<string, string>;

  beforeAll(async () => {
    chain = await startChain();
    const routes = `
  GET /weather: { price: $0.01, description: "Weather \\u001b[31mred\\u202e", mimeType: text/plain }
  POST /summarize: { price: $0.02, description: A summary, mimeType: application/json }
  GET /dear: { price: $0.11, description: Dear }
  GET /binary: { price: $0.01, description: Bytes }
  GET /health: free
  GET /missing: { price: $0.01, description: Nothing }
`;
    gateway = await startGateway({ chain, routes, backend: answer });
    buyer = await richBuyer(chain);
    env = { COINSLOT_KEY: buyer.privateKey };
  });

  afterAll(async () => {
    await gateway[Symbol.asyncDispose]();
    await chain.stop();
  });

  test("the price is told, paid once, and the answer goes to stdout alone", async () => {
    const before = await chain.balanceOf(gateway.payee);
    const served = gateway.upstream.length;

    const { code, stdout, stderr } = await runHere(["pay", `${gateway.url}/weather`, "-y"], env);

    expect(stderr).toMatch(/^\* 0\.01 USDC \(\$0\.01\)$/m);
    expect(stderr).toMatch(/^ {4}network +base-sepolia \(Base Sepolia, a test network\)$/m);
    expect(stderr).toMatch(new RegExp(`^ {4}pay to +${gateway.payee}$`, "m"));
    expect(stderr).toMatch(/^ {4}for +Weather \ufffd\[31mred\ufffd$/m);
    expect(stderr).not.toContain("\u001b");
    expect(stderr).toMatch(/^paid 0\.01 USDC \(\$0\.01\) on base-sepolia$/m);
    const [, hash] = /^ {2}transaction +(0x[0-9a-f]{64})$/m.exec(stderr) ?? [];
    expect(stderr).toContain(`https://sepolia.basescan.org/tx/${hash}`);
    expect(await chain.rpc("eth_getTransactionReceipt", [hash])).toMatchObject({ status: "0x1" });
    expect({ code, stdout }).toEqual({ code: 0, stdout: "GET /weather " });
    expect(await chain.balanceOf(gateway.payee)).toBe(before + 10_000n);
    expect(gateway.upstream.length).toBe(served + 1);
  });

  test("a body goes along with the payment, as JSON where it is some", async () => {
    const words = ["pay", `${gateway.url}/summarize?q=1`, "-d", '{"text":"long"}', "--yes"];
    const { code, stdout } = await runHere([...words, "-H", "X-Note: a"], env);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'POST /summarize?q=1 {"text":"long"}' });
    const { headers } = gateway.upstream.at(-1) ?? {};
    expect(headers).toMatchObject({ "content-type": "application/json", "x-note": "a" });
    expect(headers).not.toHaveProperty("x-payment");
  });

  test("a body of bytes arrives unchanged in a file, and JSON tells what was paid", async () => {
    const output = join(folder, "bytes");
    const words = ["pay", `${gateway.url}/binary`, "-y", "-o", output, "--json"];
    const { code, stdout } = await runHere(words, env);
    expect(code).toBe(0);
    expect(await readFile(output)).toEqual(BYTES);
    expect(JSON.parse(stdout)).toMatchObject({
      url: `${gateway.url}/binary`,
      status: 200,
      outcome: "served",
      paid: true,
      payment: { network: "base-sepolia", payer: buyer.address },
      receipt: { success: true, network: "base-sepolia" },
      body: output,
      keptIn: null,
    });
  });

  test("what is over the limit is not paid: ten cents unless told otherwise", async () => {
    const before = await chain.balanceOf(buyer.address);
    const url = `${gateway.url}/dear`;
    const refused = await runHere(["pay", url, "-y"], env);
    expect(refused.code).toBe(3);
    expect(refused.stderr).toContain(
      "0.11 USDC ($0.11) is more than the most that may be paid, $0.10",
    );
    const units = await runHere(["pay", url, "-y", "--max", "109999units"], env);
    expect(units.code).toBe(3);
    expect(await chain.balanceOf(buyer.address)).toBe(before);

    const paid = await runHere(["pay", url, "-y", "--max", "$0.11"], env);
    expect(paid.code).toBe(0);
    expect(await chain.balanceOf(buyer.address)).toBe(before - 110_000n);
  });

  test("a dry run and nobody to ask pay nothing", async () => {
    const before = await chain.balanceOf(buyer.address);
    const url = `${gateway.url}/weather`;
    const dry = await runHere(["pay", url, "--dry-run", "--json"]);
    expect(dry.code).toBe(0);
    expect(JSON.parse(dry.stdout)).toMatchObject({
      paid: false,
      chosen: 0,
      offers: [{ network: "base-sepolia", amountAtomic: "10000", objection: null }],
    });
    const asked = await runHere(["pay", url], env);
    expect(asked.code).toBe(3);
    expect(asked.stderr).toContain("no terminal to ask on; --yes pays without asking");
    const elsewhere = await runHere(["pay", url, "-y", "--network", "base"], env);
    expect(elsewhere.code).toBe(3);
    expect(elsewhere.stderr).toMatch(/^ {4}but +not the --network you want$/m);
    expect(await chain.balanceOf(buyer.address)).toBe(before);
  });

  test("what is free is not paid for, and an error is told by the exit code", async () => {
    // Without a key: there is nothing to pay.
    const free = await runHere(["pay", `${gateway.url}/health`]);
    expect(free).toMatchObject({ code: 0, stdout: "GET /health " });
    expect(free.stderr).toContain("nothing was paid");
    const priced = await runHere(["pay", `${gateway.url}/weather`, "-y"]);
    expect(priced.stderr).toMatch(/^\* 0\.01 USDC \(\$0\.01\)$/m);
    expect(priced.stderr).toContain("not paid: there is no key: write --key file:PATH");
    expect(priced).toMatchObject({ code: 3, stdout: "" });
    const gone = await runHere(["pay", `${gateway.url}/nowhere`, "-i"], env);
    expect(gone.code).toBe(1);
    expect(gone.stdout).toMatch(/^HTTP\/1\.1 404 Not Found\r\n/);
  });

  test("a paid answer of 404 is printed, and told as paid and not served", async () => {
    const { code, stdout, stderr } = await runCoinslot(
      ["pay", `${gateway.url}/missing`, "-y", "--keep", folder],
      {
        ...env,
        PWD: folder,
      },
    );
    expect(stdout).toBe("nothing here");
    expect(stderr).toContain("paid, but not served: the answer is 404");
    expect(code).toBe(4);
  });

  test("once no delivery is left nobody is told to send the payment again", async () => {
    const words = ["pay", `${gateway.url}/missing`];
    const before = await chain.balanceOf(gateway.payee);
    // Somebody who is owed nothing yet.
    const { privateKey } = await richBuyer(chain);
    let ended = await runHere([...words, "-y", "--keep", folder], { COINSLOT_KEY: privateKey });
    const [, file = ""] = /the payment is kept in (\S+);/.exec(ended.stderr) ?? [];
    for (let sent = 1; ended.stderr.includes(`with --payment ${file}`); sent += 1) {
      expect(sent).toBeLessThan(5);
      ended = await runHere([...words, "--payment", file]);
    }
    expect(ended.code).toBe(4);
    expect(ended.stderr).toMatch(
      /paid, but not served: 409: .* each attempt to deliver it has failed/,
    );
    expect(ended.stderr).toContain("do not send it again");
    expect(await chain.balanceOf(gateway.payee)).toBe(before + 10_000n);
  });

  test("who has no money is refused, and told that nothing was settled", async () => {
    const key = join(folder, "poor.key");
    await writeFile(key, `0x${"11".repeat(32)}\n`);
    const words = ["pay", `${gateway.url}/weather`, "-y", "--key", `file:${key}`];
    const { code, stdout, stderr } = await runHere(words);
    expect(stderr).toMatch(/the payment was not settled: 402: insufficient_funds/);
    expect(stderr).toMatch(/could still settle what you signed until \d{4}-/);
    expect(stderr).toMatch(/send some of it to 0x[0-9a-fA-F]{40} on base-sepolia$/m);
    expect({ code, stdout }).toEqual({ code: 5, stdout: "" });

    // Without file: before it.
    const misnamed = await runHere(["pay", `${gateway.url}/weather`, "-y", "--key", key]);
    expect(misnamed.stderr).toContain("a file is written file:PATH");
    expect(misnamed.code).toBe(1);
  });

  test("on a terminal what is said begins on a line of its own, and nowhere else is a byte added", async () => {
    const url = `${gateway.url}/weather`;
    const main = join(import.meta.dirname, "../../../src/main.ts");
    const typed = `${process.execPath} ${main} pay ${url} -y`;
    const { stdout } = await run("script", ["-qefc", typed, "/dev/null"], {
      env: { ...process.env, ...env, NO_COLOR: "1" },
    });
    // What is shown meanwhile goes away before the answer begins.
    const [, shown = ""] = stdout.split("paying: the seller settles before it answers\r\u001b[K");
    expect(shown).toMatch(/^GET \/weather \r?\npaid 0\.01 USDC/);
    expect(shown).not.toContain("\u001b");
    expect((await runHere(["pay", url, "-y"], env)).stdout).toBe("GET /weather ");
  });
});

const BYTES = Buffer.from(Array.from({ length: 70_000 }, (_, index) => (index * 7) % 256));

function answer(request: IncomingMessage, response: ServerResponse): void {
  const { method, url } = request;
  if (url === "/binary") return void response.end(BYTES);
  if (url === "/missing") return void response.writeHead(404).end("nothing here");
  const parts: Buffer[] = [];
  request.on("data", (part: Buffer) => parts.push(part));
  request.on("end", () => response.end(`${method} ${url} ${Buffer.concat(parts).toString()}`));
}

describe("on Solana", () => {
  let shop: SolanaShop;

  beforeAll(async () => {
    shop = await openSolanaShop({ network: "solana-devnet" });
  });

  afterAll(() => shop[Symbol.asyncDispose]());

  test("the same thing twice at once is two payments, and the seller pays the network", async () => {
    const { key, rpcUrl } = await shop.newShopper();
    const before = await shop.node.tokenBalanceOf(shop.payee, shop.usdc);
    const words = ["pay", `${shop.url}/weather`, "--yes", "--rpc", rpcUrl];
    const env = { COINSLOT_KEY: key.secret };
    const bought = await Promise.all([runCoinslot(words, env), runCoinslot(words, env)]);
    for (const { code, stdout, stderr } of bought) {
      expect(stderr).toMatch(/^paid 0\.01 USDC \(\$0\.01\) on solana-devnet$/m);
      expect(stderr).toMatch(/explorer\.solana\.com\/tx\/[1-9A-Za-z]{86,88}\?cluster=devnet$/m);
      expect(JSON.parse(stdout)).toMatchObject({ url: "/weather" });
      expect(code).toBe(0);
    }
    expect(await shop.node.tokenBalanceOf(shop.payee, shop.usdc)).toBe(before + 20_000n);
    expect(await shop.node.tokenBalanceOf(key.address, shop.usdc)).toBe(PURSE - 20_000n);
  });

  test("a token that is not known needs to be allowed, and a limit in its own units", async () => {
    const { key, rpcUrl } = await shop.newShopper(shop.bond);
    const words = ["pay", `${shop.url}/bonds`, "-y", "--rpc", rpcUrl];
    const env = { COINSLOT_KEY: key.secret };
    const unknown = await runHere(words, env);
    expect(unknown.code).toBe(3);
    expect(unknown.stderr).toContain(`--allow-asset ${shop.bond} would allow it`);
    const unlimited = await runHere([...words, "--allow-asset", shop.bond], env);
    expect(unlimited.code).toBe(3);
    expect(unlimited.stderr).toContain("say the most in atomic units, --max 77units");
    const bought = await runHere([...words, "--allow-asset", shop.bond, "--max", "77units"], env);
    expect(bought.stderr).toContain("paid 77 atomic units of the token");
    expect(bought.code).toBe(0);
  });

  test("a key of the other family pays nothing", async () => {
    const env = { COINSLOT_KEY: `0x${"11".repeat(32)}` };
    const { code, stderr } = await runHere(["pay", `${shop.url}/weather`, "-y"], env);
    expect(code).toBe(3);
    expect(stderr).toMatch(/^ {4}but +needs a key for Solana$/m);
  });
});
