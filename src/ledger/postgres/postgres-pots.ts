/** Pots in PostgreSQL. What each question makes of them is judged by `pots.ts`, while nobody else has the pot. */
import type { Time } from "../../time/time.ts";
import { readEntry, Totals, type Entry } from "../accounts.ts";
import {
  CREDIT_KINDS,
  CreditsSums,
  pourEntries,
  useEntries,
  type CreditsSum,
} from "../credit-entries.ts";
import { LedgerConflict, LedgerUnavailable } from "../ledger-fault.ts";
import type { Moment } from "../machine-step.ts";
import type { PaymentRow } from "../payment-row.ts";
import {
  CREDITS_END,
  creditsPotsOf,
  quotasOf,
  judgeDraw,
  poured,
  readFill,
  readLease,
  readPot,
  requireDraws,
  TIDIED_POTS,
  TURNS_KEPT_MS,
  type JudgedDraw,
  type PotBalance,
  type PotDraw,
  type PotDrawn,
  type PotLease,
  type PotRow,
  type Pots,
  type Pour,
} from "../pots.ts";
import { MAX_REFUNDABLE, readRefundable, type PayerCredits } from "../books.ts";
import { close } from "./postgres-accounts.ts";
import type { PostgresDatabase, Session, Statement } from "./postgres-database.ts";

const POT = `name AS "name", free::text AS "free", leased::text AS "leased", until_ms AS "untilMs",
  wanted_by AS "wantedBy", wanted_ms AS "wantedMs"`;
/** Pots that are read at once where all of them are. */
const PAGE = 1_000;

const OPEN: Statement = {
  name: "open_pots",
  text: `INSERT INTO coinslot.pots (name, free, leased, until_ms)
         SELECT g."pot", g."amount", 0, g."untilMs"
         FROM json_to_recordset($1::json) AS g("pot" text, "amount" numeric, "untilMs" bigint)
         ORDER BY g."pot" ON CONFLICT DO NOTHING`,
};
/** All who change several pots lock them in this order first. */
const LOCK: Statement = {
  name: "lock_pots",
  text: `SELECT ${POT}, (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS "sharedMs"
         FROM coinslot.pots WHERE name = ANY ($1) ORDER BY name FOR UPDATE`,
};
const READ: Statement = {
  name: "read_pots",
  text: `SELECT ${POT} FROM coinslot.pots WHERE name = ANY ($1)`,
};
const LEASES: Statement = {
  name: "read_pot_leases",
  text: `SELECT pot AS "pot", held::text AS "held", turn AS "turn" FROM coinslot.pot_leases
         WHERE holder = $1 AND pot = ANY ($2)`,
};
const WRITE: Statement = {
  name: "write_pots",
  text: `
    WITH given AS (
      SELECT * FROM json_to_recordset($1::json) AS g("pot" text, "free" numeric, "leased" numeric,
        "wantedBy" text, "wantedMs" bigint, "held" numeric, "turn" bigint, "ends" boolean)
    ),
    moved AS (
      UPDATE coinslot.pots AS p SET free = g."free", leased = g."leased", wanted_by = g."wantedBy",
        wanted_ms = g."wantedMs"
      FROM given AS g WHERE p.name = g."pot"
    ),
    ended AS (
      DELETE FROM coinslot.pot_leases AS l USING given AS g
      WHERE l.holder = $2 AND l.pot = g."pot" AND g."ends"
    )
    INSERT INTO coinslot.pot_leases AS l (holder, pot, held, turn, at_ms)
    SELECT $2, g."pot", g."held", g."turn", $3::bigint FROM given AS g WHERE NOT g."ends"
    ON CONFLICT (holder, pot) DO UPDATE
      SET held = excluded.held, turn = excluded.turn, at_ms = excluded.at_ms`,
};
const LOCK_LEASED: Statement = {
  name: "lock_leased_pots",
  text: `SELECT name FROM coinslot.pots
         WHERE name IN (SELECT pot FROM coinslot.pot_leases WHERE holder = ANY ($1))
         ORDER BY name FOR UPDATE`,
};
const RETURN: Statement = {
  name: "return_pot_leases",
  text: `
    WITH gone AS (DELETE FROM coinslot.pot_leases WHERE holder = ANY ($1) RETURNING pot, held),
    sums AS (SELECT pot, sum(held) AS held FROM gone GROUP BY pot)
    UPDATE coinslot.pots AS p SET free = p.free + s.held, leased = p.leased - s.held
    FROM sums AS s WHERE p.name = s.pot`,
};
const TIDY_LEASES: Statement = {
  name: "tidy_pot_leases",
  text: `DELETE FROM coinslot.pot_leases WHERE (holder, pot) IN (
           SELECT holder, pot FROM coinslot.pot_leases WHERE held = 0 AND at_ms < $1
           LIMIT ${TIDIED_POTS} FOR UPDATE SKIP LOCKED)`,
};
const TIDY_POTS: Statement = {
  name: "tidy_pots",
  text: `
    WITH ended AS (
      SELECT name FROM coinslot.pots WHERE until_ms < $1 ORDER BY name LIMIT ${TIDIED_POTS} FOR UPDATE SKIP LOCKED
    ),
    freed AS (DELETE FROM coinslot.pot_leases WHERE pot IN (SELECT name FROM ended) RETURNING pot)
    DELETE FROM coinslot.pots WHERE name IN (SELECT name FROM ended)
      AND (SELECT count(*) FROM freed) >= 0`,
};
const TIDY_EMPTY: Statement = {
  name: "tidy_empty_pots",
  text: `
    DELETE FROM coinslot.pots WHERE name IN (
      SELECT name FROM coinslot.pots AS p WHERE free = 0 AND leased = 0 AND until_ms IS NULL
        AND NOT EXISTS (SELECT FROM coinslot.pot_leases AS l WHERE l.pot = p.name)
      LIMIT ${TIDIED_POTS} FOR UPDATE SKIP LOCKED)`,
};
const FORGET: Statement = {
  name: "forget_pots",
  text: `
    WITH gone AS (
      DELETE FROM coinslot.pots WHERE name = ANY ($1) AND free = 0 AND leased = 0 RETURNING name
    )
    DELETE FROM coinslot.pot_leases WHERE pot IN (SELECT name FROM gone)`,
};
const FORGET_QUOTAS: Statement = {
  name: "forget_quotas",
  text: `
    WITH gone AS (
      DELETE FROM coinslot.pots USING unnest($1::text[], $2::text[]) AS of (first, last)
      WHERE name > of.first COLLATE "C" AND name < of.last COLLATE "C" AND leased = 0 RETURNING name
    )
    DELETE FROM coinslot.pot_leases WHERE pot IN (SELECT name FROM gone)`,
};
const ALL: Statement = {
  name: "credit_pots",
  text: `SELECT ${POT} FROM coinslot.pots
         WHERE name > $1 AND name < $2 ORDER BY name LIMIT ${PAGE}`,
};
const ENTRIES: Statement = {
  name: "credit_entries",
  text: `SELECT day AS "day", kind AS "kind", route AS "route", network AS "network", asset AS "asset",
           account AS "account", count AS "count", amount::text AS "amount", attodollars::text AS "attodollars"
         FROM coinslot.closed_entries WHERE day >= '' AND kind = ANY ($1)`,
};

const REFUNDABLE: Statement = {
  name: "refundable_payments",
  text: `SELECT payment_key AS "key", network AS "network", asset AS "asset", fills AS "fills",
           CASE WHEN refund_state IS NOT NULL THEN refund::json->'ofCredits'->>'creditsAtomic' END AS "refunded"
         FROM coinslot.payments
         WHERE lower(payer) = $1 AND fills IS NOT NULL AND state = 'DELIVERED'
           AND (refund_state IS NULL OR refund_state = 'REFUNDED'
             AND (refund::json->'ofCredits'->>'creditsAtomic')::numeric < (fills::json->>'amount')::numeric)
         ORDER BY created_ms DESC LIMIT ${MAX_REFUNDABLE}`,
};
const TAKE_OUT: Statement = {
  name: "take_out_of_pot",
  text: `UPDATE coinslot.pots SET free = free - $2::numeric WHERE name = $1`,
};
const PUT_BACK: Statement = {
  name: "put_back_into_pot",
  text: `INSERT INTO coinslot.pots AS p (name, free, leased) VALUES ($1, $2::numeric, 0)
         ON CONFLICT (name) DO UPDATE SET free = p.free + $2::numeric`,
};

/** Nobody else changes it until the end of the transaction; undefined: there is none, or no name. */
export async function lockPot(
  session: Session,
  name: string | undefined,
): Promise<PotRow | undefined> {
  const [found] = name === undefined ? [] : await session.query(LOCK, [[name]]);
  return found && readPot(found);
}

/** What a refund takes out of the pot that a payment has filled, or puts back; `pot`: as it was locked. */
export async function pour(
  session: Session,
  given: {
    readonly row: PaymentRow;
    readonly pot: PotRow | undefined;
    readonly pours: Pour;
    readonly moment: Pick<Moment, "nowMs">;
  },
): Promise<void> {
  const { row, pot, pours, moment } = given;
  if (row.fills === null) throw new LedgerConflict("the payment has filled no pot");
  const values = [readFill(row.fills).pot, String(pours.amount)];
  // Where there was none to be locked, another may have made it meanwhile.
  if (pours.way === "back") await session.query(PUT_BACK, values);
  if (pours.way === "out" && poured(pot, pours)) await session.query(TAKE_OUT, values);
  await close(session, pourEntries(row, pours, moment.nowMs));
}

/** The view of one life. */
export class PostgresPots implements Pots {
  readonly #database: PostgresDatabase;
  readonly #time: Pick<Time, "now">;
  readonly #life: string;
  #isOver = false;

  constructor(database: PostgresDatabase, time: Pick<Time, "now">, life: string) {
    this.#database = database;
    this.#time = time;
    this.#life = life;
  }

  /** The life is over: what comes late of it leases nothing any more. */
  async end(): Promise<void> {
    this.#isOver = true;
    await returnLeases(this.#database, [this.#life]);
  }

  async draw(draws: readonly PotDraw[]): Promise<readonly PotDrawn[]> {
    requireDraws(draws);
    const names = draws.map(({ pot }) => pot);
    const moment = { life: this.#life, nowMs: this.#time.now() };
    return this.#database.transaction(async (session) => {
      const opened = draws.flatMap(({ pot, opens }) =>
        opens === undefined
          ? []
          : [{ pot, amount: String(opens.amount), untilMs: opens.untilMs ?? null }],
      );
      if (opened.length > 0) await session.query(OPEN, [JSON.stringify(opened)]);
      const pots = new Map<string, PotRow>();
      let sharedMs = moment.nowMs;
      for (const row of await session.query(LOCK, [names])) {
        pots.set(String(row.name), readPot(row));
        sharedMs = Number(row.sharedMs);
      }
      const leases = new Map<string, PotLease>();
      if (this.#isOver) throw new LedgerUnavailable("this life is over");
      for (const row of await session.query(LEASES, [moment.life, names]))
        leases.set(String(row.pot), readLease(row));
      const judged = draws.map((draw) => ({
        name: draw.pot,
        ...judgeDraw(pots.get(draw.pot), leases.get(draw.pot), draw, { ...moment, sharedMs }),
      }));
      const written = judged.flatMap(writtenOf);
      if (written.length > 0)
        await session.query(WRITE, [JSON.stringify(written), moment.life, moment.nowMs]);
      const totals = new Totals();
      for (const each of judged) totals.add(useEntries(each.name, each, moment.nowMs));
      // Everybody in the same order.
      await close(session, totals.list().toSorted(byName));
      return judged.map(({ drawn }) => drawn);
    });
  }

  async balances(pots: readonly string[]): Promise<ReadonlyMap<string, PotBalance>> {
    const rows = await this.#database.query(READ, [pots]);
    return new Map(rows.map((row) => [String(row.name), readPot(row)]));
  }
}

function byName(one: Entry, other: Entry): number {
  const [left, right] = [one, other].map(({ network, asset, route }) =>
    [network, asset, route].join("\n"),
  );
  return (left ?? "") < (right ?? "") ? -1 : 1;
}

function writtenOf({ name, pot, lease }: JudgedDraw & { readonly name: string }): object[] {
  if (pot === undefined || lease === undefined) return [];
  const { free, leased, wantedBy, wantedMs } = pot;
  return [
    {
      pot: name,
      free: String(free),
      leased: String(leased),
      wantedBy,
      wantedMs,
      held: String(lease?.held ?? 0n),
      turn: lease?.turn ?? 0,
      ends: lease === null,
    },
  ];
}

/** Gives back what those lives have leased, which are over. */
export async function returnLeases(
  database: PostgresDatabase,
  lives: readonly string[],
): Promise<void> {
  if (lives.length === 0) return;
  await database.transaction(async (session) => {
    await session.query(LOCK_LEASED, [lives]);
    await session.query(RETURN, [lives]);
  });
}

/** Pots that have ended or are used up, and leases that were given back long ago. */
export async function tidyPots(session: Session, nowMs: number): Promise<void> {
  await session.query(TIDY_LEASES, [nowMs - TURNS_KEPT_MS]);
  await session.query(TIDY_POTS, [nowMs - TURNS_KEPT_MS]);
  await session.query(TIDY_EMPTY, []);
}

/** Whether something is left of what a payer has prepaid. */
export async function hasCredits(session: Session, payer: string): Promise<boolean> {
  const rows = await session.query(READ, [creditsPotsOf(payer)]);
  return rows.map(readPot).some(({ free, leased }) => free + leased > 0n);
}

/** Pots with nothing in them that bear a payer's name, and what he has for nothing. */
export async function forgetPots(session: Session, payer: string): Promise<void> {
  await session.query(FORGET, [creditsPotsOf(payer)]);
  const ranges = quotasOf(payer);
  await session.query(FORGET_QUOTAS, [ranges.map(([from]) => from), ranges.map(([, to]) => to)]);
}

/** The same of one payer, and what he has bought it by. */
export async function readCreditsOf(session: Session, payer: string): Promise<PayerCredits> {
  const pots = await session.query(READ, [creditsPotsOf(payer)]);
  const balances = pots.map((row) => ({ pot: String(row.name), ...readPot(row) }));
  const rows = await session.query(REFUNDABLE, [payer.toLowerCase()]);
  return {
    balances: balances
      .filter(({ free, leased }) => free + leased > 0n)
      .map(({ pot, free, leased }) => ({ pot, free, leased })),
    purchases: rows.map(readRefundable),
  };
}

/** At one moment where the session's transaction sees one. */
export async function readCredits(session: Session): Promise<readonly CreditsSum[]> {
  const sums = new CreditsSums();
  for (let behind = CREDITS_END.slice(0, -1); ;) {
    const pots = await session.query(ALL, [behind, CREDITS_END]);
    for (const columns of pots) sums.addPot(String(columns.name), readPot(columns));
    if (pots.length < PAGE) break;
    behind = String(pots.at(-1)?.name);
  }
  for (const columns of await session.query(ENTRIES, [[...CREDIT_KINDS]]))
    sums.addEntry(readEntry(columns));
  return sums.list();
}
