/** How long the command line takes to do something, from source (type stripping) and from the bundle. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { glob, mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { gatewayConfig } from "./contenders/coinslot.ts";
import { ticksPerSecond } from "./process.ts";
import { columns, coinslotVersion, ROOT, say, sayAim, sayHead, versionOf } from "./report.ts";
import { median } from "./rounds.ts";
import { sized } from "./size.ts";

const RUNS = sized(15, 1);
const SOURCE = join(ROOT, "src/main.ts");
/** `--bundle FILE` names another one. */
const { bundle: BUNDLE } = parseArgs({
  options: { bundle: { type: "string", default: join(ROOT, "dist/main.js") } },
}).values;

interface Run {
  readonly ms: number;
  readonly cpuMs: number;
}

await using closing = new AsyncDisposableStack();
const folder = await mkdtemp(join(tmpdir(), "coinslot-bench-"));
closing.defer(() => rm(folder, { recursive: true, force: true }));

sayHead("Start-up", [coinslotVersion(), versionOf("rolldown")]);
if (!existsSync(BUNDLE)) throw new Error("there is no bundle to measure: npm run build");
const built = (await stat(BUNDLE)).mtimeMs;
for await (const file of glob("src/**/*.ts", { cwd: ROOT })) {
  if ((await stat(join(ROOT, file))).mtimeMs < built) continue;
  say(`  note      the bundle is older than ${file}: npm run build`);
  break;
}
say(
  `  load      ${RUNS} runs of each in turn, medians; from spawning to the exit, or to listening`,
);

const config = join(folder, "coinslot.yaml");
writeFileSync(config, gatewayConfig(folder, "http://127.0.0.1:9", "http://127.0.0.1:9"));
const commands = [
  ["--version", ["--version"], null],
  ["check minimal.yaml", ["check", join(ROOT, "config/minimal.yaml")], null],
  ["serve, 100 routes", ["serve", config], /^ *gateway +http/m],
] as const;

const rows = [["", "source ms", "bundle ms", "source CPU ms", "bundle CPU ms", "bundle / source"]];
const ratios: (readonly [string, number])[] = [];
for (const [name, args, listening] of commands) {
  const source: Run[] = [];
  const bundle: Run[] = [];
  for (let run = 0; run < RUNS; run += 1) {
    const first = run % 2 === 0;
    const pair = [
      [SOURCE, source],
      [BUNDLE, bundle],
    ] as const;
    for (const [file, runs] of first ? pair : pair.toReversed()) {
      runs.push(await time([file, ...args], listening));
    }
  }
  const ms = [source, bundle].map((runs) => median(runs.map((run) => run.ms)));
  const cpu = [source, bundle].map((runs) => median(runs.map((run) => run.cpuMs)));
  const [fromSource = Number.NaN, fromBundle = Number.NaN] = ms;
  const figures = [...ms, ...cpu].map((figure) => figure.toFixed(0));
  rows.push([name, ...figures, (fromBundle / fromSource).toFixed(2)]);
  ratios.push([name, fromBundle / fromSource]);
}
say();
for (const line of columns(rows)) say(`  ${line}`);
say();
for (const [name, value] of ratios) {
  sayAim({ text: `bundle's time as a multiple of the source's, ${name}`, value, atMost: 0.5 });
}

/** `listening` null: until the process ends; else until it prints that, and then it is ended. */
async function time(args: readonly string[], listening: RegExp | null): Promise<Run> {
  const before = cpuOfEndedChildren();
  const started = performance.now();
  const child = spawn(process.execPath, [...args], { stdio: ["ignore", "ignore", "pipe"] });
  let ms = 0;
  let output = "";
  child.stderr.on("data", (part: Buffer) => {
    output += part.toString();
    if (ms > 0 || listening?.test(output) !== true) return;
    ms = performance.now() - started;
    child.kill("SIGKILL");
  });
  const [code] = await once(child, "exit");
  if (listening === null && code === 0) ms = performance.now() - started;
  if (ms === 0) throw new Error(`${args.join(" ")} ended with ${code}\n${output}`);
  return { ms, cpuMs: cpuOfEndedChildren() - before };
}

/** CPU time of this process' children that have ended, milliseconds (proc(5), fields 16 and 17). */
function cpuOfEndedChildren(): number {
  const stat = readFileSync("/proc/self/stat", "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return ((Number(fields[13]) + Number(fields[14])) / ticksPerSecond) * 1000;
}
