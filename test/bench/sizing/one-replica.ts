/** One replica: what each kind of request takes, with PostgreSQL, with SQLite, and with two workers. */
import { statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { say } from "../report.ts";
import { sized } from "../size.ts";
import { connectionsOf, paymentsIn, rowsOf, tableBytes } from "./database.ts";
import type { Figures } from "./figures.ts";
import { kindsOf, once, salesOf, type Kind, type Trio } from "./kinds.ts";
import {
  costOf,
  loadOf,
  restOf,
  saleCostOf,
  spanOf,
  watchingOf,
  writtenOf,
  type Span,
} from "./spans.ts";
import type { Shop, SizingStage } from "./stage.ts";

const ROUNDS = sized(3, 1);
/** Sales before anything is measured, so that what runs often is compiled. */
const WARM_UP_SALES = sized(400, 4);
const IDLE_MS = sized(8_000, 100);
/** Whatever was watched has been looked at once more. */
const LATE_LOOK_MS = sized(5_000, 100);
/** For a compiler a second is short on a busy machine, and no time is long enough for a slow answer. */
const [WARM_UP_ANSWERS, MAX_WARM_UPS] = sized([15_000, 5], [1, 1]);

export type OneReplica = Pick<Figures, "idle" | "watching" | "kinds" | "writes" | "connections"> & {
  readonly sales: Omit<Figures["sales"], "elsewhere">;
};

export async function warmUp(stage: SizingStage, shops: readonly Shop[]): Promise<void> {
  for (const { url } of shops) await loadOf(stage.load, once(url, stage.sales(WARM_UP_SALES)));
}

/** Nobody asks for a while. */
async function rest(stage: SizingStage, shops: readonly Shop[]): Promise<Span> {
  return spanOf(stage, shops, async () => {
    await pause(IDLE_MS);
    return 0;
  });
}

/** The same, once everything that was paid is final, so that nothing is watched. */
export async function restOfFinal(stage: SizingStage, shops: readonly Shop[]): Promise<Span> {
  await stage.chain.mine(stage.finalBlocks + 1);
  await pause(LATE_LOOK_MS);
  return rest(stage, shops);
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
    for (const kind of kinds) await warmUpKind(kind);
    await warmUp(stage, trio);
    const spans = await rounds(stage, trio, [...kinds, ...sales]);
    const watched = await rest(stage, trio);
    const idle = await restOfFinal(stage, trio);
    const watching = watchingOf(watched, idle);
    const connections = await connectionsOf(database);
    const sold = await paymentsIn(database);
    await Promise.all([workers.server.stop(), sqlite.server.stop()]);
    const { inserted, updated, deleted } = await rowsOf(database);
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
        commits: writtenOf(of(spans, "workers"), idle, "commits"),
        walBytes: writtenOf(of(spans, "workers"), idle, "walBytes"),
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

async function warmUpKind(kind: Kind): Promise<void> {
  const most = kind.isSelling ? 1 : MAX_WARM_UPS;
  for (let [times, answers] = [0, 0]; times < most && answers < WARM_UP_ANSWERS; times += 1) {
    answers += await kind.work(await kind.prepare());
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
): Promise<Spans> {
  const spans = new Map(kinds.map(({ name }) => [name, [] as Span[]]));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const kind of round % 2 === 0 ? kinds : kinds.toReversed()) {
      const requests = await kind.prepare();
      spans.get(kind.name)?.push(await spanOf(stage, shops, () => kind.work(requests)));
    }
    say(`  round ${round + 1} of ${ROUNDS}`);
  }
  return spans;
}
