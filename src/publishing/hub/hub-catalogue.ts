/**
 * What other gateways sold through us lately, in memory, as the listing shows it. What has not been sold for a
 * while expires; each gateway has so many resources, and the one that was sold longest ago makes room for the next.
 */
import { entryName, type CatalogueEntry } from "../../discovery/discovery.ts";
import {
  SharedEntries,
  type EntryChanges,
  type OtherEntries,
} from "../../discovery/shared-entries.ts";
import { templateOf } from "../../discovery/sold-resource.ts";
import type { SoldOffer, SoldResource } from "../../ledger/sold-offers.ts";
import type { PaymentRequirements } from "../../x402/x402.ts";

/** Ways to pay for one resource; the one that was used longest ago makes room. */
export const MAX_WAYS = 32;

export interface HubCatalogueLimits {
  readonly expiresMs: number;
  /** Of each gateway. */
  readonly maxResources: number;
}

/** One way to pay, as it is kept. */
interface Way {
  readonly requirements: PaymentRequirements;
  readonly hash: string;
  readonly changedAt: number;
  soldMs: number;
}

interface Kept extends SoldResource {
  /** By network and asset. */
  readonly ways: Map<string, Way>;
}

/** A sale, with its terms as a value. */
export type CataloguedSale = Omit<SoldOffer, "terms"> & {
  readonly requirements: PaymentRequirements;
};

/** What became of a sale. */
export interface Placed {
  /** Whether it is listed in a way to pay that was not, or not with these terms. */
  readonly isNews: boolean;
  /** Whether nothing of its resource was listed. */
  readonly isFirst: boolean;
  /** What made room for it. */
  readonly evicted: SoldResource | undefined;
}

const NOT_PLACED: Placed = { isNews: false, isFirst: false, evicted: undefined };

export class HubCatalogue implements OtherEntries {
  readonly #limits: HubCatalogueLimits;
  readonly #now: () => number;
  /** By gateway, and then by the names of their entries, in the order in which they were last sold. */
  readonly #gateways = new Map<string, Map<string, Kept>>();
  readonly #entries = new SharedEntries();
  /** Nothing expires before. */
  #nextExpiryMs = Number.POSITIVE_INFINITY;

  constructor(limits: HubCatalogueLimits, now: () => number) {
    this.#limits = limits;
    this.#now = now;
  }

  since(revision: number): EntryChanges {
    this.#expire();
    return this.#entries.since(revision);
  }

  /** How many resources of that gateway are listed. */
  count(gateway: string): number {
    this.#expire();
    return this.#gateways.get(gateway)?.size ?? 0;
  }

  /** When something was last sold in that way, milliseconds; undefined: it is not listed. */
  soldMs(
    sale: Pick<CataloguedSale, "gateway" | "resource" | "method" | "network" | "asset">,
  ): number | undefined {
    return this.#gateways.get(sale.gateway)?.get(nameOf(sale))?.ways.get(wayOf(sale))?.soldMs;
  }

  /** Puts a sale on the catalogue, unless it has expired or a newer one is there. */
  put(sale: CataloguedSale): Placed {
    if (sale.soldMs + this.#limits.expiresMs <= this.#now()) return NOT_PLACED;
    const shelved = this.#gateways.get(sale.gateway) ?? new Map<string, Kept>();
    const name = nameOf(sale);
    const known = shelved.get(name);
    const evicted = known === undefined ? this.#makeRoom(shelved, sale) : undefined;
    if (evicted === "full") return NOT_PLACED;
    const { gateway, resource, method } = sale;
    const kept = known ?? { gateway, resource, method, ways: new Map() };
    const newestMs = newestOf(kept);
    const isNews = this.#putWay(kept, sale);
    if (sale.soldMs > newestMs) shelved.delete(name);
    shelved.set(name, kept);
    this.#gateways.set(gateway, shelved);
    if (isNews) this.#entries.put(entryOf(kept));
    return { isNews, isFirst: known === undefined, evicted };
  }

  /** Whether the terms were new or changed. */
  #putWay(kept: Kept, sale: CataloguedSale): boolean {
    const { requirements, hash, changedAt, soldMs } = sale;
    const name = wayOf(sale);
    const known = kept.ways.get(name);
    if (known !== undefined && known.soldMs > soldMs) return false;
    this.#nextExpiryMs = Math.min(this.#nextExpiryMs, soldMs + this.#limits.expiresMs);
    if (known?.hash === hash && known.changedAt <= changedAt) {
      known.soldMs = soldMs;
      return false;
    }
    kept.ways.set(name, { requirements, hash, changedAt, soldMs });
    if (kept.ways.size > MAX_WAYS) {
      const [oldest] = [...kept.ways].toSorted(([, left], [, right]) => left.soldMs - right.soldMs);
      if (oldest !== undefined) kept.ways.delete(oldest[0]);
    }
    return true;
  }

  /** What was taken away; `full`: everything that is there was sold after it. */
  #makeRoom(
    shelved: Map<string, Kept>,
    { soldMs }: CataloguedSale,
  ): SoldResource | "full" | undefined {
    if (shelved.size < this.#limits.maxResources) return undefined;
    // The first of them is the oldest: to look for it at each sale would hold up what is settled.
    const [oldest] = shelved;
    if (oldest === undefined) return "full";
    const [name, kept] = oldest;
    if (newestOf(kept) > soldMs) return "full";
    shelved.delete(name);
    this.#entries.drop(name);
    const { gateway, resource, method } = kept;
    return { gateway, resource, method };
  }

  #expire(): void {
    if (this.#now() < this.#nextExpiryMs) return;
    const lastMs = this.#now() - this.#limits.expiresMs;
    let soonestMs = Number.POSITIVE_INFINITY;
    for (const shelved of this.#gateways.values()) {
      for (const [name, kept] of shelved) {
        const ways = kept.ways.size;
        for (const [way, { soldMs }] of kept.ways) {
          if (soldMs <= lastMs) kept.ways.delete(way);
          else soonestMs = Math.min(soonestMs, soldMs);
        }
        if (kept.ways.size === 0) {
          shelved.delete(name);
          this.#entries.drop(name);
        } else if (kept.ways.size < ways) this.#entries.put(entryOf(kept));
      }
    }
    this.#nextExpiryMs = soonestMs + this.#limits.expiresMs;
  }
}

function nameOf({ resource, method }: Pick<SoldResource, "resource" | "method">): string {
  return entryName({ resource, methods: [method] });
}

function wayOf({ network, asset }: Pick<CataloguedSale, "network" | "asset">): string {
  return `${network} ${asset}`;
}

function newestOf({ ways }: Kept): number {
  return Math.max(...[...ways.values()].map(({ soldMs }) => soldMs));
}

/** The ways to pay in the order of their networks and tokens, whichever was used last. */
function entryOf(kept: Kept): CatalogueEntry {
  const names = [...kept.ways.keys()].toSorted();
  const ways = names.flatMap((name) => kept.ways.get(name) ?? []);
  const accepts = ways.map(({ requirements }) => requirements);
  const [first] = accepts;
  const template = first && templateOf(first);
  return {
    resource: kept.resource,
    methods: [kept.method],
    accepts,
    metadata: {},
    isTemplate: template !== undefined,
    pathParams: template?.pathParams,
    lastUpdated: Math.max(...ways.map(({ changedAt }) => changedAt)),
  };
}
