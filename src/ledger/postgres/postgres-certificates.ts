/** What is kept of certificates, as rows of PostgreSQL, where every replica of ours finds it. */
import { randomUUID } from "node:crypto";
import type { Time } from "../../time/time.ts";
import { LONGEST_LEASE_MS, type KeptCertificates, type KeptText } from "../certificates.ts";
import type { Session, Statement } from "./postgres-database.ts";
import { openBeside } from "./postgres-beside.ts";

const REVISION: Statement = {
  name: "certificates_revision",
  text: `SELECT coalesce(string_agg(revision, ' ' ORDER BY name COLLATE "C"), '') AS "revision"
         FROM coinslot.certificates WHERE name > ''`,
};
const LIST: Statement = {
  name: "list_certificates",
  text: `SELECT name AS "name", text AS "text" FROM coinslot.certificates
         WHERE name > '' ORDER BY name COLLATE "C"`,
};
const PUT: Statement = {
  name: "put_certificate",
  text: `INSERT INTO coinslot.certificates (name, text, revision) VALUES ($1, $2, $3)
         ON CONFLICT (name) DO UPDATE SET text = excluded.text, revision = excluded.revision`,
};
const REMOVE: Statement = {
  name: "remove_certificate",
  text: `DELETE FROM coinslot.certificates WHERE name = $1`,
};
const LEASE: Statement = {
  name: "lease_certificates",
  text: `INSERT INTO coinslot.certificate_lease AS l (id, holder, until_ms) VALUES (1, $1, $2)
         ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, until_ms = excluded.until_ms
         WHERE l.holder = excluded.holder OR l.until_ms <= $3 OR l.until_ms > $4
         RETURNING id AS "id"`,
};

/** What is kept in a ledger beside running gateways. Rejects with `LedgerUnavailable` where it cannot be read. */
export async function readPostgresCertificates(url: string): Promise<readonly KeptText[]> {
  const database = await openBeside(url);
  try {
    return await listIn(database);
  } finally {
    await database.close();
  }
}

async function listIn(session: Session): Promise<readonly KeptText[]> {
  const rows = await session.query(LIST, []);
  return rows.map(({ name, text }) => ({ name: String(name), text: String(text) }));
}

export class PostgresCertificates implements KeptCertificates {
  readonly #database: Session;
  readonly #time: Pick<Time, "now">;

  constructor(database: Session, time: Pick<Time, "now">) {
    this.#database = database;
    this.#time = time;
  }

  async revision(): Promise<string> {
    const [row] = await this.#database.query(REVISION, []);
    return String(row?.["revision"]);
  }

  list(): Promise<readonly KeptText[]> {
    return listIn(this.#database);
  }

  async put({ name, text }: KeptText): Promise<void> {
    await this.#database.query(PUT, [name, text, randomUUID()]);
  }

  async remove(name: string): Promise<void> {
    await this.#database.query(REMOVE, [name]);
  }

  async lease(holder: string, untilMs: number): Promise<boolean> {
    const nowMs = this.#time.now();
    const values = [holder, untilMs, nowMs, nowMs + LONGEST_LEASE_MS];
    const taken = await this.#database.query(LEASE, values);
    return taken.length > 0;
  }
}
