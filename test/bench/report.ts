/** What a bench prints: the machine, the versions, a table, and each aim with what was reached. */
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { cpus, loadavg, release } from "node:os";
import { join } from "node:path";
import type { Measured, Pace } from "./rounds.ts";
import { IS_SHORT } from "./size.ts";

export const ROOT = join(import.meta.dirname, "../..");

export const say = (text = ""): void => void process.stdout.write(`${text}\n`);

/** Title, machine and versions. */
export function sayHead(title: string, versions: readonly string[]): void {
  const [cpu] = cpus();
  const load = loadavg()[0]?.toFixed(1);
  say(title);
  say(
    `  machine   ${cpus().length} cores (${cpu?.model}), Linux ${release()}, load ${load} at start`,
  );
  say(`  node      ${process.version}, also for all peers that run on it`);
  say(`  versions  ${versions.join(", ")}`);
  if (IS_SHORT) say("  short     every part once and small: these figures say nothing");
}

export function sayPace({ rounds, roundMs }: Pace, connections: number): void {
  const each = (roundMs / 1000).toFixed(1);
  say(
    `  load      ${connections} keep-alive connections, ${rounds} rounds of ${each} s in alternating`,
  );
  say("            order; medians. CPU is that of the server's process tree, from /proc.");
}

/** `x402 1.2.0`, as installed. */
export function versionOf(name: string): string {
  const path = join(ROOT, name === "coinslot" ? "" : `node_modules/${name}`, "package.json");
  const manifest: unknown = JSON.parse(readFileSync(path, "utf8"));
  const known = typeof manifest === "object" && manifest !== null && "version" in manifest;
  return `${name} ${known ? String(manifest.version) : "?"}`;
}

/** The commit that is measured, and whether the tree differs from it. */
export function coinslotVersion(): string {
  const commit = git("rev-parse", "--short", "HEAD");
  const changed = git("status", "--porcelain", "--", "src") === "" ? "" : " with changes";
  return `${versionOf("coinslot")}${commit === "" ? "" : ` (${commit}${changed})`}`;
}

/** The first one measured is ours; the others get a column that divides ours by theirs. */
export function sayTable(title: string, measured: readonly Measured[]): void {
  const [ours, ...peers] = measured;
  if (ours === undefined) return;
  const head = [
    "",
    "CPU µs/answer",
    "(rounds)",
    "answers/s",
    "p50 ms",
    "p99 ms",
    "coinslot's CPU / its",
  ];
  const rows = measured.map((each) => [
    each.name,
    each.cpuMicros.toFixed(1),
    each.cpuRange.map((value) => value.toFixed(0)).join("–"),
    each.perSecond.toFixed(0),
    each.p50Ms.toFixed(2),
    each.p99Ms.toFixed(2),
    peers.includes(each) ? (ours.cpuMicros / each.cpuMicros).toFixed(2) : "",
  ]);
  say(`\n${title}`);
  for (const line of columns([head, ...rows])) say(`  ${line}`);
}

/** Cells under each other: text to the left, figures to the right. */
export function columns(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, at) =>
    Math.max(...rows.map((row) => row[at]?.length ?? 0)),
  );
  return rows.map((row) =>
    row
      .map((cell, at) => (at === 0 ? cell.padEnd(widths[at] ?? 0) : cell.padStart(widths[at] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
}

export interface Aim {
  readonly text: string;
  readonly value: number;
  readonly atMost?: number;
  readonly atLeast?: number;
}

export function sayAim({ text, value, atMost = Infinity, atLeast = -Infinity }: Aim): void {
  const reached = value <= atMost && value >= atLeast;
  const bound = atMost === Infinity ? `≥ ${atLeast}` : `≤ ${atMost}`;
  say(`  ${reached ? "reached" : "MISSED "}  ${text}: ${value.toFixed(2)} (aim ${bound})`);
}

/** What git prints; "" where this is no checkout. */
function git(...args: string[]): string {
  try {
    return execFileSync("git", args, { cwd: ROOT, encoding: "utf8", stdio: "pipe" }).trim();
  } catch {
    return "";
  }
}
