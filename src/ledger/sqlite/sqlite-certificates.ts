/** What is kept of certificates, as rows of SQLite. */
import { randomUUID } from "node:crypto";
import type { Time } from "../../time/time.ts";
import { LONGEST_LEASE_MS, type KeptCertificates, type KeptText } from "../certificates.ts";
import { openForReading } from "./sqlite-books.ts";
import type { SqliteCore } from "./sqlite-core.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

/** What is kept in a ledger that another process may have open. Throws `LedgerUnavailable` where it cannot be read. */
export function readSqliteCertificates(path: string): readonly KeptText[] {
  const database = openForReading(path);
  try {
    return listOf(database);
  } finally {
    database.close();
  }
}

function listOf(database: SqliteDatabase): readonly KeptText[] {
  const rows = database.all("SELECT name, text FROM certificates ORDER BY name", {});
  return rows.map(({ name, text }) => ({ name: String(name), text: String(text) }));
}

export class SqliteCertificates implements KeptCertificates {
  readonly #database: SqliteDatabase;
  readonly #core: Pick<SqliteCore, "write">;
  readonly #time: Pick<Time, "now">;

  constructor(database: SqliteDatabase, core: Pick<SqliteCore, "write">, time: Pick<Time, "now">) {
    this.#database = database;
    this.#core = core;
    this.#time = time;
  }

  async revision(): Promise<string> {
    const rows = this.#database.all("SELECT revision FROM certificates ORDER BY name", {});
    return rows.map(({ revision }) => String(revision)).join(" ");
  }

  async list(): Promise<readonly KeptText[]> {
    return listOf(this.#database);
  }

  put({ name, text }: KeptText): Promise<void> {
    return this.#core.write(() => {
      this.#database.run(
        `INSERT INTO certificates (name, text, revision) VALUES (:name, :text, :revision)
         ON CONFLICT (name) DO UPDATE SET text = excluded.text, revision = excluded.revision`,
        { name, text, revision: randomUUID() },
      );
    });
  }

  remove(name: string): Promise<void> {
    return this.#core.write(() => {
      this.#database.run("DELETE FROM certificates WHERE name = :name", { name });
    });
  }

  lease(holder: string, untilMs: number): Promise<boolean> {
    return this.#core.write(() => {
      const taken = this.#database.run(
        `INSERT INTO certificate_lease (id, holder, until_ms) VALUES (1, :holder, :untilMs)
         ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, until_ms = excluded.until_ms
         WHERE holder = excluded.holder OR until_ms <= :now OR until_ms > :now + :longest`,
        { holder, untilMs, now: this.#time.now(), longest: LONGEST_LEASE_MS },
      );
      return taken > 0;
    });
  }
}
