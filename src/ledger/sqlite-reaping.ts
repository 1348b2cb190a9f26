/** What becomes of rows whose life is over: that of another process, or of one of our workers. */
import type { PaymentKey } from "../x402/payment-key.ts";
import { isOf } from "./life.ts";
import * as machine from "./machine.ts";
import type { PaymentRow } from "./payment-row.ts";
import type { SqliteCore } from "./sqlite-core.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import { SqliteRedemptions } from "./sqlite-redemptions.ts";
import type { WorkerLife } from "./worker-life.ts";

/** Left-over rows that one transaction frees at most. */
const REAPED_TOGETHER = 200;

interface Ground {
  readonly core: SqliteCore;
  readonly database: SqliteDatabase;
}

/** Frees what lives left that are neither this process nor within it; resolves with the number of payments. */
export async function reapOthers(ground: Ground, life: string): Promise<number> {
  const left = ground.database.all(
    `SELECT payment_key AS "key" FROM payments WHERE state = 'CLAIMED' AND claimed_by <> :life
     UNION ALL
     SELECT payment_key FROM payments WHERE state = 'DELIVERING' AND claimed_by <> :life`,
    { life },
  );
  return reap(ground, keysOf(left), { life, isOver: ({ claimedBy }) => !isOf(claimedBy, life) });
}

export class SqliteWorkerLife extends SqliteRedemptions implements WorkerLife {
  readonly #ground: Ground;
  readonly #life: string;

  constructor(ground: Ground, life: string) {
    super(ground.core, life);
    this.#ground = ground;
    this.#life = life;
  }

  async leave(key: PaymentKey): Promise<void> {
    await this.#ground.core.stepSoon(key, this.#life, machine.leave);
  }

  async end(kept: ReadonlySet<PaymentKey>): Promise<number> {
    const life = this.#life;
    this.#ground.core.storeNow();
    const held = this.#ground.database.all(
      `SELECT payment_key AS "key" FROM payments WHERE state = 'CLAIMED' AND claimed_by = :life
       UNION ALL
       SELECT payment_key FROM payments WHERE state = 'DELIVERING' AND claimed_by = :life`,
      { life },
    );
    const isKept = ({ state }: PaymentRow, key: string): boolean =>
      state === "CLAIMED" && kept.has(key as PaymentKey);
    const isOver = (row: PaymentRow, key: string): boolean =>
      row.claimedBy === life && !isKept(row, key);
    return reap(this.#ground, keysOf(held), { life, isOver });
  }
}

function keysOf(rows: readonly Readonly<Record<string, unknown>>[]): readonly string[] {
  return rows.map(({ key }) => String(key));
}

interface Reaper {
  readonly life: string;
  /** Asked again within the transaction: another call may have been first. */
  readonly isOver: (row: PaymentRow, key: string) => boolean;
}

async function reap(
  { core }: Ground,
  left: readonly string[],
  { life, isOver }: Reaper,
): Promise<number> {
  const frees = (key: string): boolean =>
    core.take(key, life, (row) =>
      row !== undefined && isOver(row, key) ? machine.reap(row) : { outcome: false },
    ).outcome;
  let freed = 0;
  for (let first = 0; first < left.length; first += REAPED_TOGETHER) {
    const keys = left.slice(first, first + REAPED_TOGETHER);
    freed += await core.write(() => keys.filter(frees).length);
  }
  return freed;
}
