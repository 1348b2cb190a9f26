/**
 * Group commit: operations that arrive in one turn of the event loop share one transaction and so one
 * wait for the disk, in the order of arrival. One that throws takes back only itself: the transaction is
 * then begun anew with a savepoint for each, which to have always costs a copy of each page that is
 * written. So a step may run twice; what it does outside the database must allow that. Nobody is answered
 * before the COMMIT.
 *
 * A COMMIT costs more than what is in it: the wait for the disk stops the process, and pages are written
 * whole. Where they come thick and fast the next one is held back for a moment, in which others join it.
 */
import { systemTimers, type Timers } from "../../time/time.ts";
import { LedgerUnavailable } from "../ledger.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import { messageOf } from "../../x402/result.ts";

/** Operations that share a COMMIT at most: bounds how long one batch keeps the event loop. */
const MAX_BATCH = 128;

/** COMMITs that come at once before they are spaced, and the space between them then, milliseconds. */
const BURST = 4;
const SPACE_MS = 5;
/** COMMITs that are not held back after one that nobody has joined: the writers come one after another. */
const UNHELD = 4;

/** How long a write that is in no hurry may wait for others to come, milliseconds. */
const LATER_MS = 50;

interface Operation {
  /** Runs inside the transaction; what it returns answers its caller once that is committed. */
  readonly run: () => () => void;
  readonly reject: (error: unknown) => void;
}

export interface SqliteBatchEvents {
  /** After each COMMIT, before those who wait for it hear of it. */
  readonly onCommitted: () => void;
  /**
   * A transaction is taken back, before those who wait for it hear of that. `isFault`: the database could not
   * store it; else a step in it has thrown.
   */
  readonly onTakenBack: (isFault: boolean) => void;
}

export interface SqliteBatchPace {
  /** Default: those of the machine. */
  readonly timers?: Timers;
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
  readonly #timers: Timers;
  #waiting: Operation[] = [];
  #isScheduled = false;
  /** When the next COMMIT would be due if they were spaced evenly, of {@link Timers.elapsed}. */
  #dueAt = 0;
  #isHeld = false;
  #unheld = 0;

  #isLaterScheduled = false;

  constructor(
    database: SqliteDatabase,
    events: SqliteBatchEvents,
    { most = MAX_BATCH, spaceMs = SPACE_MS, timers = systemTimers }: SqliteBatchPace = {},
  ) {
    this.#database = database;
    this.#events = events;
    this.#most = most;
    this.#spaceMs = spaceMs;
    this.#timers = timers;
  }

  /**
   * Runs a step in a transaction of this turn. Rejects with what the step throws, and with
   * {@link LedgerUnavailable} where the transaction cannot be stored: then nothing of it is visible.
   */
  write<Value>(step: () => Value): Promise<Value> {
    const stored = this.#push(step);
    this.#schedule();
    return stored;
  }

  /** The same with the next COMMIT, which comes after {@link LATER_MS} at the latest. */
  writeLater<Value>(step: () => Value): Promise<Value> {
    const stored = this.#push(step);
    if (this.#spaceMs === 0) this.#schedule();
    else this.#scheduleLater();
    return stored;
  }

  /** Runs all that wait at once. */
  flush(): void {
    while (this.#waiting.length > 0) this.#runNext();
  }

  #push<Value>(step: () => Value): Promise<Value> {
    return new Promise((resolve, reject) => {
      const run = (): (() => void) => {
        const value = step();
        return () => resolve(value);
      };
      this.#waiting.push({ run, reject });
    });
  }

  #scheduleLater(): void {
    if (this.#isScheduled || this.#isLaterScheduled) return;
    this.#isLaterScheduled = true;
    this.#timers.after(LATER_MS, () => {
      this.#isLaterScheduled = false;
      if (this.#waiting.length > 0) this.#schedule();
    });
  }

  #schedule(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    const early = this.#dueAt - this.#timers.elapsed() - (BURST - 1) * this.#spaceMs;
    this.#isHeld = early > 0 && this.#unheld === 0 && this.#waiting.length < this.#most;
    if (this.#isHeld) this.#timers.after(early, this.#turn);
    else this.#timers.soon(this.#turn);
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
    const [first, second] = batch;
    if (first === undefined) return;
    const now = this.#timers.elapsed();
    const latest = now + (BURST - 1) * this.#spaceMs;
    this.#dueAt = Math.min(Math.max(this.#dueAt, now), latest) + this.#spaceMs;
    if (second === undefined) return this.#runAlone(first);
    let answers: readonly (() => void)[];
    try {
      answers = this.#runTogether(batch) ?? this.#runApart(batch);
    } catch (cause) {
      const error = lost(cause);
      this.#events.onTakenBack(true);
      for (const { reject } of batch) reject(error);
      return;
    }
    this.#events.onCommitted();
    for (const answer of answers) answer();
  }

  /** Undefined where a step has thrown: all are taken back. */
  #runTogether(batch: readonly Operation[]): readonly (() => void)[] | undefined {
    let hasThrown = false;
    try {
      return this.#database.transaction(() =>
        batch.map(({ run }) => {
          try {
            return run();
          } catch (error) {
            hasThrown = this.#database.isInTransaction;
            throw error;
          }
        }),
      );
    } catch (cause) {
      if (!hasThrown) throw cause;
      this.#events.onTakenBack(false);
      return undefined;
    }
  }

  #runApart(batch: readonly Operation[]): readonly (() => void)[] {
    return this.#database.transaction(() => batch.map((operation) => this.#runOne(operation)));
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
      this.#events.onTakenBack(thrown === undefined);
      reject(thrown === undefined ? lost(cause) : thrown.error);
      return;
    }
    this.#events.onCommitted();
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
      this.#database.run("ROLLBACK TO operation", []);
      this.#database.run("RELEASE operation", []);
      return () => reject(error);
    }
  }
}

function lost(cause: unknown): LedgerUnavailable {
  if (cause instanceof LedgerUnavailable) return cause;
  const detail = messageOf(cause);
  return new LedgerUnavailable(`the ledger's database did not store: ${detail}`, { cause });
}
