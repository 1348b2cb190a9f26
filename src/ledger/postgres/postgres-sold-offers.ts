/** What other gateways sold through us, as rows of PostgreSQL, where every replica of ours finds it. */
import type { Session, Statement } from "./postgres-database.ts";
import { readSoldOffer } from "../sold-offers-row.ts";
import type { SoldOffer, SoldOffers, SoldResource } from "../sold-offers.ts";

const NOTE: Statement = {
  name: "note_sold_offer",
  text: `
    INSERT INTO coinslot.sold_offers AS o
      (gateway, resource, method, network, asset, terms, hash, changed_at, sold_ms)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
    ON CONFLICT (gateway, md5(resource), method, network, asset) DO UPDATE SET
      terms = excluded.terms, hash = excluded.hash, sold_ms = excluded.sold_ms,
      changed_at = CASE WHEN o.hash = excluded.hash THEN o.changed_at ELSE excluded.changed_at END
    WHERE o.sold_ms <= excluded.sold_ms`,
};

const SINCE: Statement = {
  name: "sold_offers_since",
  text: `
    SELECT gateway AS "gateway", resource AS "resource", method AS "method", network AS "network",
      asset AS "asset", terms AS "terms", hash AS "hash", changed_at AS "changedAt",
      sold_ms AS "soldMs"
    FROM coinslot.sold_offers WHERE sold_ms >= $1
    ORDER BY sold_ms DESC, gateway, resource COLLATE "C", method, network, asset LIMIT $2`,
};

const FORGET: Statement = {
  name: "forget_sold_resource",
  text: `DELETE FROM coinslot.sold_offers
         WHERE gateway = $1 AND md5(resource) = md5($2) AND resource = $2 AND method = $3`,
};

const FORGET_BEFORE: Statement = {
  name: "forget_sold_offers",
  text: `WITH gone AS (DELETE FROM coinslot.sold_offers WHERE sold_ms < $1 RETURNING 1)
         SELECT count(*) AS "count" FROM gone`,
};

export class PostgresSoldOffers implements SoldOffers {
  readonly #database: Session;

  constructor(database: Session) {
    this.#database = database;
  }

  async note(offer: SoldOffer): Promise<void> {
    const { gateway, resource, method, network, asset, terms, hash, changedAt, soldMs } = offer;
    const way = [gateway, resource, method, network, asset];
    await this.#database.query(NOTE, [...way, terms, hash, changedAt, soldMs]);
  }

  async since(soldMs: number, limit: number): Promise<readonly SoldOffer[]> {
    return (await this.#database.query(SINCE, [soldMs, limit])).map(readSoldOffer);
  }

  async forget({ gateway, resource, method }: SoldResource): Promise<void> {
    await this.#database.query(FORGET, [gateway, resource, method]);
  }

  async forgetBefore(soldMs: number): Promise<number> {
    const [gone] = await this.#database.query(FORGET_BEFORE, [soldMs]);
    return Number(gone?.["count"]);
  }
}
