/**
 * Nanoseconds per match at 10, 1,000 and 10,000 routes: `node test/bench/routing.ts`. Beside the router,
 * what a path costs before it (`readTarget`, and `new URL` for comparison) and, where it is installed,
 * find-my-way. Each figure is the least disturbed of several rounds, taken in turn.
 */
import { createRequire } from "node:module";
import { cpus } from "node:os";
import { Router } from "../../src/gateway/paths/router.ts";
import type { Route } from "../../src/gateway/paths/router.ts";
import { readTarget } from "../../src/gateway/paths/target.ts";
import { sized } from "./size.ts";

const rounds = sized(7, 1);
const matchesPerRound = sized(200_000, 1_000);
const pathsPerTable = 1_000;

const shapes = [
  (n: number) => [`/static/page-${n}`, `/static/page-${n}`],
  (n: number) => [`/v1/resource-${n}/:id`, `/v1/resource-${n}/4711`],
  (n: number) => [`/v2/resource-${n}/:id/parts/:part`, `/v2/resource-${n}/4711/parts/42`],
  (n: number) => [`/files-${n}/*`, `/files-${n}/a/b/c.txt`],
] as const;

interface Table {
  readonly patterns: readonly string[];
  readonly paths: readonly string[];
}

function table(size: number): Table {
  const patterns: string[] = [];
  const all: string[] = [];
  for (let n = 0; n < size; n += 1) {
    const [pattern = "", path = ""] = shapes[n % shapes.length]?.(n) ?? [];
    patterns.push(pattern);
    all.push(path);
  }
  // Spread over the table, in an order that no cache of the last match likes.
  const paths = Array.from({ length: pathsPerTable }, (_, n) => all[(n * 7919) % size] ?? "/");
  return { patterns, paths };
}

type Contender = (path: string) => unknown;

function ours({ patterns }: Table): Contender {
  const routes = patterns.map((pattern): Route<string> => ({
    methods: ["GET"],
    pattern,
    value: pattern,
  }));
  const router = new Router(routes, { guarded: () => true, unmatchedGuarded: true });
  return (path) => router.match("GET", path);
}

interface FindMyWay {
  on(method: string, path: string, handler: () => void): void;
  find(method: string, path: string): unknown;
}

/** Null when it is not installed. */
function findMyWay({ patterns }: Table): Contender | null {
  let create: (options: object) => FindMyWay;
  try {
    create = createRequire(import.meta.url)("find-my-way") as typeof create;
  } catch {
    return null;
  }
  const router = create({});
  for (const pattern of patterns) router.on("GET", pattern, () => {});
  return (path) => router.find("GET", path);
}

function nanoseconds(contender: Contender, paths: readonly string[]): number {
  const started = process.hrtime.bigint();
  for (let n = 0; n < matchesPerRound; n += 1) contender(paths[n % paths.length] ?? "/");
  return Number(process.hrtime.bigint() - started) / matchesPerRound;
}

/** The best of several rounds for each contender, in turn so that a disturbance hits all of them. */
function race(contenders: Readonly<Record<string, Contender | null>>, paths: readonly string[]) {
  const best: Record<string, number> = {};
  for (let round = 0; round < rounds; round += 1) {
    for (const [name, contender] of Object.entries(contenders)) {
      if (contender === null) continue;
      best[name] = Math.min(best[name] ?? Number.POSITIVE_INFINITY, nanoseconds(contender, paths));
    }
  }
  return best;
}

const nowhere = new Set<string>();
console.log(`node ${process.version}, ${cpus()[0]?.model ?? "unknown CPU"}; ns per call`);
const rows: Record<string, Record<string, number>> = {};
for (const size of [10, 1_000, 10_000]) {
  const built = table(size);
  const found = race({ router: ours(built), "find-my-way": findMyWay(built) }, built.paths);
  rows[`${size} routes`] = Object.fromEntries(
    Object.entries(found).map(([name, time]) => [name, Math.round(time)]),
  );
}
console.table(rows);
const { paths } = table(1_000);
const before = race(
  {
    readTarget: (path) => readTarget("GET", path, nowhere),
    "new URL": (path) => new URL(path, "http://gateway"),
  },
  paths,
);
for (const [name, time] of Object.entries(before)) console.log(`${name}: ${Math.round(time)} ns`);
