/** What is asked of PostgreSQL about a gateway's own database. */
import type { Client } from "pg";

export interface Rows {
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
}

const OTHERS = `FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`;

export async function connectionsOf(database: Client): Promise<number> {
  return numberOf(database, `SELECT count(*) AS value ${OTHERS}`);
}

export async function paymentsIn(database: Client): Promise<number> {
  return numberOf(database, "SELECT count(*) AS value FROM coinslot.payments");
}

/** By all databases so far: each transaction that writes has taken a number. */
export async function writtenSoFar(
  database: Client,
): Promise<{ readonly commits: number; readonly walBytes: number }> {
  const commits = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS value";
  const walBytes = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') AS value";
  return {
    commits: await numberOf(database, commits),
    walBytes: await numberOf(database, walBytes),
  };
}

export async function versionOfServer(database: Client): Promise<string> {
  const { rows } = await database.query<{ version: string }>(
    "SELECT current_setting('server_version') AS version",
  );
  return rows[0]?.version ?? "";
}

/** Tables with their indexes. */
export async function tableBytes(database: Client): Promise<number> {
  return numberOf(
    database,
    `SELECT coalesce(sum(pg_total_relation_size(oid)), 0) AS value FROM pg_class
     WHERE relkind = 'r' AND relnamespace = 'coinslot'::regnamespace`,
  );
}

/**
 * Rows written since the database was made. A session tells the server of its rows when it ends, so that all of them
 * are waited for; beats, which are the idle's, are left out.
 */
export async function rowsOf(database: Client): Promise<Rows> {
  while ((await numberOf(database, `SELECT count(*) AS value ${OTHERS}`)) > 0);
  const sum = (column: string): Promise<number> =>
    numberOf(
      database,
      `SELECT coalesce(sum(${column}), 0) AS value FROM pg_stat_user_tables
       WHERE schemaname = 'coinslot' AND relname <> 'lives'`,
    );
  return {
    inserted: await sum("n_tup_ins"),
    updated: await sum("n_tup_upd"),
    deleted: await sum("n_tup_del"),
  };
}

async function numberOf(database: Client, sql: string): Promise<number> {
  const { rows } = await database.query<{ value: string }>(sql);
  return Number(rows[0]?.value);
}
