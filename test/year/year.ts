/**
 * A year of a gateway in a box: sales of each day on a clock of its own, each claimed, signed with others in one
 * transaction, settled and delivered in the SQLite ledger, which is swept every day by `store.keep`; and every day a key of
 * the configuration of a gateway that runs beside it is changed by a reload, and changed back. Says for every month what a
 * sale, a sweep and a reload took, and what memory and file had become. Ends with 1 where the last month is dearer than an
 * early one.
 *
 *     npm run prove:year [-- --sales 10000000 --days 365 --keep 30]
 */
import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openSqliteLedger } from "../../src/ledger/sqlite/sqlite.ts";
import type { Ledger } from "../../src/ledger/ledger.ts";
import type { SweepPlace } from "../../src/ledger/sweep.ts";
import { columns, say, sayAim, sayHead, coinslotVersion } from "../bench/report.ts";
import { baseFile, changedFile, KEY_CHANGES } from "../rotation/keys.ts";
import { systemTimers, type Timers } from "../../src/time/time.ts";
import { RotationStage } from "../rotation/stage.ts";
import { startChain } from "../support/chain.ts";
import { MovableTime } from "../support/movable-time.ts";
import { freshPayments } from "./fresh-payments.ts";
import { SETTLEMENT, sign, termsOf } from "../unit/ledger/ledger-driver.ts";
import type { ExamplePayment } from "../unit/ledger/example-payment.ts";

const DAY_MS = 86_400_000;
const MONTH = 30;
/** Payments of one transaction, and transactions under way at the same time. */
const TOGETHER = 30;
const AT_ONCE = 8;
/** What the last month may cost, as a multiple of the early one, and what no clock of a busy machine tells apart. */
const MOST = 1.5;
const MARGIN = { ms: 0.2, reloadMs: 50, bytes: 32_000_000 } as const;

/** What the store puts off in a year of ten million sales is put off for sixteen hours, in which nothing happens. */
const IMPATIENT: Timers = { ...systemTimers, after: (_ms, run) => void setImmediate(run) };

/** Of one month. */
interface Month {
  readonly saleMs: number;
  readonly sweepMs: number;
  readonly booksMs: number;
  readonly reloadMs: number;
  readonly heapBytes: number;
  readonly fileBytes: number;
}

const { values } = parseArgs({
  options: {
    sales: { type: "string", default: "10000000" },
    days: { type: "string", default: "365" },
    keep: { type: "string", default: "30" },
    folder: { type: "string", default: tmpdir() },
  },
});
const [sales = 0, days = 0, keep = 0] = [values.sales, values.days, values.keep].map(Number);
const perDay = Math.max(1, Math.round(sales / days));

const folder = await mkdtemp(join(values.folder, "coinslot-year-"));
const chain = await startChain();
try {
  await using stage = await RotationStage.open(chain, baseFile);
  const path = join(folder, "ledger.db");
  const time = new MovableTime();
  // The year ends now: what is signed is not from the future.
  time.offsetMs = -days * DAY_MS;
  const ledger = await openSqliteLedger({
    path,
    time,
    timers: IMPATIENT,
    life: crypto.randomUUID(),
  });
  sayHead(`A year in a box: ${perDay} sales on each of ${days} days, kept for ${keep}`, [
    coinslotVersion(),
  ]);
  const months: Month[] = [];
  let spent = { sales: 0, sweep: 0, reload: 0, days: 0 };
  let refused = 0;
  for (let day = 1; day <= days; day += 1) {
    spent.sales += await timed(() => sellDay(ledger, time));
    spent.sweep += await timed(() => sweep(ledger, time.now() - keep * DAY_MS));
    spent.reload += await timed(async () => {
      const change = KEY_CHANGES[day % KEY_CHANGES.length];
      if (change === undefined) return;
      for (const file of [changedFile(stage.names, change), baseFile(stage.names)]) {
        if ((await stage.change(file)) !== undefined) refused += 1;
      }
    });
    spent.days += 1;
    if (spent.days < MONTH && day < days) continue;
    months.push(await monthOf(ledger, spent, path, time));
    spent = { sales: 0, sweep: 0, reload: 0, days: 0 };
  }
  tell(months);
  const counts = await ledger.books.counts();
  const entries = await ledger.books.accounts({
    from: "2000-01-01",
    to: new Date(time.now() + DAY_MS).toISOString().slice(0, 10),
  });
  const sold = entries.reduce((sum, { kind, count }) => sum + (kind === "sale" ? count : 0), 0);
  say(`${sold} sales in the books, ${2 * days} reloads of which ${refused} were refused`);
  sayAim({ text: "sales that the books have not", value: perDay * days - sold, atMost: 0 });
  sayAim({
    text: "sales without an end",
    value: counts.unresolved + counts.undelivered,
    atMost: 0,
  });
  sayAim({ text: "reloads that were refused", value: refused, atMost: 0 });
  await ledger.close();
} finally {
  await chain.stop();
  await rm(folder, { recursive: true, force: true });
}

async function sellDay(ledger: Ledger, time: MovableTime): Promise<void> {
  const startMs = time.offsetMs;
  let left = perDay;
  const work = async (): Promise<void> => {
    while (left > 0) {
      const count = Math.min(TOGETHER, left);
      left -= count;
      time.offsetMs = startMs + Math.floor(((perDay - left) * DAY_MS) / perDay);
      await sell(ledger, freshPayments(count));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  time.offsetMs = startMs + DAY_MS;
}

/** Together, as payments are that come while a transaction is made. */
async function sell(ledger: Ledger, payments: readonly ExamplePayment[]): Promise<void> {
  const all = (step: (payment: ExamplePayment) => Promise<unknown>): Promise<unknown> =>
    Promise.all(payments.map(step));
  await all((each) => ledger.step(each.key, { kind: "claim", terms: termsOf(each) }));
  const { id } = await sign(ledger, payments);
  await all(({ key }) => ledger.step(key, { kind: "settled", settlement: SETTLEMENT }));
  await all(({ key }) => ledger.step(key, { kind: "delivering" }));
  await all(({ key }) => ledger.step(key, { kind: "delivered" }));
  await ledger.signing.concluded(id, "CLOSED");
}

async function sweep(ledger: Ledger, beforeMs: number): Promise<void> {
  for (let from: SweepPlace | undefined; ;) {
    ({ next: from } = await ledger.upkeep.sweep({ beforeMs, from, archive: undefined }));
    if (from === undefined) return;
  }
}

async function monthOf(
  ledger: Ledger,
  spent: {
    readonly sales: number;
    readonly sweep: number;
    readonly reload: number;
    readonly days: number;
  },
  path: string,
  time: MovableTime,
): Promise<Month> {
  const today = new Date(time.now()).toISOString().slice(0, 10);
  const booksMs = await timed(() => ledger.books.accounts({ from: today, to: today }));
  globalThis.gc?.();
  return {
    saleMs: spent.sales / (spent.days * perDay),
    sweepMs: spent.sweep / (spent.days * perDay),
    booksMs: booksMs / perDay,
    reloadMs: spent.reload / (2 * spent.days),
    heapBytes: process.memoryUsage().heapUsed,
    fileBytes: (await stat(path)).size,
  };
}

/** The early month is the second one: by then the first sales have gone, and everything is warm. */
function tell(months: readonly Month[]): void {
  const table = months.map((month, index) => [
    String(index + 1),
    month.saleMs.toFixed(3),
    month.sweepMs.toFixed(3),
    month.booksMs.toFixed(3),
    month.reloadMs.toFixed(1),
    (month.heapBytes / 1e6).toFixed(1),
    (month.fileBytes / 1e6).toFixed(1),
  ]);
  const head = ["month", "sale", "sweep", "books", "reload, ms", "heap, MB", "file, MB"];
  for (const line of columns([head, ...table])) say(`  ${line}`);
  const early = months[Math.ceil(keep / MONTH)];
  const last = months.at(-1);
  if (early === undefined || last === undefined || early === last) return;
  for (const part of ["saleMs", "sweepMs", "booksMs", "reloadMs"] as const) {
    const margin = part === "reloadMs" ? MARGIN.reloadMs : MARGIN.ms;
    const atMost = rounded(early[part] * MOST + margin);
    sayAim({ text: `${part}, last month`, value: last[part], atMost });
  }
  const heap = early.heapBytes * MOST + MARGIN.bytes;
  sayAim({ text: "heap, MB", value: last.heapBytes / 1e6, atMost: rounded(heap / 1e6) });
  const grown = (last.fileBytes - early.fileBytes) / ((months.length - 2) * MONTH * perDay);
  say(`the file grew by ${grown.toFixed(1)} bytes for each sale that was swept: its tombstone`);
}

function rounded(value: number): number {
  return Number(value.toFixed(2));
}

async function timed(run: () => Promise<unknown>): Promise<number> {
  const began = performance.now();
  await run();
  return performance.now() - began;
}
