/** The PostgreSQL ledger against the contract that every ledger has to keep. */
import { afterAll, beforeAll } from "vitest";
import { openPostgresLedger } from "../../../src/ledger/postgres.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { ledgerContract } from "../../support/ledger-contract.ts";
import { startPostgres, type PostgresServer } from "../../support/postgres.ts";
import { sql } from "./stage.ts";

const logger = createLogger({ level: "silent", format: "json" });
const databases = new Map<string, Promise<string>>();
let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
});

afterAll(async () => server.stop());

function urlOf(store: string): Promise<string> {
  const url = databases.get(store) ?? server.database();
  databases.set(store, url);
  return url;
}

ledgerContract(
  "PostgreSQL",
  async ({ store, ...options }) =>
    openPostgresLedger({ ...options, url: await urlOf(store), logger }),
  {
    severalLives: true,
    async spoil(store, key, request) {
      const spoiling = "UPDATE coinslot.payments SET request = $2 WHERE payment_key = $1";
      await sql(await urlOf(store), spoiling, [key, request]);
    },
  },
);
