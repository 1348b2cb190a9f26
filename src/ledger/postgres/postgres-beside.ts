/** How a ledger in PostgreSQL is opened by whoever is not a gateway: beside running ones, or without one. */
import { LedgerUnavailable } from "../ledger.ts";
import { PostgresDatabase, type Session } from "./postgres-database.ts";
import { isNewest, MIGRATIONS, versionOf } from "./postgres-schema.ts";

/**
 * Opens the database of a ledger beside running gateways, or without one, for one statement at a time: begins no life and
 * changes no table. Rejects with {@link LedgerUnavailable} where it cannot be asked, holds no ledger, or another version's.
 */
export async function openBeside(url: string): Promise<PostgresDatabase> {
  const database = new PostgresDatabase({ url, connections: 1, onLost: () => undefined });
  try {
    await requireNewest(database);
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

/** Refuses a database that the gateway has not prepared, or that another version of it has. */
async function requireNewest(database: Session): Promise<void> {
  const version = await versionOf(database);
  if (isNewest(version)) return;
  throw new LedgerUnavailable(
    version === 0
      ? "this database holds no ledger yet: the gateway makes it when it first starts"
      : `the ledger has schema version ${version}, older than ${MIGRATIONS.length}, which this ` +
          "program reads: start the gateway of this version first",
  );
}
