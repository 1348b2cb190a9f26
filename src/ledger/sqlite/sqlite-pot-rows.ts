/** Pots as rows of SQLite. Every function that writes is part of its caller's transaction. */
import { readEntry, Totals } from "../accounts.ts";
import {
  CREDIT_KINDS,
  CreditsSums,
  fillEntries,
  pourEntries,
  useEntries,
  type CreditsSum,
} from "../credit-entries.ts";
import {
  CREDITS_END,
  creditsPotsOf,
  quotasOf,
  judgeDraw,
  openedPot,
  poured,
  readFill,
  readLease,
  readPot,
  returned,
  TIDIED_POTS,
  TURNS_KEPT_MS,
  type DrawMoment,
  type JudgedDraw,
  type PotDraw,
  type PotDrawn,
  type PotFill,
  type PotRow,
  type Pour,
} from "../pots.ts";
import { LedgerConflict } from "../ledger-fault.ts";
import type { PaymentRow } from "../payment-row.ts";
import { MAX_REFUNDABLE, readRefundable, type PayerCredits } from "../books.ts";
import { close } from "./sqlite-accounts.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

const POT = `free, leased, until_ms AS "untilMs", wanted_by AS "wantedBy", wanted_ms AS "wantedMs"`;
/** Pots that are read at once where all of them are. */
const PAGE = 1_000;

/** The questions of a life. What they have used is added to the books together. */
export function drawAll(
  database: SqliteDatabase,
  draws: readonly PotDraw[],
  moment: DrawMoment,
): readonly PotDrawn[] {
  const totals = new Totals();
  const drawn = draws.map((draw) => {
    const judged = drawFrom(database, draw, moment);
    totals.add(useEntries(draw.pot, judged, moment.nowMs));
    return judged.drawn;
  });
  close(database, totals.list());
  return drawn;
}

function drawFrom(
  database: SqliteDatabase,
  draw: PotDraw,
  { life, nowMs }: DrawMoment,
): JudgedDraw {
  const { pot: name } = draw;
  const stored = potOf(database, name);
  const found = database.get("SELECT held, turn FROM pot_leases WHERE holder = ? AND pot = ?", [
    life,
    name,
  ]);
  const known = found && readLease(found);
  const judged = judgeDraw(stored, known, draw, { life, nowMs });
  const { pot, lease } = judged;
  if (pot !== undefined) writePot(database, name, pot);
  if (lease === null) {
    database.run("DELETE FROM pot_leases WHERE holder = ? AND pot = ?", [life, name]);
  } else if (lease !== undefined) {
    database.run(
      `INSERT INTO pot_leases (holder, pot, held, turn, at_ms) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (holder, pot) DO UPDATE
         SET held = excluded.held, turn = excluded.turn, at_ms = excluded.at_ms`,
      [life, name, String(lease.held), lease.turn, nowMs],
    );
  }
  return judged;
}

export function potOf(database: SqliteDatabase, name: string): PotRow | undefined {
  const found = database.get(`SELECT ${POT} FROM pots WHERE name = ?`, [name]);
  return found && readPot(found);
}

function writePot(database: SqliteDatabase, name: string, pot: PotRow): void {
  const { free, leased, untilMs, wantedBy, wantedMs } = pot;
  database.run(
    `INSERT INTO pots (name, free, leased, until_ms, wanted_by, wanted_ms) VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (name) DO UPDATE SET free = excluded.free, leased = excluded.leased,
       wanted_by = excluded.wanted_by, wanted_ms = excluded.wanted_ms`,
    [name, String(free), String(leased), untilMs, wantedBy, wantedMs],
  );
}

/** Once for each payment, within its caller's transaction; false: it was done before. */
export function fillPot(
  database: SqliteDatabase,
  {
    key,
    fill,
    route,
    nowMs,
  }: {
    readonly key: string;
    readonly fill: PotFill;
    readonly route: string | null;
    readonly nowMs: number;
  },
): boolean {
  const { pot: name, amount } = fill;
  const isFirst = database.run(
    `INSERT INTO pot_fills (payment_key, pot, amount, at_ms) VALUES (?, ?, ?, ?)
     ON CONFLICT (payment_key) DO NOTHING`,
    [key, name, String(amount), nowMs],
  );
  if (isFirst !== 1) return false;
  const pot = potOf(database, name);
  writePot(
    database,
    name,
    pot === undefined ? openedPot(fill) : { ...pot, free: pot.free + amount },
  );
  close(database, fillEntries(fill, route, nowMs));
  return true;
}

/** What a refund takes out of the pot that a payment has filled, or puts back, within its caller's transaction. */
export function pour(
  database: SqliteDatabase,
  { row, pours, nowMs }: { readonly row: PaymentRow; readonly pours: Pour; readonly nowMs: number },
): void {
  if (row.fills === null) throw new LedgerConflict("the payment has filled no pot");
  const { pot: name } = readFill(row.fills);
  if (pours.way !== "none") writePot(database, name, poured(potOf(database, name), pours));
  close(database, pourEntries(row, pours, nowMs));
}

/** Whether something is left of what a payer has prepaid. */
export function hasCredits(database: SqliteDatabase, payer: string): boolean {
  return creditsPotsOf(payer).some((name) => {
    const { free, leased } = potOf(database, name) ?? NO_POT;
    return free + leased > 0n;
  });
}

const NO_POT = { free: 0n, leased: 0n };

/** Pots with nothing in them that bear a payer's name, and what he has for nothing, within its caller's transaction. */
export function forgetPots(database: SqliteDatabase, payer: string): void {
  for (const name of creditsPotsOf(payer)) {
    const isGone = database.run("DELETE FROM pots WHERE name = ? AND free = '0' AND leased = '0'", [
      name,
    ]);
    if (isGone > 0) database.run("DELETE FROM pot_leases WHERE pot = ?", [name]);
  }
  for (const range of quotasOf(payer)) {
    database.run("DELETE FROM pots WHERE name > ? AND name < ? AND leased = '0'", range);
    database.run(
      `DELETE FROM pot_leases WHERE pot > ? AND pot < ?
         AND NOT EXISTS (SELECT 1 FROM pots AS p WHERE p.name = pot_leases.pot)`,
      range,
    );
  }
}

/** Gives back what lives have leased that are over, within its caller's transaction. */
export function returnLeases(database: SqliteDatabase, isOver: (life: string) => boolean): void {
  for (const holder of holdersIn(database)) {
    if (!isOver(holder)) continue;
    const sql = "SELECT pot, held, turn FROM pot_leases WHERE holder = ?";
    const leases = database.all(sql, [holder]);
    for (const columns of leases) {
      const name = String(columns.pot);
      const pot = potOf(database, name);
      if (pot !== undefined) writePot(database, name, returned(pot, readLease(columns).held));
    }
    database.run("DELETE FROM pot_leases WHERE holder = ?", [holder]);
  }
}

/** One look at the index for each of them. */
function holdersIn(database: SqliteDatabase): readonly string[] {
  const found: string[] = [];
  for (let behind = ""; ;) {
    const sql = "SELECT holder FROM pot_leases WHERE holder > ? ORDER BY holder LIMIT 1";
    const next = database.get(sql, [behind]);
    if (next === undefined) return found;
    behind = String(next.holder);
    found.push(behind);
  }
}

/** Pots that have ended or are used up, and leases that were given back long ago; within its caller's transaction. */
export function tidyPots(database: SqliteDatabase, nowMs: number): void {
  database.run(
    `DELETE FROM pot_leases WHERE (holder, pot) IN (SELECT holder, pot FROM pot_leases
       WHERE held = '0' AND at_ms < ? LIMIT ${TIDIED_POTS})`,
    [nowMs - TURNS_KEPT_MS],
  );
  const ended = database.all(`SELECT name FROM pots WHERE until_ms < ? LIMIT ${TIDIED_POTS}`, [
    nowMs - TURNS_KEPT_MS,
  ]);
  for (const { name } of ended) {
    database.run("DELETE FROM pot_leases WHERE pot = ?", [name ?? ""]);
    database.run("DELETE FROM pots WHERE name = ?", [name ?? ""]);
  }
  database.run(
    `DELETE FROM pots WHERE name IN (SELECT name FROM pots AS p
       WHERE free = '0' AND leased = '0' AND until_ms IS NULL
         AND NOT EXISTS (SELECT 1 FROM pot_leases AS l WHERE l.pot = p.name) LIMIT ${TIDIED_POTS})`,
    [],
  );
}

/** The same of one payer, and what he has bought it by. */
export function readCreditsOf(database: SqliteDatabase, payer: string): PayerCredits {
  const balances = creditsPotsOf(payer).flatMap((pot) => {
    const { free, leased } = potOf(database, pot) ?? NO_POT;
    return free + leased > 0n ? [{ pot, free, leased }] : [];
  });
  const rows = database.all(
    `SELECT payment_key AS "key", network, asset, fills,
       CASE WHEN refund_state IS NOT NULL THEN json_extract(refund, '$.ofCredits.creditsAtomic') END AS "refunded"
     FROM payments INDEXED BY filling_payments
     WHERE lower(payer) = ? AND fills IS NOT NULL AND state = 'DELIVERED'
       AND (refund_state IS NULL OR refund_state = 'REFUNDED'
         AND CAST(json_extract(refund, '$.ofCredits.creditsAtomic') AS INTEGER)
           < CAST(json_extract(fills, '$.amount') AS INTEGER))
     ORDER BY created_ms DESC LIMIT ${MAX_REFUNDABLE}`,
    [payer.toLowerCase()],
  );
  return { balances, purchases: rows.map(readRefundable) };
}

/** At one moment where its caller sees one. */
export function readCredits(database: SqliteDatabase): readonly CreditsSum[] {
  const sums = new CreditsSums();
  for (let behind = CREDITS_END.slice(0, -1); ;) {
    const pots = database.all(
      `SELECT name, ${POT} FROM pots WHERE name > ? AND name < ? ORDER BY name LIMIT ${PAGE}`,
      [behind, CREDITS_END],
    );
    for (const columns of pots) sums.addPot(String(columns.name), readPot(columns));
    if (pots.length < PAGE) break;
    behind = String(pots.at(-1)?.name);
  }
  const entries = database.all(
    "SELECT * FROM closed_entries WHERE day >= '' AND kind IN (?, ?, ?)",
    [...CREDIT_KINDS],
  );
  for (const columns of entries) sums.addEntry(readEntry(columns));
  return sums.list();
}
