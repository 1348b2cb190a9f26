/** What other gateways sold through us, as rows of SQLite. */
import type { SoldOffer, SoldOffers, SoldResource } from "../sold-offers.ts";
import { readSoldOffer } from "../sold-offers-row.ts";
import type { SqliteCore } from "./sqlite-core.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

export class SqliteSoldOffers implements SoldOffers {
  readonly #database: SqliteDatabase;
  readonly #core: Pick<SqliteCore, "write" | "writeLater">;

  constructor(database: SqliteDatabase, core: Pick<SqliteCore, "write" | "writeLater">) {
    this.#database = database;
    this.#core = core;
  }

  note(offer: SoldOffer): Promise<void> {
    return this.#core.writeLater(() => {
      this.#database.run(
        `INSERT INTO sold_offers
           (gateway, resource, method, network, asset, terms, hash, changed_at, sold_ms)
         VALUES (:gateway, :resource, :method, :network, :asset, :terms, :hash, :changedAt, :soldMs)
         ON CONFLICT (gateway, resource, method, network, asset) DO UPDATE SET
           terms = excluded.terms, hash = excluded.hash, sold_ms = excluded.sold_ms,
           changed_at = CASE WHEN hash = excluded.hash THEN changed_at ELSE excluded.changed_at END
         WHERE sold_ms <= excluded.sold_ms`,
        { ...offer },
      );
    });
  }

  async since(soldMs: number, limit: number): Promise<readonly SoldOffer[]> {
    const rows = this.#database.all(
      `SELECT gateway, resource, method, network, asset, terms, hash,
         changed_at AS "changedAt", sold_ms AS "soldMs"
       FROM sold_offers WHERE sold_ms >= :soldMs
       ORDER BY sold_ms DESC, gateway, resource, method, network, asset LIMIT :limit`,
      { soldMs, limit },
    );
    return rows.map(readSoldOffer);
  }

  forget({ gateway, resource, method }: SoldResource): Promise<void> {
    return this.#core.writeLater(() => {
      this.#database.run(
        `DELETE FROM sold_offers
         WHERE gateway = :gateway AND resource = :resource AND method = :method`,
        { gateway, resource, method },
      );
    });
  }

  forgetBefore(soldMs: number): Promise<number> {
    return this.#core.writeLater(() =>
      this.#database.run("DELETE FROM sold_offers WHERE sold_ms < :soldMs", { soldMs }),
    );
  }
}
