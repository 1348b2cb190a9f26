/**
 * What the age of a ledger costs: a SQLite ledger of many sales, most of them tombstones, against a young one, with
 * the same questions in turn. `--sales`, `--rows` (of them with a row), `--young`, `--rounds`, `--folder`.
 */
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { growLedger } from "./growth-ledger.ts";
import { timeLedger, timeSweep, type Times } from "./growth-times.ts";
import { columns, coinslotVersion, say, sayAim, sayHead } from "./report.ts";
import { median } from "./rounds.ts";

/** What has to be as with a young ledger; a sale writes to places all over the file, and is shown. */
const AIMED = new Set(["start", "claim", "list", "watch", "counts", "payments"]);
/** The old ledger may take so much longer, and so many milliseconds, which one read of the disk takes. */
const MOST = 1.5;
const MARGIN_MS = 0.5;
/** What a step of a sweep may take of the process with the money, milliseconds. */
const MOST_STEP_MS = 5;

const { values } = parseArgs({
  options: {
    sales: { type: "string", default: "10000000" },
    rows: { type: "string", default: "1000000" },
    young: { type: "string", default: "10000" },
    rounds: { type: "string", default: "15" },
    folder: { type: "string", default: tmpdir() },
  },
});
const [sales, rows, young, rounds] = [values.sales, values.rows, values.young, values.rounds].map(
  Number,
);
if (sales === undefined || rows === undefined || young === undefined || rounds === undefined) {
  throw new Error("numbers are wanted");
}

const folder = await mkdtemp(join(values.folder, "coinslot-growth-"));
try {
  sayHead("The cost of a ledger's age", [coinslotVersion()]);
  const ages = [
    { name: `${young} sales`, path: join(folder, "young.db"), rows: young, tombstones: 0 },
    { name: `${sales} sales`, path: join(folder, "old.db"), rows, tombstones: sales - rows },
  ] as const;
  const [newest, oldest] = ages;
  const tombstoneBytes = await bytesOfTombstones(oldest.tombstones);
  for (const { path, ...grown } of ages) await growLedger(path, grown);
  const { size } = await stat(oldest.path);
  say(
    `${oldest.name}: ${rows} rows and ${oldest.tombstones} tombstones in a file of ${(size / 1e9).toFixed(2)} GB; ` +
      `a tombstone takes ${tombstoneBytes.toFixed(0)} bytes, ` +
      `a row ${((size - tombstoneBytes * oldest.tombstones) / rows).toFixed(0)}`,
  );
  const all = new Map(ages.map(({ path }) => [path, [] as Times[]]));
  // The first round warms up.
  for (let round = 0; round <= rounds; round += 1) {
    for (const { path } of round % 2 === 0 ? ages : ages.toReversed()) {
      const times = await timeLedger(path);
      if (round > 0) all.get(path)?.push(times);
    }
  }
  const medianOf = (path: string, name: string): number =>
    median((all.get(path) ?? []).map((times) => times[name] ?? Number.NaN));
  const names = Object.keys(all.get(oldest.path)?.[0] ?? {});
  const compared = names.map(
    (name) => [name, medianOf(newest.path, name), medianOf(oldest.path, name)] as const,
  );
  const table = compared.map(([name, before, after]) => [
    name,
    before.toFixed(3),
    after.toFixed(3),
  ]);
  for (const line of columns([["median, ms", newest.name, oldest.name], ...table]))
    say(`  ${line}`);
  for (const [name, before, after] of compared.filter(([each]) => AIMED.has(each))) {
    sayAim({ text: `${name}, ms`, value: after, atMost: before * MOST + MARGIN_MS });
  }
  const steps = await timeSweep(oldest.path, Math.min(2_000, rows / 2));
  const text = `CPU of a step of a sweep (the longest: ${Math.max(...steps).toFixed(1)}), ms`;
  sayAim({ text, value: median(steps), atMost: MOST_STEP_MS });
} finally {
  await rm(folder, { recursive: true, force: true });
}

/** Of a file that holds nothing else. */
async function bytesOfTombstones(count: number): Promise<number> {
  if (count === 0) return 0;
  const sample = Math.min(count, 200_000);
  const [without, having] = [join(folder, "none.db"), join(folder, "some.db")];
  await growLedger(without, { rows: 1, tombstones: 0 });
  await growLedger(having, { rows: 1, tombstones: sample });
  return ((await stat(having)).size - (await stat(without)).size) / sample;
}
