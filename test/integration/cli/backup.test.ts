/** `coinslot backup` beside a gateway that sells on a real chain, and what becomes of payments after a way back to it. */
import { copyFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setImmediate as turn } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { drain, listen } from "../../../src/gateway/listener/listener.ts";
import { present, richBuyer, sign } from "../../support/buyer.ts";
import { startChain, type Chain } from "../../support/chain.ts";
import { freshAccount } from "../../support/payer.ts";
import { Site, type Served } from "../../support/serve.ts";
import { runHere } from "./run-here.ts";

const PRICE = 10_000n;

describe("a copy of the ledger", () => {
  const closing = new AsyncDisposableStack();
  const [signer, payee] = [freshAccount(), freshAccount().address];
  const env = { KEY: signer.privateKey };
  let chain: Chain;
  let site: Site;
  let yaml: string;
  let served: Served;

  beforeAll(async () => {
    chain = await startChain();
    closing.defer(() => chain.stop());
    await chain.fund(signer.address, 0n, 10n ** 18n);
    const backend = createServer((_, response) => void response.end("sold"));
    const { port } = await listen(backend, { host: "127.0.0.1", port: 0 });
    closing.defer(() => drain(backend, AbortSignal.timeout(1_000)));
    yaml = `upstream: http://127.0.0.1:${port}
payTo: "${payee}"
accept: [base-sepolia]
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ["${chain.rpcUrl}"], signers: [env:KEY] }
routes:
  GET /weather: $0.01
unmatched: deny
`;
    site = closing.use(await Site.create());
    served = await site.serve(yaml, env);
    await served.untilReady();
  });

  afterAll(() => closing.disposeAsync());

  const weather = (): string => `${served.url}/weather`;
  const backup = (to: string) => runHere(["backup", site.file, join(site.folder, to)], env);

  test("is made while payments are under way, and after a way back nobody is charged twice", async () => {
    const [before, during, after, last] = await Promise.all(
      [1, 2, 3, 4].map(async () => sign(await richBuyer(chain), weather())),
    );
    if (!before || !during || !after || !last) throw new Error("four payments");
    expect((await present(weather(), before)).status).toBe(200);

    await chain.rpc("evm_setAutomine", [false]);
    const answer = present(weather(), during);
    while (Object(await chain.rpc("txpool_status")).pending === "0x0") await turn();
    const made = await backup("copy.db");
    expect(made).toMatchObject({ code: 0, stderr: "" });
    expect(made.stdout).toMatch(/copy\.db: 2 payments, \d+\.\d MB, copied and read back whole\n$/);
    await chain.rpc("evm_setAutomine", [true]);
    await chain.mine();
    expect((await answer).status).toBe(200);
    expect((await present(weather(), after)).status).toBe(200);
    const paid = 3n * PRICE;
    expect(await chain.balanceOf(payee)).toBe(paid);

    await served.end("SIGKILL");
    const ledger = site.store.replace(/^sqlite:/, "");
    for (const end of ["", "-wal", "-shm"]) await rm(ledger + end, { force: true });
    await copyFile(join(site.folder, "copy.db"), ledger);
    served = await site.launch(env);
    await served.untilReady();

    // What was signed when the copy was made is asked of the chain: it is paid, and delivered for that.
    expect(await present(weather(), during)).toMatchObject({
      status: 200,
      text: "sold",
      receipt: { success: true },
    });
    // What came later the ledger has never heard of, and the chain has.
    const stranger = await present(weather(), after);
    expect(stranger.status).toBe(402);
    const used = await runHere(["payments", site.file, "--used-elsewhere", "--json"], env);
    expect(JSON.parse(used.stdout).usedElsewhere).toHaveLength(1);
    // The account's nonces are the chain's.
    expect((await present(weather(), last)).status).toBe(200);
    expect(await chain.balanceOf(payee)).toBe(paid + PRICE);
  });

  test("is one file for its owner alone, and replaces nothing", async () => {
    const path = join(site.folder, "alone.db");
    expect(await backup("alone.db")).toMatchObject({ code: 0 });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    expect((await readdir(site.folder)).filter((name) => name.startsWith("alone"))).toEqual([
      "alone.db",
    ]);
    using copy = new DatabaseSync(path, { readOnly: true });
    expect(copy.prepare("SELECT count(*) AS n FROM payments").get()).toEqual({ n: 3 });
    const again = await backup("alone.db");
    expect(again.code).toBe(1);
    expect(again.stderr).toContain("is there already");
    await writeFile(join(site.folder, "half.db.part"), "");
    expect((await backup("half.db")).code).toBe(1);
    expect(await readdir(site.folder)).not.toContain("half.db");
  });

  test("is none where what was copied is not whole", async () => {
    await using other = await Site.create();
    await other.write(yaml);
    await writeFile(other.store.replace(/^sqlite:/, ""), "no database ".repeat(1_000));
    const to = join(other.folder, "copy.db");
    const { code, stderr } = await runHere(["backup", other.file, to], env);
    expect(code).toBe(1);
    expect(stderr).toContain("file is not a database");
    expect(await readdir(other.folder)).not.toContain("copy.db");
    expect(await readdir(other.folder)).not.toContain("copy.db.part");
  });
});
