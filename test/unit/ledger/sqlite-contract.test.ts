import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, beforeAll } from "vitest";
import { openSqliteLedger } from "../../../src/ledger/sqlite.ts";
import { ledgerContract } from "../../support/ledger-contract.ts";

let folder: string;
const pathOf = (store: string): string => join(folder, `${store}.db`);

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "coinslot-ledger-"));
});

afterAll(async () => rm(folder, { recursive: true, force: true }));

ledgerContract(
  "SQLite",
  async ({ store, ...options }) => openSqliteLedger({ ...options, path: pathOf(store) }),
  {
    severalLives: false,
    async spoil(store, key, request) {
      const database = new DatabaseSync(pathOf(store));
      database.prepare("UPDATE payments SET request = ? WHERE payment_key = ?").run(request, key);
      database.close();
    },
  },
);
