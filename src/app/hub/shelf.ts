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

export interface ShelfLimits {
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
export type Sale = Omit<SoldOffer, "terms"> & { readonly requirements: PaymentRequirements };

/** What became of a sale. */
export interface Placed {
  /** Whether it is listed in a way to pay that was not, or not with these terms. */
  readonly isNews: boolean;
  /** What made room for it. */
  readonly evicted: SoldResource | undefined;
}

const NOT_PLACED: Placed = { isNews: false, evicted: undefined };

export class Shelf implements OtherEntries {
  readonly #limits: ShelfLimits;
  readonly #now: () => number;
  /** By gateway, and then by the names of their entries. */
  readonly #gateways = new Map<string, Map<string, Kept>>();
  readonly #entries = new SharedEntries();
  /** Nothing expires before. */
  #nextExpiryMs = Number.POSITIVE_INFINITY;

  constructor(limits: ShelfLimits, now: () => number) {
    this.#limits = limits;
    this.#now = now;
  }

  since(revision: number): EntryChanges {
    if (this.#now() >= this.#nextExpiryMs) this.#expire();
    return this.#entries.since(revision);
  }

  /** How many resources of that gateway are listed. */
  count(gateway: string): number {
    return this.#gateways.get(gateway)?.size ?? 0;
  }

  /** Puts a sale on the shelf, unless it has expired or a newer one is there. */
  put(sale: Sale): Placed {
    if (sale.soldMs + this.#limits.expiresMs <= this.#now()) return NOT_PLACED;
    const shelf = this.#gateways.get(sale.gateway) ?? new Map<string, Kept>();
    const name = entryName({ resource: sale.resource, methods: [sale.method] });
    const known = shelf.get(name);
    const evicted = known === undefined ? this.#makeRoom(shelf, sale) : undefined;
    if (evicted === "full") return NOT_PLACED;
    const { gateway, resource, method } = sale;
    const kept = known ?? { gateway, resource, method, ways: new Map() };
    const isNews = this.#putWay(kept, sale);
    shelf.set(name, kept);
    this.#gateways.set(gateway, shelf);
    if (isNews) this.#entries.put(entryOf(kept));
    return { isNews, evicted };
  }

  /** Whether the terms were new or changed. */
  #putWay(kept: Kept, { network, asset, requirements, hash, changedAt, soldMs }: Sale): boolean {
    const name = `${network} ${asset}`;
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
  #makeRoom(shelf: Map<string, Kept>, { soldMs }: Sale): SoldResource | "full" | undefined {
    if (shelf.size < this.#limits.maxResources) return undefined;
    let oldest: { readonly name: string; readonly kept: Kept; readonly soldMs: number } | undefined;
    for (const [name, kept] of shelf) {
      const newest = newestOf(kept);
      if (oldest === undefined || newest < oldest.soldMs) oldest = { name, kept, soldMs: newest };
    }
    if (oldest === undefined || oldest.soldMs > soldMs) return "full";
    shelf.delete(oldest.name);
    this.#entries.drop(oldest.name);
    const { gateway, resource, method } = oldest.kept;
    return { gateway, resource, method };
  }

  #expire(): void {
    const lastMs = this.#now() - this.#limits.expiresMs;
    let soonestMs = Number.POSITIVE_INFINITY;
    for (const shelf of this.#gateways.values()) {
      for (const [name, kept] of shelf) {
        const ways = kept.ways.size;
        for (const [way, { soldMs }] of kept.ways) {
          if (soldMs <= lastMs) kept.ways.delete(way);
          else soonestMs = Math.min(soonestMs, soldMs);
        }
        if (kept.ways.size === 0) {
          shelf.delete(name);
          this.#entries.drop(name);
        } else if (kept.ways.size < ways) this.#entries.put(entryOf(kept));
      }
    }
    this.#nextExpiryMs = soonestMs + this.#limits.expiresMs;
  }
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
