/** Pots in SQLite, as one life sees them. What each question makes of them is judged by `pots.ts`. */
import { LedgerUnavailable } from "../ledger-fault.ts";
import { requireDraws, type PotBalance, type PotDraw, type PotDrawn, type Pots } from "../pots.ts";
import type { SqliteCore } from "./sqlite-core.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import { drawAll, potOf, returnLeases } from "./sqlite-pot-rows.ts";

/** The view of one life. */
export class SqlitePots implements Pots {
  readonly #core: SqliteCore;
  readonly #database: SqliteDatabase;
  readonly #life: string;
  #isOver = false;

  constructor(core: SqliteCore, database: SqliteDatabase, life: string) {
    this.#core = core;
    this.#database = database;
    this.#life = life;
  }

  /** The life is over: what comes late of it leases nothing any more. Within its caller's transaction. */
  end(): void {
    this.#isOver = true;
    returnLeases(this.#database, (life) => life === this.#life);
  }

  async draw(draws: readonly PotDraw[]): Promise<readonly PotDrawn[]> {
    requireDraws(draws);
    return this.#core.write(() => {
      if (this.#isOver) throw new LedgerUnavailable("this life is over");
      // What was settled and is not stored yet is in its pot, too.
      this.#core.storeNow();
      const moment = { life: this.#life, nowMs: this.#core.time.now() };
      return drawAll(this.#database, draws, moment);
    });
  }

  async balances(pots: readonly string[]): Promise<ReadonlyMap<string, PotBalance>> {
    this.#core.storeNow();
    const found = pots.flatMap((name) => {
      const pot = potOf(this.#database, name);
      return pot === undefined ? [] : ([[name, pot]] as const);
    });
    return new Map(found);
  }
}
