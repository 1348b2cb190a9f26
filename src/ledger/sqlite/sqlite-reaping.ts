/** What becomes of rows whose life is over: that of another process, or of one of our workers. */
import type { PaymentKey } from "../../x402/payment-key.ts";
import { isOf } from "../life.ts";
import * as machine from "../machine.ts";
import type { SqliteCore } from "./sqlite-core.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";
import { returnLeases } from "./sqlite-pot-rows.ts";
import { SqliteRedemptions } from "./sqlite-redemptions.ts";
import type { WorkerLife } from "../ledger.ts";

/** Left-over rows that one transaction frees at most. */
const REAPED_TOGETHER = 200;

interface Ground {
  readonly core: SqliteCore;
  readonly database: SqliteDatabase;
}

/**
 * What a life may hold: a claim, a delivery, or a payment that its request waits for. Without their names SQLite
 * would go through all payments in the order of their keys, so as to find each once. Each looks at what is under way, and at what is owed: few, and seldom asked for.
 */
const heldIf = (claimedBy: string, holder: string): string => {
  const isHeld = `is_left = 0 AND binding IS NOT NULL AND ${holder}`;
  return [
    ["claimed_payments", `state = 'CLAIMED' AND (${claimedBy} OR (${isHeld}))`],
    ["delivering_payments", `state = 'DELIVERING' AND ${claimedBy}`],
    ["undecided_spends", `state = 'SIGNED' AND submission IS NOT NULL AND ${isHeld}`],
    ["handed_over_payments", `state = 'SIGNED' AND submission IS NULL AND ${isHeld}`],
    ["undelivered_payments", `state = 'SETTLED' AND ${isHeld}`],
  ]
    .map(
      ([index, is]) => `SELECT payment_key AS "key" FROM payments INDEXED BY ${index} WHERE ${is}`,
    )
    .join(" UNION ALL ");
};

const HELD_BY_OTHERS = heldIf("claimed_by <> :life", "holder <> :life");
const HELD = heldIf("claimed_by = :life", "holder = :life");

/** Frees what lives left that are neither this process nor within it; resolves with the number of payments. */
export async function reapOthers(ground: Ground, life: string): Promise<number> {
  const isOver = (other: string): boolean => !isOf(other, life);
  await ground.core.write(() => returnLeases(ground.database, isOver));
  const left = ground.database.all(HELD_BY_OTHERS, { life });
  return reap(ground, keysOf(left), { life, isOver });
}

export class SqliteWorkerLife extends SqliteRedemptions implements WorkerLife {
  readonly #ground: Ground;
  readonly #life: string;

  constructor(ground: Ground, life: string) {
    super(ground.core, ground.database, life);
    this.#ground = ground;
    this.#life = life;
  }

  async end(kept: ReadonlySet<PaymentKey>): Promise<number> {
    const life = this.#life;
    const { core, database } = this.#ground;
    const isOver = (other: string): boolean => other === life;
    await core.write(() => this.pots.end());
    core.storeNow();
    const held = database.all(HELD, { life });
    return reap(this.#ground, keysOf(held), { life, isOver, kept });
  }
}

function keysOf(rows: readonly Readonly<Record<string, unknown>>[]): readonly string[] {
  return rows.map(({ key }) => String(key));
}

interface Reaper {
  readonly life: string;
  readonly isOver: (life: string) => boolean;
  /** Claims whose settlement goes on. */
  readonly kept?: ReadonlySet<string>;
}

/** Judged again within the transaction: another call may have been first. */
async function reap(
  { core }: Ground,
  left: readonly string[],
  { life, isOver, kept }: Reaper,
): Promise<number> {
  const frees = (key: string): boolean =>
    core.take(key, life, (row) => machine.reap(row, isOver, kept?.has(key) === true)).outcome;
  let freed = 0;
  for (let first = 0; first < left.length; first += REAPED_TOGETHER) {
    const keys = left.slice(first, first + REAPED_TOGETHER);
    freed += await core.write(() => keys.filter(frees).length);
  }
  return freed;
}
