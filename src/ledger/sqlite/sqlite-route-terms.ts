/** When the public terms of a route changed last, as rows of SQLite. */
import type { SqliteDatabase } from "./sqlite-database.ts";

/** Undefined unless those are the terms that are stored. */
export function findTerms(
  database: SqliteDatabase,
  route: string,
  hash: string,
): number | undefined {
  const found = database.get(
    `SELECT changed_at AS "changedAt" FROM route_terms WHERE route = :route AND hash = :hash`,
    { route, hash },
  );
  return found && Number(found.changedAt);
}

/** Part of its caller's transaction. */
export function storeTerms(
  database: SqliteDatabase,
  terms: { readonly route: string; readonly hash: string; readonly now: number },
): number {
  database.run(
    `INSERT INTO route_terms (route, hash, changed_at) VALUES (:route, :hash, :now)
     ON CONFLICT (route) DO UPDATE SET hash = :hash, changed_at = :now`,
    { ...terms },
  );
  return terms.now;
}
