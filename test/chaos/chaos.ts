/**
 * A bounded run of everything that goes wrong, against real parts: gateways that are killed, a real EVM node
 * behind a bad network, a backend that fails, customers who leave and who click twice, PostgreSQL that is
 * restarted. Then an audit of every purchase against the chain.
 *
 *     npm run chaos -- --purchases 3000 --kills 150
 *     npm run chaos -- --purchases 3000 --kills 150 --replicas 3 --store postgres --restarts 20
 *     npm run chaos -- --thief --purchases 500 --kills 25
 *     npm run chaos -- --rolling 50
 */
import { writeFile } from "node:fs/promises";
import { parseArgs } from "node:util";
import { runRolling } from "./rolling.ts";
import { runChaos, runsOf, type ChaosOptions } from "./run.ts";

const { values } = parseArgs({
  options: {
    purchases: { type: "string", default: "300" },
    kills: { type: "string", default: "15" },
    replicas: { type: "string", default: "1" },
    store: { type: "string", default: "sqlite" },
    restarts: { type: "string", default: "0" },
    seed: { type: "string", default: String(Date.now() % 2 ** 32) },
    workers: { type: "string", default: "1" },
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

const options: ChaosOptions = {
  purchases: Number(values.purchases),
  kills: Number(values.kills),
  replicas: Number(values.replicas),
  workers: Number(values.workers),
  thief: values.thief,
  store: values.store === "postgres" ? "postgres" : "sqlite",
  storeRestarts: Number(values.restarts),
  seed: Number(values.seed),
  say,
};
const logs: string[] = [];
let violations = 0;
for (const [name, each] of runsOf(options)) {
  say(name);
  const report = await runChaos(each);
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
