/** The documents of each site of a configuration, made together. */
import { sitesOf } from "../config/config.ts";
import type { DocumentRequest, PublishedDocument } from "../gateway/declined.ts";
import type { Steps } from "../time/breath.ts";
import { Publications, type PublicationsGround, type PublishedSales } from "./publishing.ts";

/** The documents of each site of a configuration, and the listing of all that is sold at any of them. */
export class SitePublications {
  readonly #sites: ReadonlyMap<string, Publications>;
  readonly #all: Publications;

  private constructor(sites: ReadonlyMap<string, Publications>, all: Publications) {
    this.#sites = sites;
    this.#all = all;
  }

  /** A step for each route. */
  static *steps(config: PublishedSales, ground: PublicationsGround): Steps<SitePublications> {
    const sites = new Map<string, Publications>();
    for (const each of sitesOf(config)) {
      sites.set(each.site, yield* Publications.steps(each, ground));
    }
    const only = config.sites.length === 0 ? sites.get("") : undefined;
    return new SitePublications(sites, only ?? (yield* Publications.steps(config, ground)));
  }

  /** @throws Error for a site that the configuration has not */
  readonly publish: SitesPublisher = (asked, site) => {
    const publications = this.#sites.get(site);
    if (publications === undefined) throw new Error(`no site named ${site}`);
    return publications.publish(asked);
  };

  readonly list: Publications["list"] = (...asked) => this.#all.list(...asked);
}

/** Gives the documents of each site. */
export type SitesPublisher = (asked: DocumentRequest, site: string) => PublishedDocument;
