/** What was sold and burnt in an hour, and what is paused, as rows of PostgreSQL, where every replica finds them. */
import type { Time } from "../../time/time.ts";
import type { PaymentKey } from "../../x402/payment-key.ts";
import {
  hourOf,
  judgeSale,
  keptFrom,
  payerBudget,
  SALES,
  type BudgetedSale,
  type Budgets,
  type Reserved,
} from "../budgets.ts";
import { LedgerConflict } from "../ledger-fault.ts";
import { readPause, type Pause, type Pauses, type PauseScope } from "../pauses.ts";
import type { PostgresDatabase, Session, Statement } from "./postgres-database.ts";
import { openBeside } from "./postgres-beside.ts";

type Now = Pick<Time, "now">;

/** Nobody drops it while it is reserved. */
const LOCK_CLAIMED: Statement = {
  name: "lock_claimed_payment",
  text: `SELECT EXISTS (SELECT FROM coinslot.reservations AS r WHERE r.payment_key = p.payment_key) AS "isReserved"
         FROM coinslot.payments AS p WHERE p.payment_key = $1 FOR UPDATE`,
};

/** All who reserve and give back lock them in this order, and whoever comes second sees what the first has counted. */
const LOCK_BUDGETS: Statement = {
  name: "lock_budgets",
  text: `INSERT INTO coinslot.budgets AS b (hour, name, counted) VALUES ($1, $2, 0), ($1, $3, 0)
         ON CONFLICT (hour, name) DO UPDATE SET counted = b.counted
         RETURNING name AS "name", counted AS "counted"`,
};

const RESERVE: Statement = {
  name: "reserve_sale",
  text: `
    WITH reserved AS (
      INSERT INTO coinslot.reservations (payment_key, hour, payer_budget, counted)
      VALUES ($1, $2, $3, $4)
    )
    UPDATE coinslot.budgets SET counted = counted + $4::double precision
    WHERE hour = $2 AND name IN ($5, $3)`,
};

const COUNT: Statement = {
  name: "count_budget",
  text: `INSERT INTO coinslot.budgets AS b (hour, name, counted) VALUES ($1, $2, $3)
         ON CONFLICT (hour, name) DO UPDATE SET counted = b.counted + excluded.counted`,
};

const COUNTED: Statement = {
  name: "counted_budgets",
  text: `SELECT name AS "name", counted AS "counted" FROM coinslot.budgets
         WHERE hour = $1 AND name = ANY ($2)`,
};

const FORGET_RESERVATIONS: Statement = {
  name: "forget_reservations",
  text: `DELETE FROM coinslot.reservations WHERE hour < $1`,
};
const FORGET_BUDGETS: Statement = {
  name: "forget_budgets",
  text: `DELETE FROM coinslot.budgets WHERE hour < $1`,
};

export class PostgresBudgets implements Budgets {
  readonly #database: PostgresDatabase;
  readonly #time: Now;

  constructor(database: PostgresDatabase, time: Now) {
    this.#database = database;
    this.#time = time;
  }

  async reserve(key: PaymentKey, sale: BudgetedSale): Promise<Reserved> {
    return this.#database.transaction(async (session) => {
      const [claimed] = await session.query(LOCK_CLAIMED, [key]);
      if (claimed === undefined) throw new LedgerConflict("a payment without a claim is not sold");
      if (claimed.isReserved === true) return { kind: "reserved" };
      const nowMs = this.#time.now();
      const hour = hourOf(nowMs);
      const payer = payerBudget(sale.payer);
      const counted = countedOf(await session.query(LOCK_BUDGETS, [hour, SALES, payer]));
      const judged = judgeSale(counted, sale, nowMs);
      if (judged.kind === "reserved") {
        await session.query(RESERVE, [key, hour, payer, sale.worth, SALES]);
      }
      return judged;
    });
  }

  async counted(names: readonly string[]): Promise<ReadonlyMap<string, number>> {
    return countedOf(await this.#database.query(COUNTED, [hourOf(this.#time.now()), names]));
  }
}

function countedOf(rows: Awaited<ReturnType<Session["query"]>>): ReadonlyMap<string, number> {
  return new Map(rows.map(({ name, counted }) => [String(name), Number(counted)]));
}

/** Part of its caller's transaction. */
export async function count(
  session: Session,
  nowMs: number,
  name: string,
  counted: number,
): Promise<void> {
  await session.query(COUNT, [hourOf(nowMs), name, counted]);
}

/** Hours that are long over. */
export async function forgetBudgets(session: Session, nowMs: number): Promise<void> {
  await session.query(FORGET_RESERVATIONS, [keptFrom(nowMs)]);
  await session.query(FORGET_BUDGETS, [keptFrom(nowMs)]);
}

const PAUSES: Statement = {
  name: "list_pauses",
  text: `SELECT scope AS "scope", until_ms AS "untilMs", reason AS "reason", paused_by AS "by",
           since_ms AS "sinceMs" FROM coinslot.pauses
         WHERE scope > '' AND (until_ms IS NULL OR until_ms > $1) ORDER BY since_ms, scope`,
};
const PAUSE: Statement = {
  name: "pause",
  text: `INSERT INTO coinslot.pauses (scope, until_ms, reason, paused_by, since_ms)
         VALUES ($1, $2, $3, $4, $5)
         ON CONFLICT (scope) DO UPDATE SET until_ms = excluded.until_ms,
           reason = excluded.reason, paused_by = excluded.paused_by, since_ms = excluded.since_ms`,
};
const RESUME: Statement = {
  name: "resume",
  text: `DELETE FROM coinslot.pauses WHERE scope = ANY ($1)`,
};

export class PostgresPauses implements Pauses {
  readonly #database: Session;
  readonly #time: Now;

  constructor(database: Session, time: Now) {
    this.#database = database;
    this.#time = time;
  }

  async list(): Promise<readonly Pause[]> {
    return (await this.#database.query(PAUSES, [this.#time.now()])).map(readPause);
  }

  async pause({ scope, untilMs, reason, by, sinceMs }: Pause): Promise<void> {
    await this.#database.query(PAUSE, [scope, untilMs, reason, by, sinceMs]);
  }

  async resume(scope?: PauseScope): Promise<number> {
    const there = await this.list();
    const ended = there.filter((each) => scope === undefined || each.scope === scope);
    await this.#database.query(RESUME, [ended.map((each) => each.scope)]);
    return ended.length;
  }
}

/**
 * Opens the pauses beside running gateways, or without one. Rejects with {@link LedgerUnavailable} where the database
 * cannot be asked, holds no ledger, or another version's.
 */
export async function openPostgresPauses({
  url,
  time,
}: {
  readonly url: string;
  readonly time: Now;
}): Promise<Pauses & { close(): Promise<void> }> {
  const database = await openBeside(url);
  const pauses = new PostgresPauses(database, time);
  return {
    list: () => pauses.list(),
    pause: (pause) => pauses.pause(pause),
    resume: (scope) => pauses.resume(scope),
    close: () => database.close(),
  };
}
