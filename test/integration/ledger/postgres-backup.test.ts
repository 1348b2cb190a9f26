/**
 * `pg_dump` beside a gateway that sells on a real chain, by the commands of `deploy/LEDGER.md`, and what becomes of payments
 * after `pg_restore`.
 */
import { execFile } from "node:child_process";
import { readFile, stat } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { parseTransaction, toHex, type Hex } from "viem";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { present, richBuyer, sign } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { commandsOf, ROOT } from "../../support/paper-commands.ts";
import { freshAccount } from "../../support/payer.ts";
import { startPostgres, SYSTEM_POSTGRES } from "../../support/postgres.ts";
import { startRpcProxy, type RpcProxy } from "../../support/rpc-proxy.ts";
import { Site, type Served } from "../../support/serve.ts";
import { runHere } from "../cli/run-here.ts";

const PRICE = 10_000n;
/** The first one of one of two accounts, which tells their transactions apart. */
const OTHER_NONCE = 1_000;
const run = promisify(execFile);

describe.skipIf(SYSTEM_POSTGRES === undefined)("a dump of the ledger (pg_dump)", () => {
  const closing = new AsyncDisposableStack();
  const [signers, payee] = [[freshAccount(), freshAccount()], freshAccount().address];
  const [KEY = "", OTHER_KEY = ""] = signers.map(({ privateKey }) => privateKey);
  const env = { KEY, OTHER_KEY };
  let chain: Chain;
  let node: RpcProxy;
  let url: string;
  let yaml: string;

  beforeAll(async () => {
    chain = await startChain();
    closing.defer(() => chain.stop());
    node = closing.use(await startRpcProxy(chain.rpcUrl));
    for (const { address } of signers) await chain.fund(address, 0n, 10n ** 18n);
    await chain.rpc("anvil_setNonce", [signers[1]?.address, toHex(OTHER_NONCE)]);
    const postgres = closing.use(await startPostgres({ bin: SYSTEM_POSTGRES ?? "" }));
    url = await postgres.database();
    const backend = createServer((_, response) => void response.end("sold"));
    const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
    closing.defer(() => drain(backend, AbortSignal.timeout(1_000)));
    yaml = `upstream: http://127.0.0.1:${port}
payTo: "${payee}"
accept: [base-sepolia]
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ["${node.url}"], signers: [env:KEY, env:OTHER_KEY] }
routes:
  GET /weather: $0.01
unmatched: deny
`;
  });

  afterAll(() => closing.disposeAsync());

  async function opened(store: string): Promise<Site & { readonly served: Served }> {
    const site = closing.use(await Site.create({ store }));
    const served = await site.serve(yaml, env);
    await served.untilReady();
    return Object.assign(site, { served });
  }

  /** A line of the paper, as a shell takes it. */
  async function fromPaper(begin: RegExp, cwd: string, urls: Readonly<Record<string, string>>) {
    const text = await readFile(join(ROOT, "deploy/LEDGER.md"), "utf8");
    const line = commandsOf({ name: "", text }).find((command) => begin.test(command)) ?? "";
    const PATH = `${SYSTEM_POSTGRES}:${process.env["PATH"]}`;
    return run("sh", ["-ec", line], { cwd, env: { PATH, ...urls } });
  }

  test("is made while payments are under way, and after a way back nobody is charged twice", async () => {
    const first = await opened(url);
    const { served } = first;
    const weather = `${served.url}/weather`;
    const signed = async () => sign(await richBuyer(chain), weather);
    const [before, sent, after, last] = [
      await signed(),
      await signed(),
      await signed(),
      await signed(),
    ];
    const crowd = await Promise.all(Array.from({ length: 8 }, signed));
    expect((await present(weather, before)).status).toBe(200);

    // One is signed and stored, and the node has not heard of it; others are sold beside it, while the dump is made.
    // Whatever the same account signs waits behind it.
    let account: boolean | undefined;
    const held = node.inject({
      method: "eth_sendRawTransaction",
      hold: true,
      when: ({ params: [bytes] }) => {
        const isOther = (parseTransaction(String(bytes) as Hex).nonce ?? 0) >= OTHER_NONCE;
        account ??= isOther;
        return isOther === account;
      },
    });
    const answer = present(weather, sent);
    await held.hit();
    const visits = Promise.all(crowd.map((payment) => present(weather, payment)));
    await fromPaper(/pg_dump/, first.folder, { DATABASE_URL: url });
    expect(await Promise.race([answer, Promise.resolve("no answer yet")])).toBe("no answer yet");
    held.lift();
    for (const { status } of [await answer, ...(await visits)]) expect(status).toBe(200);
    expect((await stat(join(first.folder, "coinslot.dump"))).mode & 0o777).toBe(0o600);
    expect((await present(weather, after)).status).toBe(200);
    const paid = BigInt(3 + crowd.length) * PRICE;
    expect(await chain.balanceOf(payee)).toBe(paid);
    await served.end("SIGKILL");

    const restoredUrl = url.replace(/[^/]+$/, "coinslot_restored");
    const urls = { DATABASE_URL: url, RESTORED_URL: restoredUrl };
    await fromPaper(/CREATE DATABASE/, first.folder, urls);
    await fromPaper(/pg_restore/, first.folder, urls);
    expect(await sequencesOf(restoredUrl)).toEqual([]);
    const asked = node.questions.length;
    const second = await opened(restoredUrl);
    const shop = `${second.served.url}/weather`;
    // What was signed when the dump was made, and sent after it: it is paid, and delivered for that.
    expect(await present(shop, sent)).toMatchObject({
      status: 200,
      text: "sold",
      receipt: { success: true },
    });
    // What came later the ledger has never heard of, and the chain has.
    expect((await present(shop, after)).status).toBe(402);
    // Of the crowd each is known, and delivered or refused, or it is on the list.
    const stray = await Promise.all(crowd.map((payment) => present(shop, payment)));
    const { stdout } = await runHere(["payments", second.file, "--used-elsewhere", "--json"], env);
    const { usedElsewhere } = JSON.parse(stdout);
    expect(usedElsewhere).toHaveLength(1 + stray.filter(({ status }) => status === 402).length);
    expect(await chain.balanceOf(payee)).toBe(paid);
    // The account's nonces are the chain's, which is asked before anything is sent.
    expect((await present(shop, last)).status).toBe(200);
    expect(await chain.balanceOf(payee)).toBe(paid + PRICE);
    const questions = node.questions.slice(asked).map(({ method }) => method);
    const untilSent = questions.slice(0, questions.indexOf("eth_sendRawTransaction"));
    expect(untilSent).toContain("eth_getTransactionReceipt");
    expect(untilSent).toContain("eth_getTransactionCount");
  });
});

/** Numbers that would be given out again. */
async function sequencesOf(connectionString: string): Promise<readonly unknown[]> {
  const client = new Client({ connectionString });
  await client.connect();
  try {
    const { rows } = await client.query(`
      SELECT max(id) AS most FROM coinslot.payments
      HAVING max(id) > (SELECT last_value FROM coinslot.payments_id_seq)`);
    return rows;
  } finally {
    await client.end();
  }
}
