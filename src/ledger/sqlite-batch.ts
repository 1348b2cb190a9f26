/**
 * Group commit: operations that arrive in one turn of the event loop share one transaction and so one
 * wait for the disk. Each runs in a savepoint of its own, in the order of arrival; one that throws takes
 * back only itself. Nobody is answered before the COMMIT.
 */
import { LedgerUnavailable } from "./ledger.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

/** Operations that share a COMMIT at most: bounds how long one batch keeps the event loop. */
const MAX_BATCH = 128;

interface Operation {
  /** Runs inside the transaction; what it returns answers its caller once that is committed. */
  readonly run: () => () => void;
  readonly reject: (error: unknown) => void;
}

export class SqliteBatch {
  readonly #database: SqliteDatabase;
  readonly #onCommitted: () => void;
  readonly #most: number;
  #waiting: Operation[] = [];
  #isScheduled = false;

  /** `onCommitted` is called after each COMMIT, before those who wait for it hear of it. */
  constructor(database: SqliteDatabase, onCommitted: () => void, most = MAX_BATCH) {
    this.#database = database;
    this.#onCommitted = onCommitted;
    this.#most = most;
  }

  /**
   * Runs a step in a transaction of this turn. Rejects with what the step throws, and with
   * {@link LedgerUnavailable} where the transaction cannot be stored: then nothing of it is visible.
   */
  write<Value>(step: () => Value): Promise<Value> {
    return new Promise((resolve, reject) => {
      const run = (): (() => void) => {
        const value = step();
        return () => resolve(value);
      };
      this.#waiting.push({ run, reject });
      this.#schedule();
    });
  }

  /** Runs all that wait at once. */
  flush(): void {
    while (this.#waiting.length > 0) this.#runNext();
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#runNext();
      if (this.#waiting.length > 0) this.#schedule();
    });
  }

  #runNext(): void {
    const batch = this.#waiting.slice(0, this.#most);
    this.#waiting = this.#waiting.slice(this.#most);
    if (batch.length === 0) return;
    let answers: readonly (() => void)[];
    try {
      answers = this.#database.transaction(() => batch.map((operation) => this.#runOne(operation)));
    } catch (cause) {
      const error = cause instanceof LedgerUnavailable ? cause : notStored(cause);
      for (const { reject } of batch) reject(error);
      return;
    }
    this.#onCommitted();
    for (const answer of answers) answer();
  }

  /** How its caller is to be answered. Throws where the whole transaction is lost. */
  #runOne({ run, reject }: Operation): () => void {
    this.#database.run("SAVEPOINT operation", {});
    try {
      const answer = run();
      this.#database.run("RELEASE operation", {});
      return answer;
    } catch (error) {
      if (!this.#database.isInTransaction) throw error;
      this.#database.run("ROLLBACK TO operation", {});
      this.#database.run("RELEASE operation", {});
      return () => reject(error);
    }
  }
}

function notStored(cause: unknown): LedgerUnavailable {
  const detail = cause instanceof Error ? cause.message : String(cause);
  return new LedgerUnavailable(`the ledger's database did not store: ${detail}`, { cause });
}
