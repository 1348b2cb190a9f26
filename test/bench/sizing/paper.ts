/** The tables of `deploy/README.md` that tell what is needed for how much, made of the figures. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../report.ts";
import type { Cost, Figures, KindCost } from "./figures.ts";
import {
  BUSY,
  checkSetting,
  newPayersPerSecond,
  parts,
  plan,
  RATES,
  reckon,
  REPLICA_CONNECTIONS,
  SERVER_CONNECTIONS,
  type Plan,
} from "./model.ts";
import { capacities } from "./networks.ts";

export const PAPER = join(ROOT, "deploy/README.md");
const [BEGIN, END] = [
  "<!-- made by: npm run bench:sizing -- --paper -->",
  "<!-- end of what is made -->",
];

/** The paper with its part made anew. @throws {Error} where the marks are missing */
export function withSizing(paper: string, figures: Figures): string {
  const [before, rest] = paper.split(`${BEGIN}\n`);
  const after = rest?.split(`${END}\n`)[1];
  if (before === undefined || after === undefined) throw new Error(`${PAPER} has lost its marks`);
  return `${before}${BEGIN}\n\n${sizingText(figures)}\n${END}\n${after}`;
}

export function writePaper(figures: Figures): void {
  writeFileSync(PAPER, withSizing(readFileSync(PAPER, "utf8"), figures));
}

function sizingText(figures: Figures): string {
  return [
    kindsPart(figures),
    carriesPart(figures),
    networksPart(),
    ratesPart(figures),
    checkPart(figures),
  ].join("\n");
}

/** Names of kinds, as people say them. */
const SAID: Readonly<Record<string, string>> = {
  unpaid: "the 402, one process",
  "unpaid, two workers": "the 402, two workers",
  free: "a free route, 1 KiB, one process",
  "free, two workers": "a free route, 1 KiB, two workers",
  verify: "`POST /verify` for others",
  settle: "`POST /settle` for others",
  repeated: "a paid request once more: the kept answer",
  solana: "`POST /settle` on Solana for others",
};

function kindsPart({
  measured,
  kinds,
  sales,
  writes,
  connections,
  idle,
  watching,
}: Figures): string {
  const { slow, fast, sqlite, workers, elsewhere } = sales;
  const carrying = (name: string, sale: KindCost & { readonly together: number }) =>
    [`a sale, ${name}; ${sale.together.toFixed(1)} in a transaction`, sale] as const;
  const told = [
    ...Object.entries(kinds).map(([name, cost]) => [SAID[name] ?? name, cost] as const),
    carrying("one process, few a second", slow),
    carrying("one process", fast),
    carrying("one process, SQLite", sqlite),
    carrying("two workers", workers),
    carrying("where another replica signs", elsewhere),
  ];
  const rows = told.map(([name, { gateway, thread, postgres, node }]) => [
    name,
    micros(gateway),
    micros(thread),
    name.includes("SQLite") ? "" : micros(postgres),
    node === 0 ? "" : micros(node),
  ]);
  const head = [
    "CPU for one answer, µs",
    "gateway",
    "of it its one thread with the money",
    "PostgreSQL",
    "local node",
  ];
  return `Measured with \`npm run bench:sizing\` on ${measured.date} (${measured.coinslot}; ${measured.machine}; Node ${measured.node},
PostgreSQL ${measured.postgres}, anvil ${measured.evmNode} with a block each second; others kept ${percent(measured.others)} of the machine busy): medians
of interleaved rounds, above what the same processes take when nobody asks. What is reckoned of it is said to be.

${table([head, ...rows])}
- **At rest** a process takes ${share(idle.process.gateway)} of a core and ${share(idle.process.postgres)} of PostgreSQL's, a replica with two workers ${share(idle.replica.gateway)}.
  A transaction that is in a block and not final takes ${micros(watching.gateway)} µs a second, and ${micros(watching.postgres)} of PostgreSQL.
- **Written for each sale**: ${one(writes.inserted)} rows inserted and ${one(writes.updated)} updated in ${one(writes.commits)} commits, ${kilo(writes.walBytes)} of write-ahead log and
  ${kilo(writes.tableBytes)} of tables and indexes in PostgreSQL; ${kilo(writes.sqliteBytes)} of a SQLite file. Commits wait for your disk, or your synchronous
  standby; that wait is not in these figures.
- **Connections**: ${connections} of a replica, ${REPLICA_CONNECTIONS} at most, whatever its workers are: they ask the process with the money.
`;
}

function carriesPart(figures: Figures): string {
  const rows = parts(figures).map(({ name, perSecond }) => [name, rate(perSecond)]);
  const cores = ["unpaid", "free"].map((name) => {
    const { gateway = NaN } = figures.kinds[name] ?? {};
    return [`one core, ${SAID[name] ?? name}`, `${rate((BUSY * 1e6) / gateway)} answers`];
  });
  const replicas = Math.floor(SERVER_CONNECTIONS / REPLICA_CONNECTIONS);
  return `What one of each carries, reckoned, where it is busy ${percent(BUSY)} of the time:

${table([["", "sales a second"], ...cores, ...rows])}
PostgreSQL's default of 100 connections is enough for ${replicas} replicas. Of payers who never paid here ${rate(newPayersPerSecond())} a second
are served at each replica that signs on Base (decision record 49); others wait. A signer needs some five calls to its node for each
transaction, one after the other: with a node 100 ms away it makes two transactions a second, of up to 50 payments each.
`;
}

function networksPart(): string {
  const rows = capacities().map(({ network, blockSeconds, block, blocks, signer, source }) => [
    network,
    `${blockSeconds} s`,
    String(block),
    rate(blocks),
    rate(Math.min(signer, blocks)),
    source,
  ]);
  const head = [
    "network",
    "a block each",
    "payments in a block",
    "a second",
    "of one signer",
    "its limit is from",
  ];
  return `What networks carry, reckoned of their published limits, which change, as if nobody else were there (52,000 gas for one of 50 payments in
a transaction, twice that on Sei and peaq; 8,840 compute units on Solana, where each payment writes to its payee's token
account and to its fee payer, so that a second payee, and a second signer, carry as much again):

${table([head, ...rows])}`;
}

function ratesPart(figures: Figures): string {
  const plans = RATES.map((each) => plan(figures, each));
  const head = [
    "paid requests a second",
    "gives way first",
    "replicas",
    "their cores",
    "PostgreSQL's cores",
    "connections",
    "signers",
    "of Base's blocks",
    "no network for it",
  ];
  const rows = plans.map((each) => [
    each.perSecond.toLocaleString("en"),
    each.givesWay[0]?.name ?? "nothing",
    String(each.replicas),
    one(each.gatewayCores),
    one(each.postgresCores),
    String(each.connections),
    String(each.signers),
    percent(each.blockShare),
    each.cannot.join(", ") || "none",
  ]);
  return `What a rate of sales on Base needs, reckoned, every part busy ${percent(BUSY)} of the time:

${table([head, ...rows])}
${plans.map(advice).join("\n")}
`;
}

function advice(plan: Plan): string {
  const { perSecond, givesWay, layout, replicas, connections, cannot, crowded, blockShare } = plan;
  const said = [
    ...(givesWay.length === 0
      ? ["one process with SQLite carries it; a second replica is for the day on which one dies"]
      : []),
    ...(givesWay.length > 0
      ? [
          `these give way, in that order: ${givesWay.map(({ name, perSecond: at }) => `${name} (${rate(at)})`).join(", ")}`,
        ]
      : []),
    ...(layout === "own"
      ? [
          "add replicas, and give each of them signers of its own in its own file: where all name the same ones, one replica has them and signs for all",
        ]
      : replicas > 1
        ? ["add replicas with the same file: one has the signers, the others the front door"]
        : []),
    ...(connections > SERVER_CONNECTIONS ? [`raise \`max_connections\` above ${connections}`] : []),
    ...(blockShare > 1
      ? [
          "accept several networks, and on Solana several payees, each of them with a ledger and a PostgreSQL of its own; all blocks of one network are not enough",
        ]
      : blockShare > 0.5
        ? ["accept a second network, since others need its blocks, too"]
        : []),
    ...(cannot.length > 0 && blockShare <= 1
      ? [`take ${cannot.join(", ")} only beside another network`]
      : []),
    ...(crowded.length > 0
      ? [`on ${crowded.join(", ")} it takes more than half of all blocks`]
      : []),
  ];
  return `- **${perSecond.toLocaleString("en")} a second**: ${said.join("; ")}.`;
}

function checkPart(figures: Figures): string {
  const { check } = figures;
  const reckoned = reckon(figures, checkSetting(figures));
  const names = { gateway: "gateways", postgres: "PostgreSQL", node: "local node" } as const;
  const row = (name: keyof Cost): string[] => [
    names[name],
    micros(reckoned[name]),
    micros(check.cost[name]),
    off(reckoned[name], check.cost[name]),
  ];
  const all = (cost: Cost): number => cost.gateway + cost.postgres + cost.node;
  const rows = [
    row("gateway"),
    row("postgres"),
    row("node"),
    ["all", micros(all(reckoned)), micros(all(check.cost)), off(all(reckoned), all(check.cost))],
  ];
  return `Held against a run of ${check.replicas} replicas with ${check.workers} workers each, one PostgreSQL, one signer and one local network, at the rate that the
machine held beside its own load generators, ${one(check.sold)} sales a second of ${check.asked} asked for over ${check.seconds} s (p50 ${rate(check.p50Ms)} ms, p99 ${rate(check.p99Ms)} ms,
of which up to a second is the wait for a block; ${one(check.together)} payments in a transaction, ${one(reckoned.together)} reckoned):

${table([["CPU for one sale, µs", "reckoned", "measured", "off by"], ...rows])}
Rates above that were not run: what is told of them is this reckoning. It knows nothing of what only grows with the rate, as
the one lock that PostgreSQL takes for all commits that notify; run \`npm run bench:sizing\` on your machine before you rely on it.
`;
}

/** How far a reckoned value is from the measured one. */
export function off(reckoned: number, measured: number): string {
  const part = (reckoned / measured - 1) * 100;
  return `${part < 0 ? "−" : "+"}${Math.abs(part).toFixed(0)} %`;
}

/** As the formatter of the papers writes it. */
function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, at) =>
    Math.max(3, ...rows.map((row) => (row[at] ?? "").length)),
  );
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(" | ")} |`;
  const [head = [], ...body] = rows;
  const ruler = line(widths.map((width) => "-".repeat(width)));
  return `${[line(head), ruler, ...body.map(line)].join("\n")}\n`;
}

function micros(value: number): string {
  return value < 10 ? value.toFixed(1) : rate(value);
}

/** With as many digits as say something. */
function rate(value: number): string {
  return Number(value.toPrecision(value < 1_000 ? 2 : 3)).toLocaleString("en");
}

function one(value: number): string {
  return value < 10 ? value.toFixed(1) : value.toFixed(0);
}

function kilo(bytes: number): string {
  return `${one(bytes / 1_000)} kB`;
}

function percent(part: number): string {
  return `${(part * 100).toFixed(0)} %`;
}

function share(microsOfASecond: number): string {
  return `${(microsOfASecond / 1e4).toFixed(1)} %`;
}
