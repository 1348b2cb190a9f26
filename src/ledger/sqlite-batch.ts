/**
 * Group commit: operations that arrive in one turn of the event loop share one transaction and so one
 * wait for the disk. Each runs in a savepoint of its own, in the order of arrival; one that throws takes
 * back only itself. Nobody is answered before the COMMIT, but those who ask for no more than that
 * everybody sees what they did: theirs runs at once, and the next COMMIT stores it with the rest.
 *
 * A COMMIT costs more than what is in it: the wait for the disk stops the process, and pages are written
 * whole. Where they come thick and fast the next one is held back for a moment, in which others join it.
 */
import { LedgerUnavailable } from "./ledger.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

/** Operations that share a COMMIT at most: bounds how long one batch keeps the event loop. */
const MAX_BATCH = 128;

/** COMMITs that come at once before they are spaced, and the space between them then, milliseconds. */
const BURST = 4;
const SPACE_MS = 5;
/** COMMITs that are not held back after one that nobody has joined: the writers come one after another. */
const UNHELD = 4;

/** How long what is seen already may wait for a COMMIT, milliseconds, and how many operations may. */
const SOON_MS = 50;
const MAX_SOON = 512;

interface Operation {
  /** Runs inside the transaction; what it returns answers its caller once that is committed. */
  readonly run: () => () => void;
  readonly reject: (error: unknown) => void;
}

export interface SqliteBatchEvents {
  /** Something was written that others now see; before those who wait for it hear of it. */
  readonly onWritten: () => void;
  /** Something was taken back: of one operation, or of all since the last COMMIT. */
  readonly onTakenBack: () => void;
  /** What was answered already is not stored. */
  readonly onLost: (error: LedgerUnavailable) => void;
}

export interface SqliteBatchPace {
  /** Operations of one COMMIT at most. */
  readonly most?: number;
  /** Milliseconds between two COMMITs in a row; 0 for a database that has no disk to wait for. */
  readonly spaceMs?: number;
}

export class SqliteBatch {
  readonly #database: SqliteDatabase;
  readonly #events: SqliteBatchEvents;
  readonly #most: number;
  readonly #spaceMs: number;
  #waiting: Operation[] = [];
  #isScheduled = false;
  /** When the next COMMIT would be due if they were spaced evenly, of `performance.now`. */
  #dueAt = 0;
  #isHeld = false;
  #unheld = 0;

  /** Operations that were answered and are not stored yet. */
  #soon = 0;
  #isSoonScheduled = false;

  constructor(
    database: SqliteDatabase,
    events: SqliteBatchEvents,
    { most = MAX_BATCH, spaceMs = SPACE_MS }: SqliteBatchPace = {},
  ) {
    this.#database = database;
    this.#events = events;
    this.#most = most;
    this.#spaceMs = spaceMs;
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

  /**
   * Runs a step now: everybody sees it when this returns, and the next COMMIT stores it, which comes after
   * {@link SOON_MS} at the latest. Only for steps whose loss loses nothing. Throws as {@link write} rejects.
   */
  writeSoon<Value>(step: () => Value): Value {
    const database = this.#database;
    try {
      database.begin();
      database.run("SAVEPOINT operation", []);
    } catch (cause) {
      throw lost(cause);
    }
    this.#soon += 1;
    this.#scheduleSoon();
    let value: Value;
    try {
      value = step();
      database.run("RELEASE operation", []);
    } catch (error) {
      if (database.isInTransaction) this.#takeBack();
      else this.#loseAll(error);
      throw error;
    }
    this.#events.onWritten();
    if (this.#soon >= MAX_SOON) this.#runNext();
    return value;
  }

  /** Runs all that wait at once. */
  flush(): void {
    do this.#runNext();
    while (this.#waiting.length > 0);
  }

  #scheduleSoon(): void {
    if (this.#isSoonScheduled) return;
    this.#isSoonScheduled = true;
    setTimeout(() => {
      this.#isSoonScheduled = false;
      if (this.#soon > 0) this.#runNext();
    }, SOON_MS);
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const early = this.#dueAt - performance.now() - (BURST - 1) * this.#spaceMs;
    this.#isHeld = early > 0 && this.#unheld === 0 && this.#waiting.length < this.#most;
    if (this.#isHeld) setTimeout(this.#turn, early);
    else setImmediate(this.#turn);
  }

  readonly #turn = (): void => {
    this.#isScheduled = false;
    if (!this.#isHeld) this.#unheld = Math.max(0, this.#unheld - 1);
    else if (this.#waiting.length === 1) this.#unheld = UNHELD;
    this.#runNext();
    if (this.#waiting.length > 0) this.#schedule();
  };

  #runNext(): void {
    const batch = this.#waiting.slice(0, this.#most);
    this.#waiting = this.#waiting.slice(this.#most);
    const [first] = batch;
    if (first === undefined && this.#soon === 0) return;
    const now = performance.now();
    const latest = now + (BURST - 1) * this.#spaceMs;
    this.#dueAt = Math.min(Math.max(this.#dueAt, now), latest) + this.#spaceMs;
    if (first !== undefined && batch.length === 1 && this.#soon === 0) this.#runAlone(first);
    else this.#runTogether(batch);
  }

  #runTogether(batch: readonly Operation[]): void {
    let answers: readonly (() => void)[];
    try {
      answers = this.#database.transaction(() => batch.map((operation) => this.#runOne(operation)));
    } catch (cause) {
      const error = this.#loseAll(cause);
      for (const { reject } of batch) reject(error);
      return;
    }
    this.#soon = 0;
    this.#events.onWritten();
    for (const answer of answers) answer();
  }

  /** The transaction is savepoint enough. */
  #runAlone({ run, reject }: Operation): void {
    let thrown: { readonly error: unknown } | undefined;
    let answer: () => void;
    try {
      answer = this.#database.transaction(() => {
        try {
          return run();
        } catch (error) {
          if (this.#database.isInTransaction) thrown = { error };
          throw error;
        }
      });
    } catch (cause) {
      const error = this.#loseAll(cause);
      reject(thrown === undefined ? error : thrown.error);
      return;
    }
    this.#events.onWritten();
    answer();
  }

  /** How its caller is to be answered. Throws where the whole transaction is lost. */
  #runOne({ run, reject }: Operation): () => void {
    this.#database.run("SAVEPOINT operation", []);
    try {
      const answer = run();
      this.#database.run("RELEASE operation", []);
      return answer;
    } catch (error) {
      if (!this.#database.isInTransaction) throw error;
      this.#takeBack();
      return () => reject(error);
    }
  }

  #takeBack(): void {
    this.#database.run("ROLLBACK TO operation", []);
    this.#database.run("RELEASE operation", []);
    this.#events.onTakenBack();
  }

  /** All since the last COMMIT. */
  #loseAll(cause: unknown): LedgerUnavailable {
    const error = lost(cause);
    this.#events.onTakenBack();
    if (this.#soon > 0) this.#events.onLost(error);
    this.#soon = 0;
    return error;
  }
}

function lost(cause: unknown): LedgerUnavailable {
  if (cause instanceof LedgerUnavailable) return cause;
  const detail = cause instanceof Error ? cause.message : String(cause);
  return new LedgerUnavailable(`the ledger's database did not store: ${detail}`, { cause });
}
