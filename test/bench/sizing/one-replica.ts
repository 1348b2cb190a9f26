/** One replica: what each kind of request takes, with PostgreSQL, with SQLite, and with two workers. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { say } from "../report.ts";
import { median } from "../rounds.ts";
import { sized } from "../size.ts";
import { connectionsOf, paymentsIn, rowsOf, tableBytes, walBytes } from "./database.ts";
import type { Figures } from "./figures.ts";
import { kindsOf, once, salesOf, type Kind, type Trio } from "./kinds.ts";
import { costOf, loadOf, restOf, saleCostOf, spanOf, watchingOf, type Span } from "./spans.ts";
import type { Shop, SizingStage } from "./stage.ts";

const ROUNDS = sized(3, 1);
/** Sales before anything is measured, so that what runs often is compiled. */
const WARM_UP_SALES = sized(400, 4);
const IDLE_MS = sized(6_000, 100);

export type OneReplica = Pick<Figures, "idle" | "watching" | "kinds" | "writes" | "connections"> & {
  readonly sales: Omit<Figures["sales"], "elsewhere">;
};

export async function warmUp(stage: SizingStage, shops: readonly Shop[]): Promise<void> {
  for (const { url } of shops) await loadOf(stage.load, once(url, stage.sales(WARM_UP_SALES)));
}

/** Nobody asks for a while. */
export async function rest(stage: SizingStage, shops: readonly Shop[]): Promise<Span> {
  return spanOf(stage, shops, async () => {
    await pause(IDLE_MS);
    return 0;
  });
}

export async function measureOneReplica(stage: SizingStage): Promise<OneReplica> {
  const [url, workersUrl] = [await stage.postgres.database(), await stage.postgres.database()];
  const path = join(stage.folder, "ledger.db");
  const trio: Trio = [
    await stage.shop({ store: url, workers: 1 }),
    await stage.shop({ store: `sqlite:${path}`, workers: 1 }),
    await stage.shop({ store: workersUrl, workers: 2 }),
  ];
  const [one, sqlite, workers] = trio;
  const database = await stage.client(workersUrl);
  try {
    const [emptyFile, emptyTables] = [statSync(path).size, await tableBytes(database)];
    const kinds = kindsOf(stage, trio);
    const sales = salesOf(stage, trio);
    // Nothing is watched yet.
    const idle = await rest(stage, trio);
    await warmUp(stage, trio);
    for (const kind of kinds) await kind.work(await kind.prepare());
    const wal: number[] = [];
    const spans = await rounds(stage, trio, [...kinds, ...sales], async (kind, run) => {
      const before = await walBytes(database);
      const span = await run();
      if (kind.name === "workers") wal.push(((await walBytes(database)) - before) / span.answers);
      return span;
    });
    const watching = watchingOf(await rest(stage, trio), idle);
    const connections = await connectionsOf(database);
    const sold = await paymentsIn(database);
    await Promise.all([workers.server.stop(), sqlite.server.stop()]);
    const { inserted, updated, deleted, commits } = await rowsOf(database);
    const soldOnSqlite =
      WARM_UP_SALES + of(spans, "sqlite").reduce((sum, { answers }) => sum + answers, 0);
    const ground = { idle, watching };
    const sale = (name: string, place: number) => saleCostOf(of(spans, name), ground, [place]);
    return {
      idle: { process: restOf(idle, [0], 2), replica: restOf(idle, [2], 2) },
      watching,
      kinds: Object.fromEntries(
        kinds.map(({ name, place }) => [name, costOf(of(spans, name), ground, [place])]),
      ),
      sales: {
        slow: sale("slow", 0),
        fast: sale("fast", 0),
        sqlite: sale("sqlite", 1),
        workers: sale("workers", 2),
      },
      writes: {
        inserted: inserted / sold,
        updated: updated / sold,
        deleted: deleted / sold,
        commits: commits / sold,
        walBytes: median(wal),
        tableBytes: ((await tableBytes(database)) - emptyTables) / sold,
        sqliteBytes: (statSync(path).size - emptyFile) / soldOnSqlite,
      },
      connections,
    };
  } finally {
    await database.end();
    await one.server.stop();
  }
}

type Spans = ReadonlyMap<string, readonly Span[]>;

function of(spans: Spans, name: string): readonly Span[] {
  return spans.get(name) ?? [];
}

/** All kinds in turn, in alternating order, so that whatever else the machine does meets all of them. */
async function rounds(
  stage: SizingStage,
  shops: readonly Shop[],
  kinds: readonly Kind[],
  around: (kind: Kind, run: () => Promise<Span>) => Promise<Span>,
): Promise<Spans> {
  const spans = new Map(kinds.map(({ name }) => [name, [] as Span[]]));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const kind of round % 2 === 0 ? kinds : kinds.toReversed()) {
      const requests = await kind.prepare();
      const run = (): Promise<Span> => spanOf(stage, shops, () => kind.work(requests));
      spans.get(kind.name)?.push(await around(kind, run));
    }
    say(`  round ${round + 1} of ${ROUNDS}`);
  }
  return spans;
}
