/** The books are read and summed up in a thread of its own, for which nobody waits who has nothing else to do. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import { OperatorPages } from "../../../src/app/operator-pages.ts";
import { OwnThread } from "../../../src/app/own-thread.ts";
import { moneyInThread } from "../../../src/app/read-accounts.ts";
import { openSqliteLedger } from "../../../src/ledger/sqlite/sqlite.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { Timeline } from "../../../src/telemetry/timeline.ts";
import { systemTime } from "../../../src/time/time.ts";
import { examplePayment } from "../ledger/example-payment.ts";
import { SETTLEMENT, sign, termsOf } from "../ledger/ledger-driver.ts";
import { configOf } from "./config-of.ts";

const SOURCES = join(import.meta.dirname, "../../../src");
const MAIN = join(SOURCES, "main.ts");
const PATIENCE_MS = 10_000;

async function temporary(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "coinslot-books-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true }));
  return folder;
}

test("a process that has closed everything ends, though its books are still being read", async () => {
  const folder = await temporary();
  const endless = join(folder, "endless.mjs");
  await writeFile(endless, "setInterval(() => undefined, 1_000);");
  const main = join(folder, "main.mjs");
  const text = `
    import { moneyInThread } from ${JSON.stringify(join(SOURCES, "app/read-accounts.ts"))};
    const asked = { store: { kind: "sqlite", path: "none" }, tokens: [], nowMs: 0 };
    void moneyInThread(${JSON.stringify(endless)}, asked).catch(() => undefined);`;
  await writeFile(main, text);
  const child = spawn(process.execPath, [main], {
    stdio: "ignore",
    timeout: PATIENCE_MS,
    killSignal: "SIGKILL",
  });
  await once(child, "close");
  expect([child.exitCode, child.signalCode]).toEqual([0, null]);
});

test("a thread that never answers is not waited for", async () => {
  const endless = join(await temporary(), "endless.mjs");
  await writeFile(endless, "setInterval(() => undefined, 1_000);");
  using thread = new OwnThread({
    script: endless,
    command: "read-config",
    isAwaited: true,
    withinMs: 20,
  });
  await expect(thread.ask({})).rejects.toThrow("nothing was read within 0.02 s");
});

test("what the overview tells of money is read and summed up by nobody who has the ledger", async () => {
  const folder = await temporary();
  const path = join(folder, "ledger.db");
  await using closing = new AsyncDisposableStack();
  const ledger = await openSqliteLedger({ path, time: systemTime, life: "this one" });
  closing.defer(() => ledger.close());
  const payments = [1, 2].map((number) => examplePayment(number));
  for (const payment of payments) {
    const terms = termsOf(payment, { route: "GET /premium-data" });
    await ledger.step(payment.key, { kind: "claim", terms });
  }
  const { id } = await sign(ledger, payments);
  for (const { key } of payments) {
    await ledger.step(key, { kind: "settled", settlement: { ...SETTLEMENT, transaction: id } });
  }
  // The newest steps are stored a little later, or when somebody asks.
  await ledger.books.counts();
  const config = configOf(`
publicUrl: http://localhost:8402
upstream: http://localhost:3000
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: deny
admin: 127.0.0.1:9402
store: sqlite:${path}
routes: { GET /premium-data: { price: $0.01, description: Data } }
`);
  const metrics = new Metrics("test");
  const timeline = new Timeline(() => systemTime.now());
  const logger = createLogger({ level: "silent", format: "json" });
  const accounts = vi.spyOn(ledger.books, "accounts");
  const parts = { config, telemetry: { logger, metrics, timeline }, time: systemTime };
  const overview = new OperatorPages(parts, ledger, () => undefined).overview({
    metrics: () => metrics.registry.snapshot(),
    readiness: async () => ({ isReady: true, said: [] }),
    script: MAIN,
  });
  await expect
    .poll(() => overview?.page(), { timeout: PATIENCE_MS })
    .toMatch(/GET \/premium-data<\/td><td class="n">2<.*0\.02 USDC/s);
  expect(accounts).not.toHaveBeenCalled();
});

test("books that cannot be read say why", async () => {
  const folder = await temporary();
  const store = { kind: "sqlite", path: join(folder, "none.db") } as const;
  await expect(moneyInThread(MAIN, { store, tokens: [], nowMs: 0 })).rejects.toThrow(
    `there is no ledger at ${store.path}`,
  );
});

test("nothing is believed of a program that was replaced by another version meanwhile", async () => {
  const main = join(await temporary(), "main.mjs");
  const said = JSON.stringify({ version: "0.0.1", answer: "what it makes of it" });
  await writeFile(
    main,
    `import { parentPort } from "node:worker_threads";
    parentPort.on("message", () => parentPort.postMessage(${said}));`,
  );
  const store = { kind: "sqlite", path: "none.db" } as const;
  const asked = moneyInThread(main, { store, tokens: [], nowMs: 0 });
  await expect(asked).rejects.toThrow(/was replaced by another version .*: restart it/);
});
