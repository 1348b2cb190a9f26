/**
 * Configuration -> the documents that the gateway gives of itself: the discovery listing, and those that lead
 * to it. Made of the configuration alone, so nothing that a client sends can get into them.
 */
import { setImmediate as turn } from "node:timers/promises";
import {
  isEntrance,
  isShadowed,
  PUBLISHED_PATHS,
  sitesOf,
  VERSION_2_PATHS,
  waysText,
  type Config,
} from "../config/config.ts";
import {
  catalogueSteps,
  createCatalogue,
  entryName,
  parseDiscoveryQuery,
  termsHash,
  writePage,
  type Catalogue,
  type CatalogueEntry,
  type ListingForm,
} from "../discovery/discovery.ts";
import type { EntryChanges, OtherEntries } from "../discovery/shared-entries.ts";
import { entityTag, namesTag } from "../discovery/entity-tag.ts";
import { QualityNews, type Qualities } from "../discovery/quality.ts";
import {
  writeEntrance,
  writeLlmsText,
  writeWellKnown,
  type Published,
} from "../discovery/pointers.ts";
import type { DocumentRequest, PublishedDocument } from "../gateway/declined.ts";
import { Offers, type FeePayers } from "../payments/sale/offers.ts";
import { NO_STOPS, type StopSource } from "../payments/sale/stops.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { atOnce, inTurns, type Steps } from "../time/breath.ts";
import { writeOpenApi } from "../openapi/published.ts";
import { CataloguePages, PAGE_LINES } from "./catalogue.ts";
import {
  Fates,
  isTemplate,
  metadataOf,
  onlyStopped,
  purchaseOf,
  soldRoute,
  type ListedRoute,
  type SoldEntry,
} from "./described.ts";
import { offersOf } from "./route-offers.ts";
import { servedTool } from "../x402/tool-bazaar.ts";
import { ToolListing, toolsUrl } from "./tool-listing.ts";
import { codingFor } from "../http/content-coding.ts";
import { compress, isCompressed, KeptBytes, tagOf } from "./encoded.ts";
import type { Versions } from "../x402/how-to-pay.ts";
import { serviceOf } from "../x402/version-2.ts";
import { X402_VERSION, X402_VERSION_2 } from "../x402/x402.ts";

const JSON_TYPE = "application/json";
const TEXT_TYPE = "text/plain; charset=utf-8";
const HTML_TYPE = "text/html; charset=utf-8";
const NOTHING = createCatalogue([]);
/** The path of the host alone. */
const ENTRANCE = "/";
const SEARCHES: ReadonlySet<string> = new Set([
  VERSION_2_PATHS.search,
  VERSION_2_PATHS.plainSearch,
]);

/** Routes whose terms the ledger is asked about at the same time: it stores them together. */
const MAX_NOTED_AT_ONCE = 64;

/** A listing of which more than this part has changed is made anew: that takes less time. */
const REMAKE_PARTS = 5;

/** Unix seconds of the last change of a route's public terms, by the key of the route. */
export type TermsChanges = ReadonlyMap<string, number>;

export interface PublicationsGround {
  readonly changes: TermsChanges;
  readonly feePayers: FeePayers;
  /** Default: nobody else is listed. */
  readonly others?: OtherEntries | undefined;
  /** Default: nothing is known of how well anything was delivered. */
  readonly quality?: Qualities | undefined;
  /** What is not sold for now, and not listed then. Default: nothing. */
  readonly stopped?: StopSource | undefined;
}

/** What of a configuration its documents depend on. */
export type PublishedSales = Pick<
  Config,
  | "routes"
  | "sites"
  | "publicUrl"
  | "unmatched"
  | "discovery"
  | "paywall"
  | "protocol"
  | "sidecar"
  | "passes"
  | "mcp"
>;

/** Paths of the documents on the public listener: each unless a route has that very path, but for the listing. */
export function documentPaths(
  config: Pick<Config, "discovery" | "routes" | "protocol" | "unmatched" | "sidecar">,
): ReadonlySet<string> {
  const { listed, wellKnown, openapi, llms, page } = config.discovery;
  const hasNewer = listed && versionsOf(config).includes(X402_VERSION_2);
  const pointers = [
    ...(hasNewer ? Object.values(VERSION_2_PATHS) : []),
    wellKnown ? PUBLISHED_PATHS.wellKnown : null,
    openapi === "off" ? null : PUBLISHED_PATHS.openapi,
    llms ? PUBLISHED_PATHS.llms : null,
  ].filter((path) => path !== null);
  const served: string[] = pointers.filter((path) => !isShadowed(config, path));
  if (page !== null) served.push(page);
  if (isEntrance(config)) served.push(ENTRANCE);
  return new Set(listed ? [PUBLISHED_PATHS.listed, ...served] : served);
}

function versionsOf({ protocol: { v1, v2 } }: Pick<Config, "protocol">): Versions {
  const all = [X402_VERSION, X402_VERSION_2] as const;
  return all.filter((version) => (version === X402_VERSION ? v1 : v2));
}

/** The listing that is asked for where its path does not tell. */
function usualForm({ protocol: { v1, v2 } }: Pick<Config, "protocol">): ListingForm | "either" {
  if (v1 && v2) return "either";
  return v2 ? "v2" : "v1";
}

/** Notes the terms of every listed route in the ledger, which knows since when each of them has been the same. */
export async function readTermsChanges(
  config: PublishedSales,
  ledger: Pick<Ledger, "termsChangedAt">,
): Promise<TermsChanges> {
  const changes = new Map<string, number>();
  const all = sitesOf(config).flatMap((site) => KINDS.map((kind) => inTurns(listed(site, kind))));
  const routes = (await Promise.all(all)).flat();
  const now = Math.floor(Date.now() / 1000);
  for (let from = 0; from < routes.length; from += MAX_NOTED_AT_ONCE) {
    const some = routes.slice(from, from + MAX_NOTED_AT_ONCE);
    const noted = some.map(async ({ route, terms }) => {
      changes.set(route.key, await ledger.termsChangedAt(route.key, termsHash(terms), now));
    });
    await Promise.all(noted);
    await turn();
  }
  return changes;
}

/**
 * The documents of one site, or of all that is sold at any. Who pays the network fee on Solana is no term of a route: it may change
 * at any time, and costs the buyer nothing; what is written anew then is written when it is asked for.
 */
export class Publications {
  readonly #config: PublishedSales;
  readonly #feePayers: FeePayers;
  readonly #stopped: StopSource;
  readonly #sold: readonly SoldEntry[];
  readonly #quality: Qualities;
  readonly #paths: ReadonlySet<string>;
  readonly #others: OtherEntries | undefined;
  readonly #written = new Map<string, ReturnType<typeof shared>>();
  /** Of what not all ask for. */
  readonly #kept = new KeptBytes();
  #revision: number;
  #qualityRevision: number;
  /** Of our own routes. */
  #catalogue: Catalogue;
  /** Of those of others as well, as they were at that revision; 0: not made yet. */
  #listed = NOTHING;
  #othersRevision = 0;
  /** Made when somebody asks for it. */
  #page: CataloguePages | undefined;
  #tools: ToolListing | null = null;
  readonly #soldTools: readonly SoldEntry[];

  constructor(config: PublishedSales, ground: PublicationsGround, sold?: Sold) {
    const { feePayers, others, quality, stopped = NO_STOPS } = ground;
    this.#config = config;
    this.#feePayers = feePayers;
    this.#stopped = stopped;
    this.#others = others;
    this.#paths = documentPaths(config);
    this.#quality = (config.discovery.quality ? quality : undefined) ?? new QualityNews();
    this.#sold = sold?.routes ?? atOnce(soldSteps(config, ground, "route"));
    this.#soldTools = sold?.tools ?? atOnce(soldSteps(config, ground, "tool"));
    this.#revision = feePayers.revision + stopped.revision;
    this.#qualityRevision = this.#quality.revision;
    this.#catalogue = NOTHING;
    if (sold === undefined) atOnce(this.#list());
  }

  /** The same as by the constructor, a step for each route. */
  static *steps(config: PublishedSales, ground: PublicationsGround): Steps<Publications> {
    const routes = yield* soldSteps(config, ground, "route");
    const tools = yield* soldSteps(config, ground, "tool");
    const made = new Publications(config, ground, { routes, tools });
    yield* made.#list();
    return made;
  }

  *#list(): Steps<void> {
    this.#catalogue = yield* catalogueOf(this.#sold);
    this.#tools = yield* ToolListing.steps(this.#config, this.#sold, this.#soldTools);
  }

  /** The document at one of {@link documentPaths}; the listing at any other. */
  readonly publish = (asked: DocumentRequest): PublishedDocument => {
    const { path, query } = asked;
    this.#refresh();
    if (path === this.#config.discovery.page) {
      const page = (this.#page ??= this.#pages()).write(query);
      return this.#answer({ ...textual(page), type: HTML_TYPE, lines: PAGE_LINES }, asked);
    }
    if (path === ENTRANCE && this.#paths.has(path)) return this.#enter(asked);
    if (path === VERSION_2_PATHS.resources) return this.list(query, asked, "v2");
    if (SEARCHES.has(path)) return this.list(query, asked, "search");
    const isPointer = path !== PUBLISHED_PATHS.listed && this.#paths.has(path);
    if (!isPointer) return this.list(query, asked);
    const type = path === PUBLISHED_PATHS.llms ? TEXT_TYPE : JSON_TYPE;
    const written = this.#written.get(path) ?? shared(this.#write(path));
    this.#written.set(path, written);
    return this.#answer({ ...written, type }, asked);
  };

  /** The discovery listing, for a raw query string: our routes, and what others sell beside them. */
  readonly list = (
    query: string,
    asked: Asked = {},
    form: ListingForm | "either" = usualForm(this.#config),
  ): PublishedDocument => {
    this.#refresh();
    const read = parseDiscoveryQuery(query, form);
    if (!read.ok) {
      const x402Version = form === "v2" || form === "search" ? X402_VERSION_2 : X402_VERSION;
      const body = JSON.stringify({ x402Version, error: read.error.detail });
      return { status: 400, body, type: JSON_TYPE, etag: null };
    }
    const listing = this.#tools?.catalogueFor(read.value) ?? this.#listing();
    return this.#answer({ ...writePage(listing, read.value), type: JSON_TYPE }, asked);
  };

  /** People are led to the page, programs are told what there is. */
  #enter(asked: DocumentRequest): PublishedDocument {
    const { publicUrl, discovery } = this.#config;
    const page = discovery.page ?? "";
    const vary = ["Vary", "Accept"];
    if (asked.isForPerson === true) {
      const below = (URL.parse(publicUrl ?? "")?.pathname ?? "").replace(/\/$/, "");
      const lines = ["Location", below + page, ...vary];
      return { status: 302, body: "", type: TEXT_TYPE, etag: null, lines };
    }
    const written = textual(writeEntrance(`${publicUrl ?? ""}${page}`, this.#published()));
    return this.#answer({ ...written, type: JSON_TYPE, lines: vary }, asked);
  }

  #pages(): CataloguePages {
    const { publicUrl } = this.#config;
    const [version = X402_VERSION] = versionsOf(this.#config);
    const sold = new Map(this.#sold.map((each) => [entryName(each.entry), each]));
    return new CataloguePages({ publicUrl, catalogue: this.#catalogue, sold, version });
  }

  /** What is asked for in a form that the client can read, unless it has that already. */
  #answer(
    { etag: plain, length, body, shared, type, lines = [] }: Made,
    { ifNoneMatch, acceptEncoding }: Asked,
  ): PublishedDocument {
    const isShared = shared !== undefined;
    const encoding = isCompressed(length, isShared) ? codingFor(acceptEncoding) : null;
    const etag = tagOf(plain, encoding);
    const head = { type, lines, etag, encoding };
    if (namesTag(ifNoneMatch, etag)) return { ...head, status: 304, body: "" };
    const bytes =
      encoding === null
        ? shared?.plain
        : (shared?.compressed ?? this.#kept).take(etag, () => compress(body(), encoding));
    // What is sent as bytes has its text in memory already, or is not to have it.
    const text = encoding === null ? body() : "";
    return { ...head, status: 200, body: text, ...(bytes && { bytes }) };
  }

  #refresh(): void {
    this.#refreshQuality();
    // Neither ever becomes less.
    const revision = this.#feePayers.revision + this.#stopped.revision;
    if (revision === this.#revision) return;
    this.#revision = revision;
    this.#catalogue = atOnce(catalogueOf(this.#sold));
    this.#othersRevision = 0;
    this.#page = undefined;
    this.#tools?.forget();
    this.#written.clear();
  }

  /** At a cost of what has changed: of thousands of routes some are sold from one minute to the next. */
  #refreshQuality(): void {
    const { revision } = this.#quality;
    if (revision === this.#qualityRevision) return;
    this.#qualityRevision = revision;
    this.#page = undefined;
    for (const sold of this.#sold) {
      const { entry, route, offers } = sold;
      const quality = this.#quality.of(route.key);
      if (JSON.stringify(quality) === JSON.stringify(entry.quality)) continue;
      sold.entry = { ...entry, quality };
      if (offers.areNone) continue;
      const changed = { ...sold.entry, accepts: offers.accepts(entry.resource) };
      this.#catalogue.put(changed);
      if (this.#othersRevision > 0 && this.#config.discovery.listed) this.#listed.put(changed);
    }
  }

  #listing(): Catalogue {
    // The facilitator's listener has a listing in any case (section 4.4), and then nothing of ours in it.
    const own = this.#config.discovery.listed ? this.#catalogue : NOTHING;
    const changes = this.#changesOfOthers();
    if (changes === undefined || changes.revision === 0) return own;
    this.#othersRevision = changes.revision;
    if (changes.isAll) {
      this.#listed = createCatalogue([...own.items.map(({ entry }) => entry), ...changes.put]);
      return this.#listed;
    }
    for (const name of changes.dropped) this.#listed.drop(name);
    for (const entry of changes.put) this.#listed.put(entry);
    return this.#listed;
  }

  #changesOfOthers(): EntryChanges | undefined {
    const changes = this.#others?.since(this.#othersRevision);
    if (changes === undefined) return undefined;
    const count = changes.put.length + changes.dropped.length;
    const isMuch = count > this.#listed.items.length / REMAKE_PARTS;
    return isMuch ? this.#others?.since(0) : changes;
  }

  #write(path: string): string {
    switch (path) {
      case PUBLISHED_PATHS.wellKnown:
        return writeWellKnown(this.#catalogue, this.#published());
      case PUBLISHED_PATHS.llms:
        return writeLlmsText(
          this.#catalogue,
          this.#published(),
          purchaseOf(this.#sold, this.#config),
        );
      default: {
        const { publicUrl, listing, listingV2, versions } = this.#published();
        const { openapi, contact } = this.#config.discovery;
        const payable = this.#sold.filter(({ offers }) => !offers.areNone);
        // Only a description has operations that a route has to be found for.
        const fates = typeof openapi === "string" ? null : new Fates(this.#config, payable);
        return writeOpenApi({
          publicUrl,
          listing,
          listingV2,
          versions,
          contact,
          sold: payable.map((each) => soldRoute(each)),
          description: typeof openapi === "string" ? null : openapi.description,
          fateOf: (method, path) => fates?.of(method, path) ?? { kind: "hidden" },
        });
      }
    }
  }

  #published(): Published {
    const publicUrl = this.#config.publicUrl ?? "";
    const at = (path: string) => (this.#paths.has(path) ? publicUrl + path : null);
    return {
      publicUrl,
      listing: at(PUBLISHED_PATHS.listed),
      listingV2: at(VERSION_2_PATHS.resources),
      openapi: at(PUBLISHED_PATHS.openapi),
      llms: at(PUBLISHED_PATHS.llms),
      mcp: toolsUrl(this.#config),
      facilitator: this.#config.discovery.facilitator,
      versions: versionsOf(this.#config),
    };
  }
}

/** Header lines by which a document is asked for. */
type Asked = Pick<Partial<DocumentRequest>, "ifNoneMatch" | "acceptEncoding">;

/** A document before anybody's wishes. */
interface Made {
  readonly etag: string;
  /** Characters. */
  readonly length: number;
  readonly body: () => string;
  readonly type: string;
  readonly lines?: readonly string[];
  /** What all who ask get. */
  readonly shared?: { readonly plain: Uint8Array; readonly compressed: KeptBytes };
}

function textual(body: string) {
  return { etag: entityTag(body), length: body.length, body: () => body };
}

/** For everybody who asks. */
function shared(body: string) {
  const plain = new TextEncoder().encode(body);
  return { ...textual(body), shared: { plain, compressed: new KeptBytes() } };
}

/** What is asked for over HTTP, or by a call of a server's tool. */
const KINDS = ["route", "tool"] as const;
type SoldKind = (typeof KINDS)[number];

interface Sold {
  readonly routes: readonly SoldEntry[];
  readonly tools: readonly SoldEntry[];
}

/** The priced routes that anyone may know of, with their public terms. */
function* listed(
  { routes, publicUrl, passes }: Pick<Config, "routes" | "publicUrl" | "passes">,
  kind: SoldKind,
): Steps<readonly ListedRoute[]> {
  const found: ListedRoute[] = [];
  for (const route of routes) {
    yield;
    const { action, methods, pattern, tool } = route;
    if (action.kind !== "priced") continue;
    const isListed = kind === "route" ? action.discoverable : tool?.isListed === true;
    if (!isListed) continue;
    const resource = `${publicUrl ?? ""}${tool?.path ?? pattern}`;
    const offers = offersOf({ route, action, publicUrl });
    const terms = {
      resource,
      methods: tool === undefined ? methods : null,
      ...(tool !== undefined && { tool: servedTool(tool.name, action.description) }),
      accepts: new Offers(offers).requirements(resource),
      metadata: metadataOf(route, action, { passes, publicUrl }),
      isTemplate: isTemplate(route),
      pathParams: action.input.pathParams,
      ...(action.settle === "after" && { isSettledAfter: true }),
    };
    found.push({ route, action, offers, terms });
  }
  return found;
}

function* soldSteps(
  config: PublishedSales,
  { changes, feePayers, quality: told, stopped = NO_STOPS }: PublicationsGround,
  kind: SoldKind,
): Steps<readonly SoldEntry[]> {
  const quality = config.discovery.quality ? told : undefined;
  const networks = onlyStopped(stopped);
  const sold: SoldEntry[] = [];
  for (const site of sitesOf(config)) {
    if (config.sites.length > 0 && !site.discovery.listed) continue;
    for (const { route, action, offers, terms } of yield* listed(site, kind)) {
      yield;
      const entry = {
        ...terms,
        service: serviceOf(action.metadata, site.paywall.brand),
        lastUpdated: changes.get(route.key) ?? 0,
        quality: quality?.of(route.key),
        // Where credits are bought is told beside them.
        ways: waysText(route, { ...action, credits: false }, site),
      };
      const asked = { route: route.key, networks };
      const ways = waysText(route, action, site);
      sold.push({ route, action, entry, ways, offers: new Offers(offers, feePayers, asked) });
    }
  }
  return sold;
}

/** What can be paid for now: what cannot is listed again as soon as it can. */
function* catalogueOf(sold: readonly SoldEntry[]): Steps<Catalogue> {
  const entries: CatalogueEntry[] = [];
  for (const { entry, offers } of sold) {
    yield;
    if (!offers.areNone) entries.push({ ...entry, accepts: offers.accepts(entry.resource) });
  }
  return yield* catalogueSteps(entries);
}
