/**
 * A bounded run of everything that goes wrong, against real parts: gateways that are killed, a real EVM node
 * behind a bad network, a backend that fails, customers who leave and who click twice, PostgreSQL that is
 * restarted. Then an audit of every purchase against the chain.
 *
 *     npm run chaos -- --purchases 3000 --kills 150
 *     npm run chaos -- --purchases 3000 --kills 150 --replicas 3 --store postgres --restarts 20
 *     npm run chaos -- --thief --purchases 500 --kills 25
 *     npm run chaos -- --rolling 50
 *     npm run chaos -- --credits
 */
import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { runCredits } from "./credits.ts";
import { runRolling } from "./rolling.ts";
import { runChaos, runsOf, type ChaosOptions, type ChaosReport } from "./run.ts";

const { values } = parseArgs({
  options: {
    purchases: { type: "string", default: "300" },
    /** Default: 15; with `credits` 60, a third of them SIGTERM. */
    kills: { type: "string" },
    /** Default: 1; with `credits` 3. */
    replicas: { type: "string" },
    /** Default: sqlite; with `credits` postgres. */
    store: { type: "string" },
    /** Of PostgreSQL; default: 0; with `credits` 10. */
    restarts: { type: "string" },
    seed: { type: "string", default: String(Date.now() % 2 ** 32) },
    /** Default: 1; with `credits` 2. */
    workers: { type: "string" },
    /** Balances that many sessions spend, in place of purchases. */
    credits: { type: "boolean", default: false },
    requests: { type: "string", default: "10000" },
    sessions: { type: "string", default: "50" },
    /** Two runs with a thief: workers on SQLite, and replicas on PostgreSQL. */
    thief: { type: "boolean", default: false },
    rolling: { type: "string" },
    log: { type: "string" },
  },
});
const say = (line: string): void => void process.stdout.write(`${line}\n`);

if (values.rolling !== undefined) {
  const { counts, failures, logs } = await runRolling({ restarts: Number(values.rolling), say });
  await keep(logs);
  for (const [name, count] of Object.entries(counts)) say(`${name}: ${count}`);
  for (const failure of failures.slice(0, 50)) say(`FAILED ${failure}`);
  say(`${failures.length} failed requests`);
  process.exit(failures.length === 0 ? 0 : 1);
}

const [kills, replicas, workers, store, storeRestarts] = values.credits
  ? ([60, 3, 2, "postgres", 10] as const)
  : ([15, 1, 1, "sqlite", 0] as const);
const stage = {
  kills: Number(values.kills ?? kills),
  replicas: Number(values.replicas ?? replicas),
  workers: Number(values.workers ?? workers),
  store: (values.store ?? store) === "postgres" ? "postgres" : "sqlite",
  storeRestarts: Number(values.restarts ?? storeRestarts),
  seed: Number(values.seed),
  say,
} as const;
const options: ChaosOptions = {
  ...stage,
  purchases: Number(values.purchases),
  thief: values.thief,
};
const balances = {
  ...stage,
  requests: Number(values.requests),
  sessions: Number(values.sessions),
};
const runs: readonly (readonly [name: string, run: () => Promise<ChaosReport>])[] = values.credits
  ? [["balances", () => runCredits(balances)]]
  : runsOf(options).map(([name, each]) => [name, () => runChaos(each)]);
const logs: string[] = [];
let violations = 0;
for (const [name, run] of runs) {
  say(name);
  const report = await run();
  for (const [what, count] of Object.entries(report.counts)) say(`${what}: ${count}`);
  for (const violation of report.violations.slice(0, 50)) say(`VIOLATION ${violation}`);
  say(`${report.violations.length} violations in ${Math.round(report.seconds)} s`);
  violations += report.violations.length;
  logs.push(...report.logs);
}
await keep(logs);
process.exitCode = violations === 0 ? 0 : 1;

/** What the gateways logged, where `--log FILE` asks for it. */
async function keep(logs: readonly string[]): Promise<void> {
  if (values.log !== undefined) await writeFile(values.log, logs.join("\n---- next life\n"));
}
