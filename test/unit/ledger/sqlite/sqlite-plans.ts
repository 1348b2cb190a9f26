/** Every statement of the SQLite ledger, as they were prepared while tests ran, and how SQLite would run them. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

const LEDGER = join(import.meta.dirname, "../../../../src/ledger/sqlite");

/** Statements that change no row and read none. */
const OTHERS =
  /^\s*(?:PRAGMA|BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|CREATE|ALTER|DROP|EXPLAIN)\b/i;
/** Of migrations, which run once and look at everything, and of the lock, which looks at no table of ours. */
const NOT_RUN = new Set(["sqlite-schema.ts", "sqlite-older-schemas.ts", "sqlite-lock.ts"]);

/** Tables that hold a handful of rows, or a bounded list. */
const SMALL_TABLES = new Set(
  (
    "accounts heartbeat route_terms used_elsewhere used_sign_ins secrets resolutions pauses outbox " +
    "troubles certificates"
  ).split(" "),
);

/** Collects what is prepared from now on. */
export function collectStatements(): ReadonlySet<string> {
  const statements = new Set<string>();
  const prototype: object = DatabaseSync.prototype;
  const original: (...given: unknown[]) => unknown = Reflect.get(prototype, "prepare");
  Reflect.set(
    DatabaseSync.prototype,
    "prepare",
    function prepare(this: unknown, ...given: unknown[]): unknown {
      statements.add(String(given[0]));
      return Reflect.apply(original, this, given);
    },
  );
  return statements;
}

/** In a template or in quotes. */
const STATEMENT =
  /`\s*((?:SELECT|INSERT|UPDATE|DELETE|WITH)\s[^`]*)`|"((?:SELECT|INSERT|UPDATE|DELETE|WITH)\s[^"]*)"/g;

/** Beginnings of the statements about growing tables in the sources, up to what is put in, with single spaces. */
export function statementsInSources(): readonly {
  readonly file: string;
  readonly begin: string;
}[] {
  const files = readdirSync(LEDGER).filter((name) => /^sqlite.*\.ts$/.test(name));
  return files
    .filter((name) => !NOT_RUN.has(name))
    .flatMap((file) => {
      const text = readFileSync(join(LEDGER, file), "utf8");
      const found = text.matchAll(STATEMENT);
      return [...found].flatMap(([, long, short = ""]) => {
        const sql = long ?? short;
        const [begin = ""] = squeezed(sql).split("${", 1);
        const [, table = ""] = /(?:FROM|INTO|UPDATE) (\w+)/.exec(begin) ?? [];
        return SMALL_TABLES.has(table) ? [] : [{ file, begin }];
      });
    });
}

export function squeezed(sql: string): string {
  return sql.replace(/\s+/g, " ").trim();
}

/** The steps of a statement, as `EXPLAIN QUERY PLAN` says them; none of one that asks no table. */
export function planOf(database: DatabaseSync, sql: string): readonly string[] {
  if (OTHERS.test(sql)) return [];
  const rows = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all();
  return rows.map(({ detail }) => String(detail));
}

/** Indexes that hold only what is under way or waits for somebody. */
const SMALL_INDEXES = new Set(
  (
    "claimed_payments undecided_spends handed_over_payments delivering_payments offered_payments " +
    "undelivered_payments payments_held left_payments empty_pots"
  ).split(" "),
);
/** Of all payments the newest, but for the few that are held: it ends with its limit. */
const NEWEST =
  /INDEXED BY payments_by_time WHERE true (?:AND NOT \(state = 'SIGNED' AND held_transaction IS NOT NULL\) )?ORDER BY created_ms DESC, rowid DESC LIMIT/;

/** Of one state, newest first: such a walk ends with its limit, too. */
const WALKED =
  /INDEXED BY (delivered_payments|failed_payments|settled_for_others) WHERE state = '[A-Z]+' (?:(?!INDEXED BY).)*?ORDER BY created_ms DESC, rowid DESC LIMIT/g;

/** Steps that look at a whole table, or at all of an index that grows with the sales. */
export function scansIn(sql: string, plan: readonly string[]): readonly string[] {
  const walked = new Set([...squeezed(sql).matchAll(WALKED)].map(([, index]) => index));
  return plan.filter((step) => {
    const [, table = "", index = ""] =
      /^SCAN (\S+)(?: USING (?:COVERING )?INDEX (\S+))?/.exec(step) ?? [];
    if (table === "" || table === "CONSTANT" || table.startsWith("(")) return false;
    if (walked.has(index)) return false;
    if (index === "payments_by_time" && NEWEST.test(squeezed(sql))) return false;
    return !SMALL_INDEXES.has(index) && !SMALL_TABLES.has(table);
  });
}
