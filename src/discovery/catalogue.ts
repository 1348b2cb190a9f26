/**
 * The resources that are listed, in their order and with what they are found by. Made at once from what a
 * configuration sells; what others sell comes and goes one by one, at a cost that does not grow with all the rest.
 */
import { parseAtomicAmount } from "../x402/amount.ts";
import { findNetwork } from "../x402/network.ts";
import { extensionsOf, hasBazaar } from "../x402/bazaar.ts";
import { toolExtension, type BazaarTool } from "../x402/tool-bazaar.ts";
import { flowOf, requirementsV2, resourceV2, type ResourceV2 } from "../x402/version-2.ts";
import {
  X402_VERSION,
  X402_VERSION_2,
  type DiscoveredResource,
  type PaymentRequirements,
} from "../x402/x402.ts";
import { DOLLAR_DECIMALS, type Sort } from "./discovery-query.ts";
import { entityTag } from "./entity-tag.ts";
import type { RouteQuality } from "./quality.ts";
import { SearchIndex, termOf, type Findable } from "./search-index.ts";
import { describeTemplate } from "./template.ts";

/** The one type of resource that the protocol defines (section 2.6). */
export const LISTED_TYPE = "http";
/** What the bazaar extension of version 2 has beside it: a tool of an MCP server. */
export const TOOL_TYPE = "mcp";

/** `methods` in the metadata of a route of any method. */
const ANY_METHOD = ["*"] as const;

/** What a route offers to anyone, apart from when it last changed. */
export interface PublicTerms {
  /** Absolute URL; of a pattern route the template with its `:param` and `*`. */
  readonly resource: string;
  /** Null for a route of any method. */
  readonly methods: readonly string[] | null;
  readonly accepts: readonly PaymentRequirements[];
  readonly metadata: Readonly<Record<string, unknown>>;
  /** Whether `resource` is a template, which is then described in the metadata, see `template.ts`. */
  readonly isTemplate: boolean;
  /** Of a template, what is known of its parameters by their names. */
  readonly pathParams?: Readonly<Record<string, unknown>> | undefined;
  /** What version 2 says of the service behind it. */
  readonly service?: Pick<ResourceV2, "serviceName" | "tags">;
  /** Whether it is paid after the work, as version 2 says. Default: before. */
  readonly isSettledAfter?: boolean;
  /** Which tool of the server at `resource` it is. Default: none, it is had over HTTP. */
  readonly tool?: BazaarTool;
}

export interface CatalogueEntry extends PublicTerms {
  /** Unix seconds of the last change of the terms, see `termsHash`. */
  readonly lastUpdated: number;
  /** No term: it changes with every sale. */
  readonly quality?: RouteQuality | undefined;
  /** How it is had beside a payment for each request, and beside credits, in words for documents: sentences without a period. */
  readonly ways?: readonly string[];
}

/** Of the entries of a catalogue each has another name. */
export function entryName({
  resource,
  methods,
  tool,
}: Pick<PublicTerms, "resource" | "methods" | "tool">): string {
  return `${tool?.name ?? methods?.join() ?? ""} ${resource}`;
}

/** Numbers in place of texts that thousands of entries share: two numbers are compared at once. */
class Names {
  readonly #numbers = new Map<string, { readonly number: number; holders: number }>();
  #next = 0;

  /** The number of a text, until as many have let it go as have taken it. */
  take(text: string): number {
    const known = this.#numbers.get(text);
    if (known !== undefined) {
      known.holders += 1;
      return known.number;
    }
    const number = this.#next;
    this.#next += 1;
    this.#numbers.set(text, { number, holders: 1 });
    return number;
  }

  letGo(text: string): void {
    const known = this.#numbers.get(text);
    if (known === undefined) return;
    known.holders -= 1;
    if (known.holders === 0) this.#numbers.delete(text);
  }

  /** Undefined where nothing has that text. */
  find(text: string): number | undefined {
    return this.#numbers.get(text)?.number;
  }
}

/** One way to pay, as queries ask for it; texts by their {@link Names}. */
export interface ListedOffer {
  readonly network: number;
  readonly asset: number;
  readonly payTo: number;
  /** Atomic units. */
  readonly amount: bigint;
  /** At {@link DOLLAR_DECIMALS}; undefined: it is in another token than the network's own stablecoin. */
  readonly dollars: bigint | undefined;
  /** The same as a number, for an order; Infinity where there is none. */
  readonly sortedBy: number;
}

/** JSON with the strong tag of it. */
interface Written {
  readonly json: string;
  readonly tag: string;
}

class CatalogueItem {
  readonly entry: CatalogueEntry;
  readonly item: DiscoveredResource;
  readonly offers: readonly ListedOffer[];
  /** Among those that have the same resource; of a tool its name. */
  readonly methods: string;
  /** Its number in the index. */
  readonly number: number;
  /** Whether version 2 has its bazaar extension. */
  readonly hasBazaar: boolean;
  #written: Written = { json: "", tag: "" };
  #writtenV2: Written | undefined;

  constructor(entry: CatalogueEntry, number: number, names: Names) {
    this.entry = entry;
    const { resource, type, x402Version, accepts, metadata } = published(entry);
    const { lastUpdated, quality } = entry;
    // Version 1 has no place of its own for what a catalogue knows; whoever says so himself is not spoken over.
    const told = quality === undefined ? metadata : { quality, ...metadata };
    const shown = told === undefined ? {} : { metadata: told };
    this.item = { resource, type, x402Version, accepts, lastUpdated, ...shown };
    this.offers = entry.accepts.map((requirements) => listedOffer(requirements, names));
    this.methods = entry.tool?.name ?? entry.methods?.join() ?? "";
    this.number = number;
    this.hasBazaar = entry.tool !== undefined || entry.accepts.some(hasBazaar);
  }

  /** The text is there before anybody asks for a page. */
  write(): void {
    this.#written = written(this.item);
  }

  get written(): Written {
    return this.#written;
  }

  /** In the form of version 2, which is made when somebody asks for it, and once. */
  get writtenV2(): Written {
    return (this.#writtenV2 ??= written(publishedV2(this.entry)));
  }

  get findable(): Findable {
    return { terms: termsOf(this.item), text: textOf(this.item) };
  }
}

export type { CatalogueItem };

/**
 * Entries are in order of resource and then methods, by code unit: routes are a map whose order means nothing, and
 * pages have to hold still between requests.
 */
export class Catalogue {
  readonly names: Names = new Names();
  readonly index: SearchIndex;
  readonly #items: CatalogueItem[];
  /** Numbers in the index that are free again. */
  readonly #free: number[] = [];
  #numbers: number;
  /** Made when the first entry is put in or taken away. */
  #named: Map<string, CatalogueItem> | undefined;
  /** Kept until an entry comes or goes: all who ask for one share it. */
  readonly #orders = new Map<string, readonly CatalogueItem[]>();

  /** Of all of them. */
  readonly type: string;

  constructor(entries: readonly CatalogueEntry[], type: string = LISTED_TYPE) {
    this.type = type;
    this.#items = entries.map((entry, number) => new CatalogueItem(entry, number, this.names));
    this.index = new SearchIndex(this.#items.map(({ findable }) => findable));
    this.#numbers = entries.length;
    this.#items.sort(compareItems);
    // Last: what queries look at lies closer together then, which makes them several times as fast.
    for (const item of this.#items) item.write();
  }

  /** The same as by the constructor, a step for each entry: thousands of them take a while. */
  static *steps(entries: readonly CatalogueEntry[]): Generator<undefined, Catalogue> {
    const made = new Catalogue([]);
    for (const entry of entries) {
      const item = new CatalogueItem(entry, made.#numbers, made.names);
      made.#items.push(item);
      made.index.put(item.number, item.findable);
      made.#numbers += 1;
      yield;
    }
    made.#items.sort(compareItems);
    for (const item of made.#items) {
      item.write();
      yield;
    }
    return made;
  }

  get items(): readonly CatalogueItem[] {
    return this.#items;
  }

  inOrder(sort: Sort): readonly CatalogueItem[] {
    const name = `${sort.by} ${sort.isDescending}`;
    const known = this.#orders.get(name) ?? sortItems(this.#items, sort);
    this.#orders.set(name, known);
    return known;
  }

  /** In place of the entry of that name, if there is one. */
  put(entry: CatalogueEntry): void {
    const name = entryName(entry);
    this.drop(name);
    this.#orders.clear();
    const number = this.#free.pop() ?? this.#numbers;
    this.#numbers = Math.max(this.#numbers, number + 1);
    const item = new CatalogueItem(entry, number, this.names);
    item.write();
    this.#byName().set(name, item);
    this.#items.splice(this.#placeOf(item), 0, item);
    this.index.put(number, item.findable);
  }

  /** Takes the entry of that name away, if there is one. */
  drop(name: string): void {
    const item = this.#byName().get(name);
    if (item === undefined) return;
    this.#orders.clear();
    this.#byName().delete(name);
    this.#items.splice(this.#items.indexOf(item, this.#placeOf(item)), 1);
    this.index.drop(item.number, item.findable);
    this.#free.push(item.number);
    for (const requirements of item.entry.accepts) {
      for (const text of namedTexts(requirements)) this.names.letGo(text);
    }
  }

  #byName(): Map<string, CatalogueItem> {
    return (this.#named ??= new Map(this.#items.map((item) => [entryName(item.entry), item])));
  }

  /** Of the first item that does not come before it. */
  #placeOf(item: CatalogueItem): number {
    let low = 0;
    let high = this.#items.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#items[middle];
      if (other !== undefined && compareItems(other, item) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Prepares entries for listing. */
export function createCatalogue(entries: readonly CatalogueEntry[], type?: string): Catalogue {
  return new Catalogue(entries, type);
}

/** The same, a step for each entry. */
export function catalogueSteps(
  entries: readonly CatalogueEntry[],
): Generator<undefined, Catalogue> {
  return Catalogue.steps(entries);
}

/** Addresses with `0x` have a checksum in their letter case and mean the same without it; others do not. */
export function comparable(address: string): string {
  return /^0x/i.test(address) ? address.toLowerCase() : address;
}

/** A listed resource without the time of its last change. */
export function published(terms: PublicTerms): Omit<DiscoveredResource, "lastUpdated"> {
  const { resource, accepts, isTemplate, pathParams, tool } = terms;
  const described = isTemplate ? describeTemplate(resource, pathOf(resource), pathParams) : {};
  const methods = tool === undefined ? severalMethods(terms) : {};
  const metadata = { ...terms.metadata, ...described, ...methods };
  return {
    resource,
    type: tool === undefined ? LISTED_TYPE : TOOL_TYPE,
    x402Version: X402_VERSION,
    accepts,
    ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
  };
}

/** A listed resource in the form of version 2. */
function publishedV2(entry: CatalogueEntry): object {
  const { service, lastUpdated, quality, isSettledAfter, tool } = entry;
  const { resource, type, accepts, metadata } = published(entry);
  const [first] = accepts;
  const { url: _, ...described } = first === undefined ? { url: resource } : resourceV2(first);
  const extensions =
    tool === undefined
      ? accepts.map(extensionsOf).find((each) => each !== undefined)
      : toolExtension(tool);
  return {
    resource,
    type,
    x402Version: X402_VERSION_2,
    accepts: accepts.map((requirements) => requirementsV2(requirements, flowOf(isSettledAfter))),
    lastUpdated: new Date(lastUpdated * 1000).toISOString(),
    ...described,
    ...service,
    ...(extensions !== undefined && { extensions }),
    ...(metadata !== undefined && { metadata }),
    ...(quality !== undefined && { quality }),
  };
}

function written(item: object): Written {
  const json = JSON.stringify(item);
  return { json, tag: entityTag(json) };
}

/** The ways to pay name one method; where there are more, nobody would know of the others. */
function severalMethods({ methods }: PublicTerms): { readonly methods?: readonly string[] } {
  if (methods === null) return { methods: ANY_METHOD };
  return methods.length > 1 ? { methods } : {};
}

/** The path of an absolute URL as written: parsing it would rewrite a template's characters. */
export function pathOf(resource: string): string {
  return resource.replace(/^[a-z][a-z0-9+.-]*:\/\/[^/]*/i, "");
}

/** By code unit. */
export function compare(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

function compareItems(left: CatalogueItem, right: CatalogueItem): number {
  return compare(left.entry.resource, right.entry.resource) || compare(left.methods, right.methods);
}

/**
 * What is equal in the order of the listing, and what has no price in dollars last. The price of an item is the lowest
 * of the ways to pay that `fits` lets through.
 */
export function sortItems(
  items: readonly CatalogueItem[],
  { by, isDescending }: Sort,
  fits?: (offer: ListedOffer) => boolean,
): readonly CatalogueItem[] {
  const sign = isDescending ? -1 : 1;
  const keyed = items.map((item) => {
    return { item, key: by === "price" ? priceOf(item, fits) : item.entry.lastUpdated };
  });
  keyed.sort((left, right) => {
    if (left.key === right.key) return compareItems(left.item, right.item);
    if (left.key === Infinity || right.key === Infinity) return left.key === Infinity ? 1 : -1;
    return sign * (left.key - right.key);
  });
  return keyed.map(({ item }) => item);
}

function priceOf({ offers }: CatalogueItem, fits?: (offer: ListedOffer) => boolean): number {
  let least = Infinity;
  for (const offer of offers) {
    if (offer.sortedBy < least && (fits === undefined || fits(offer))) least = offer.sortedBy;
  }
  return least;
}

function namedTexts({ network, asset, payTo }: PaymentRequirements): readonly string[] {
  return [network, comparable(asset), comparable(payTo)];
}

function listedOffer(requirements: PaymentRequirements, names: Names): ListedOffer {
  const { network, asset, maxAmountRequired } = requirements;
  const usual = findNetwork(network)?.asset;
  const isUsual = usual !== undefined && comparable(usual.address) === comparable(asset);
  const amount = parseAtomicAmount(maxAmountRequired) ?? 0n;
  const [networkNumber = 0, assetNumber = 0, payToNumber = 0] = namedTexts(requirements).map(
    (text) => names.take(text),
  );
  const dollars = isUsual ? amount * 10n ** BigInt(DOLLAR_DECIMALS - usual.decimals) : undefined;
  return {
    network: networkNumber,
    asset: assetNumber,
    payTo: payToNumber,
    amount,
    dollars,
    sortedBy: dollars === undefined ? Infinity : Number(dollars),
  };
}

/** Of metadata only scalars can be asked for. */
function termsOf({ metadata = {} }: DiscoveredResource): readonly string[] {
  return Object.entries(metadata).flatMap(([key, value]) => {
    return isScalar(value) ? [termOf(`metadata.${key}`, String(value))] : [];
  });
}

function textOf({ resource, accepts, metadata = {} }: DiscoveredResource): string {
  const descriptions = accepts.map(({ description }) => description);
  const values = Object.values(metadata).filter(isScalar);
  return [pathOf(resource), ...new Set(descriptions), ...values].join(" ");
}

function isScalar(value: unknown): value is string | number | boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}
