/** What is paused, as rows of SQLite. */
import type { Time } from "../../time/time.ts";
import { readPause, type Pause, type Pauses, type PauseScope } from "../pauses.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import { openBeside } from "./sqlite-schema.ts";

type Now = Pick<Time, "now">;

export class SqlitePauses implements Pauses {
  readonly #database: SqliteDatabase;
  readonly #time: Now;

  constructor(database: SqliteDatabase, time: Now) {
    this.#database = database;
    this.#time = time;
  }

  async list(): Promise<readonly Pause[]> {
    const rows = this.#database.all(
      `SELECT scope, until_ms AS "untilMs", reason, paused_by AS "by", since_ms AS "sinceMs" FROM pauses
       WHERE until_ms IS NULL OR until_ms > :now ORDER BY since_ms, scope`,
      { now: this.#time.now() },
    );
    return rows.map(readPause);
  }

  async pause(pause: Pause): Promise<void> {
    this.#database.run(
      `INSERT INTO pauses (scope, until_ms, reason, paused_by, since_ms)
       VALUES (:scope, :untilMs, :reason, :by, :sinceMs)
       ON CONFLICT (scope) DO UPDATE SET
         until_ms = excluded.until_ms, reason = excluded.reason, paused_by = excluded.paused_by,
         since_ms = excluded.since_ms`,
      { ...pause },
    );
  }

  async resume(scope?: PauseScope): Promise<number> {
    const there = await this.list();
    const ended = there.filter((each) => scope === undefined || each.scope === scope);
    for (const each of ended) {
      this.#database.run("DELETE FROM pauses WHERE scope = :scope", { scope: each.scope });
    }
    return ended.length;
  }
}

/**
 * Opens the pauses of a ledger that another process may have open: they are the one thing in it that whoever comes may
 * write, since nobody keeps them in memory. Rejects with {@link LedgerUnavailable} where there is no such file, or one
 * of another schema.
 */
export async function openSqlitePauses({
  path,
  time,
}: {
  readonly path: string;
  readonly time: Now;
}): Promise<Pauses & { close(): Promise<void> }> {
  const database = openBeside(path);
  const pauses = new SqlitePauses(database, time);
  return {
    list: () => pauses.list(),
    pause: (pause) => pauses.pause(pause),
    resume: (scope) => pauses.resume(scope),
    close: async () => database.close(),
  };
}
