/**
 * What the lives of a world store their payments in: SQLite as it is shipped, where they follow each other, and the
 * memory ledger, where several work side by side as on PostgreSQL. The audit reads a memory store either way, which
 * mirrors what everybody sees; with a life's death it becomes what SQLite has stored.
 */
import type { PaymentEvent } from "../../src/ledger/books.ts";
import type { Ledger, Signing } from "../../src/ledger/ledger.ts";
import { over } from "../support/over.ts";
import { readPaymentRow } from "../../src/ledger/payment-row.ts";
import { sqliteLedgerOn } from "../../src/ledger/sqlite/sqlite.ts";
import { DURABLE, SqliteDatabase } from "../../src/ledger/sqlite/sqlite-database.ts";
import { ROW_COLUMNS } from "../../src/ledger/sqlite/sqlite-rows.ts";
import { migrate } from "../../src/ledger/sqlite/sqlite-schema.ts";
import type { Timers } from "../../src/time/time.ts";
import type { PaymentKey } from "../../src/x402/payment-key.ts";
import { MemoryLedger, MemoryStore } from "../support/memory-ledger.ts";
import { accountOf } from "../support/memory-store.ts";
import { LifeTime, type Life, type VirtualTime } from "./virtual-time.ts";

/** `lost`: the steps that were seen, oldest first. */
type OnUndone = (key: PaymentKey, lost: readonly PaymentEvent[]) => void;

export interface WorldStore {
  /** What everybody sees. */
  readonly seen: MemoryStore;
  /**
   * The ledger of a life that begins, once nothing of an earlier one is in its way. `onUndone` hears of payments whose
   * last steps died with the life before.
   */
  open(life: Life, time: VirtualTime, onUndone: OnUndone): Promise<Ledger>;
  close(): void;
}

export class MemoryWorldStore implements WorldStore {
  readonly seen = new MemoryStore();

  async open(life: Life, time: VirtualTime): Promise<Ledger> {
    return new MemoryLedger({ store: this.seen, time: new LifeTime(time, life), life: life.id });
  }

  close(): void {
    // Nothing is open.
  }
}

export class SqliteWorldStore implements WorldStore {
  readonly seen = new MemoryStore();
  readonly #database = new SqliteDatabase(":memory:");

  constructor() {
    this.#database.exec(DURABLE);
    migrate(this.#database);
  }

  async open(life: Life, time: VirtualTime, onUndone: OnUndone): Promise<Ledger> {
    this.#forget(onUndone);
    const ledger = sqliteLedgerOn(this.#database, {
      path: "simulated",
      life: life.id,
      time: new LifeTime(time, life),
      timers: timersOf(time, life),
      onStep: (key, step, moment) => {
        if (!life.isAlive) throw new Error("a dead life writes");
        this.seen.apply(key, step, moment);
        if (step.answer !== undefined) this.seen.responses.set(key, step.answer);
      },
    });
    await ledger.upkeep.reap();
    return this.#watching(ledger);
  }

  close(): void {
    this.#database.close();
  }

  /** What the life before has answered, and not stored, was never there. */
  #forget(onUndone: OnUndone): void {
    const stored = new Map(
      this.#database
        .all(`SELECT ${ROW_COLUMNS} FROM payments`, {})
        .map((columns) => [String(columns["key"]) as PaymentKey, columns]),
    );
    for (const [key, kept] of this.seen.payments) {
      const columns = stored.get(key);
      if (columns === undefined) {
        this.seen.payments.delete(key);
        this.seen.responses.delete(key);
        onUndone(key, kept.events);
        continue;
      }
      const row = readPaymentRow(columns);
      if (row.version === kept.row.version) continue;
      const known = kept.events.length + row.version - kept.row.version;
      this.seen.payments.set(key, {
        ...kept,
        row,
        events: kept.events.slice(0, known),
        updatedMs: Number(columns["updatedMs"]),
      });
      onUndone(key, kept.events.slice(known));
    }
    for (const key of stored.keys()) {
      if (!this.seen.payments.has(key)) throw new Error(`${key} was dropped, and is there again`);
    }
    this.#look();
  }

  /** Accounts and submissions are seen as they are stored: nothing of them waits. */
  #watching(ledger: Ledger): Ledger {
    const looked = async <Value>(writing: Promise<Value>): Promise<Value> => {
      try {
        return await writing;
      } finally {
        this.#look();
      }
    };
    const { signing } = ledger;
    const watched: Partial<Signing> = {
      lease: (...given) => looked(signing.lease(...given)),
      unlease: (...given) => looked(signing.unlease(...given)),
      signed: (...given) => looked(signing.signed(...given)),
      replaced: (...given) => looked(signing.replaced(...given)),
      concluded: (...given) => looked(signing.concluded(...given)),
    };
    return over(ledger, { signing: over(signing, watched) });
  }

  #look(): void {
    const { leases, nextNonces, submissions } = this.seen;
    for (const { network, address, holder, epoch, next } of this.#database.all(
      `SELECT network, address, holder, epoch, next_nonce AS "next" FROM accounts`,
      {},
    )) {
      const name = accountOf(String(network), String(address));
      leases.set(name, { holder: holder === null ? null : String(holder), epoch: Number(epoch) });
      if (next !== null) nextNonces.set(name, Number(next));
    }
    for (const { id, network, state, variants, signedMs, cost } of this.#database.all(
      `SELECT id, network, state, variants, signed_ms AS "signedMs", cost FROM submissions`,
      {},
    )) {
      submissions.set(String(id), {
        id: String(id),
        network: String(network),
        state: state as "OPEN" | "INCLUDED" | "CLOSED",
        variants: JSON.parse(String(variants)),
        signedMs: Number(signedMs),
        cost: cost === null ? null : JSON.parse(String(cost)),
      });
    }
  }
}

/** Pauses of a store, which end with its life. */
export function timersOf(time: VirtualTime, life: Life): Timers {
  return {
    elapsed: () => time.nowMs,
    after: (ms, run) => void time.schedule(ms, life, run),
    soon: (run) => void time.schedule(0, life, run),
  };
}
