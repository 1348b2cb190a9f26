/** The tables of `deploy/README.md` that tell what is needed for how much, made of the figures. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ROOT } from "../report.ts";
import type { Cost, Figures, KindCost } from "./figures.ts";
import {
  BUSY,
  carried,
  checkSetting,
  MAX_REPLICAS,
  newPayersPerSecond,
  plan,
  RATES,
  reckon,
  REPLICA_CONNECTIONS,
  type Plan,
} from "./model.ts";
import { capacities } from "./networks.ts";

export const PAPER = join(ROOT, "deploy/README.md");
const MOST_COLUMNS = 120;
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
  return parts([
    kindsPart(figures),
    carriesPart(figures),
    networksPart(),
    ratesPart(figures),
    checkPart(figures),
  ]);
}

/** With an empty line between them. */
function parts(texts: readonly string[]): string {
  return texts.join("\n");
}

function prose(text: string, indent = ""): string {
  const lines: string[] = [];
  let line = "";
  for (const word of text.trim().split(/\s+/)) {
    if (line !== "" && line.length + 1 + word.length > MOST_COLUMNS) {
      lines.push(line);
      line = `${indent}${word}`;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return `${[...lines, line].join("\n")}\n`;
}

function bullet(text: string): string {
  return prose(`- ${text}`, "  ");
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

function kindsPart(figures: Figures): string {
  const { measured, kinds, sales, writes, connections, idle, watching } = figures;
  const { slow, fast, sqlite, workers, elsewhere } = sales;
  const carrying = (name: string, sale: KindCost & { readonly together: number }) =>
    [`a sale, ${name}; ${one(sale.together)} in a transaction`, sale] as const;
  const told = [
    ...Object.entries(kinds).map(([name, cost]) => [SAID[name] ?? name, cost] as const),
    carrying("one process, few a second", slow),
    carrying("one process", fast),
    carrying("one process, SQLite", sqlite),
    carrying("two workers", workers),
    carrying("two workers, another replica signs", elsewhere),
  ];
  const rows = told.map(([name, { gateway, thread, postgres, node }]) => [
    name,
    micros(gateway),
    micros(thread),
    name.includes("SQLite") || postgres < 1 ? "" : micros(postgres),
    node < 1 ? "" : micros(node),
  ]);
  const head = [
    "CPU for one answer, µs",
    "gateway",
    "its money thread",
    "PostgreSQL",
    "local node",
  ];
  return parts([
    prose(`Measured by \`npm run bench:sizing\` on ${measured.date}: ${measured.coinslot}, ${measured.machine}, Node
      ${measured.node}, PostgreSQL ${measured.postgres} with its own defaults, anvil ${measured.evmNode} with a block each second;
      others kept ${percent(measured.others)} of the machine busy. Medians of interleaved rounds, above what the same
      processes take when nobody asks. What is not measured is said to be reckoned. The money thread is that of the one
      process of a replica that has ledger and keys; a second core does not help it.`),
    table([head, ...rows]),
    bullet(`**At rest** a process takes ${share(idle.process.gateway)} of a core and ${share(idle.process.postgres)} of
      PostgreSQL's, a replica with two workers ${share(idle.replica.gateway)}. A transaction that is in a block and not yet
      final takes ${micros(watching.gateway)} µs of the gateway a second. A replica that has nothing to do with a sale takes
      ${micros(elsewhere.bystander.local)} µs to hear of it, and ${micros(elsewhere.bystander.offered)} µs where another one
      signs it than was asked.`) +
      bullet(`**Written for each sale**: ${one(writes.inserted)} rows inserted and ${one(writes.updated)} updated in
        ${one(writes.commits)} commits, ${kilo(writes.walBytes)} of write-ahead log and ${kilo(writes.tableBytes)} of
        tables and indexes in PostgreSQL; ${kilo(writes.sqliteBytes)} of a SQLite file, with a kept
        answer of 1 KiB in it. Each commit waits for the disk, or
        the synchronous standby: that wait is no CPU, and not in the table.`) +
      bullet(`**Connections to PostgreSQL**: ${connections} of a replica, and never more than ${REPLICA_CONNECTIONS}.
        Workers have none.`),
  ]);
}

function carriesPart(figures: Figures): string {
  const cores = ["unpaid", "free"].map((name) => {
    const { gateway = NaN } = figures.kinds[name] ?? {};
    return [`one core: ${SAID[name] ?? name}`, rate((BUSY * 1e6) / gateway)];
  });
  const sales = carried(figures).map(({ name, perSecond }) => [`${name}: sales`, rate(perSecond)]);
  return parts([
    prose(
      `What one of each carries, reckoned from that, where it is busy ${percent(BUSY)} of the time:`,
    ),
    table([["", "a second"], ...cores, ...sales]),
    prose(`The 100 connections that PostgreSQL allows by default are enough for ${MAX_REPLICAS} replicas. Of payers who never
      paid here ${rate(newPayersPerSecond())} a second are served by each replica that signs on Base, the others wait
      (decision record 49). A signer makes its transactions one after the other, each with some calls to its node: where
      these take half a second together, it makes two a second, of up to 50 payments each.`),
  ]);
}

function networksPart(): string {
  const rows = capacities().map(({ network, blockSeconds, block, blocks, signer, source }) => [
    network,
    `${blockSeconds} s`,
    block.toLocaleString("en"),
    rate(blocks),
    rate(Math.min(signer, blocks)),
    source,
  ]);
  const head = ["network", "block", "payments in it", "a second", "one signer", "limit by"];
  return parts([
    prose(`What networks carry, reckoned from the limits that they publish, which change, as if nobody else were there: 52,000
      gas for one of 50 payments in a transaction, twice that on Sei and peaq, and 8,840 compute units on Solana, where each
      payment writes to its payee's token account and to its fee payer, so that a second payee with a second signer carries
      as much again.`),
    table([head, ...rows]),
  ]);
}

function ratesPart(figures: Figures): string {
  const plans = RATES.map((each) => plan(figures, each));
  const head = [
    "paid requests a second",
    "ledgers",
    "replicas",
    "their cores",
    "PostgreSQL's cores",
    "connections to each",
    "signers",
    "in the air",
    "of Base's blocks",
    "gives way first",
  ];
  const rows = plans.map((each) => [
    each.perSecond.toLocaleString("en"),
    String(each.ledgers),
    String(each.replicas),
    one(each.gatewayCores),
    one(each.postgresCores),
    String(each.connections),
    String(each.signers),
    rate(each.inAir),
    percent(each.blockShare),
    each.givesWay[0]?.name ?? "nothing",
  ]);
  return parts([
    prose(
      `What a rate of sales needs on Base, reckoned, with every part busy ${percent(BUSY)} of the time:`,
    ),
    table([head, ...rows]),
    plans.map((each) => bullet(advice(each))).join(""),
  ]);
}

function advice(needed: Plan): string {
  const { perSecond, givesWay, cannot, crowded, blockShare } = needed;
  const ways = givesWay.map((part) => `${part.name} (${rate(part.perSecond)} a second)`);
  const said = [
    ways.length === 0 ? "one of each carries it" : `one of each gives way: ${ways.join(", ")}`,
    ...added(needed),
    ...(blockShare > 1
      ? ["no network's blocks are enough: sell on several, and on Solana to several payees"]
      : []),
    ...(blockShare <= 1 && cannot.length > 0
      ? [`the blocks of ${cannot.join(", ")} do not hold it`]
      : []),
    ...(crowded.length > 0 ? [`it is more than half of all blocks of ${crowded.join(", ")}`] : []),
  ];
  return `**${perSecond.toLocaleString("en")} a second**: ${said.join("; ")}.`;
}

function added({ layout, ledgers, replicas, inAir, needsMemory }: Plan): readonly string[] {
  const memory = needsMemory
    ? [
        `give each more than 512 MiB, since ${rate(inAir / replicas)} requests wait in it for their block`,
      ]
    : [];
  if (replicas === 1) return memory;
  const divided =
    ledgers > 1
      ? [
          `divide what is sold among ${ledgers} payees, each with a ledger, a PostgreSQL and replicas of its own: all replicas of a ledger hear of each of its sales`,
        ]
      : [];
  const signing =
    layout === "shared"
      ? "with the same file: one of them has the signers, and signs for all"
      : "each with signers of its own in its own file: where all name the same ones, one replica has them and signs for all";
  return [...divided, `add replicas, ${replicas} in all, ${signing}`, ...memory];
}

function checkPart(figures: Figures): string {
  const { check } = figures;
  const reckoned = reckon(figures, checkSetting(figures));
  const all = (cost: Cost): number => cost.gateway + cost.postgres + cost.node;
  const row = (name: string, of: (cost: Cost) => number): string[] => [
    name,
    micros(of(reckoned)),
    micros(of(check.cost)),
    off(of(reckoned), of(check.cost)),
  ];
  const rows = [
    row("gateways", ({ gateway }) => gateway),
    row("PostgreSQL", ({ postgres }) => postgres),
    row("local node", ({ node }) => node),
    row("all", all),
  ];
  return parts([
    prose(`Held against a run of ${check.replicas} replicas with ${check.workers} workers each on one PostgreSQL, with one
      signer and one local network, at the rate that this machine holds with its load generators beside: ${one(check.sold)}
      sales a second for ${check.seconds} s, of ${one(check.asked)} asked for. Half of the buyers had their answer after
      ${rate(check.p50Ms)} ms, 99 of 100 after ${rate(check.p99Ms)} ms, with up to a second's wait for a block in it; a
      transaction carried ${one(check.together)} payments, where ${one(reckoned.together)} were reckoned.`),
    table([["CPU for one sale, µs", "reckoned", "measured", "off by"], ...rows]),
    prose(`Higher rates were not run: what is said of them is this reckoning, which knows nothing of what only grows with the
      rate, such as the one lock that PostgreSQL takes for all commits that notify.
      \`npm run bench:sizing -- --write\` measures your machine and makes these tables anew.`),
  ]);
}

/** How far a reckoned value is from the measured one. */
function off(reckoned: number, measured: number): string {
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
