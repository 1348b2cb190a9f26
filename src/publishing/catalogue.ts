/** Configuration -> the catalogue page: which routes it shows, how they are searched, and in what portions. */
import type { Config, PricedAction, RouteSettings } from "../config/config.ts";
import { cataloguePage, CATALOGUE_POLICY } from "../web/catalogue-page.ts";
import type { CatalogueInput, CatalogueRoute } from "../web/catalogue-view.ts";
import { formatAmount } from "../x402/amount.ts";
import { networkOf } from "../x402/network.ts";
import { isSameToken } from "../x402/token.ts";
import { compare } from "../discovery/catalogue.ts";

/** Routes on one page. */
const PAGE_SIZE = 50;
/** Longest text that is searched for, characters. */
const MAX_SEARCHED = 100;
/** Words of it that a route must have. */
const MAX_WORDS = 8;
/** Longest text of a route that is searched, characters. */
const MAX_SEARCHED_TEXT = 2_000;
/** Longest query string that is read at all, characters. */
const MAX_QUERY_LENGTH = 4_096;
/** Pages that are kept as they were written: most visitors ask for the same few. */
const MAX_KEPT = 32;
/** Inputs of one route that are shown. */
const MAX_INPUTS = 50;

/** Header lines of every page. */
export const PAGE_LINES = [
  ["Content-Security-Policy", CATALOGUE_POLICY],
  ["X-Content-Type-Options", "nosniff"],
  ["X-Frame-Options", "DENY"],
  ["Referrer-Policy", "no-referrer"],
].flat();

type Sales = Pick<Config, "routes" | "publicUrl">;

interface Entry {
  readonly route: CatalogueRoute;
  /** Lower case. */
  readonly searched: string;
}

export class CataloguePages {
  readonly #shop: string;
  readonly #entries: readonly Entry[];
  readonly #kept = new Map<string, string>();

  constructor({ routes, publicUrl }: Sales) {
    const base = publicUrl ?? "";
    this.#shop = URL.parse(base)?.host ?? base;
    this.#entries = routes
      .flatMap((route) => entryOf(route, base))
      .sort((left, right) => compare(keyOf(left), keyOf(right)));
  }

  /** The page for a raw query string: `q` and `page`, whatever else there is. */
  write(rawQuery: string): string {
    const asked = new URLSearchParams(rawQuery.slice(0, MAX_QUERY_LENGTH));
    const query = (asked.get("q") ?? "").trim().slice(0, MAX_SEARCHED).toWellFormed();
    const text = asked.get("page") ?? "";
    const page = /^[1-9]\d{0,6}$/.test(text) ? Number(text) : 1;
    const name = `${page} ${query}`;
    const kept = this.#kept.get(name);
    if (kept !== undefined) return kept;
    const written = this.#write(query, page);
    this.#kept.set(name, written);
    const [oldest] = this.#kept.size > MAX_KEPT ? this.#kept.keys() : [];
    if (oldest !== undefined) this.#kept.delete(oldest);
    return written;
  }

  #write(query: string, asked: number): string {
    const words = [...new Set(query.toLowerCase().split(/\s+/))].slice(0, MAX_WORDS);
    const found =
      query === ""
        ? this.#entries
        : this.#entries.filter(({ searched }) => words.every((word) => searched.includes(word)));
    const pages = Math.max(1, Math.ceil(found.length / PAGE_SIZE));
    const page = Math.min(asked, pages);
    const shown = found.slice((page - 1) * PAGE_SIZE, page * PAGE_SIZE);
    return cataloguePage({
      shop: this.#shop,
      query,
      found: found.length,
      page,
      pages,
      routes: shown.map(({ route }) => route),
    });
  }
}

function entryOf(route: RouteSettings, base: string): readonly Entry[] {
  const { action, methods, pattern, segments } = route;
  if (action.kind !== "priced" || !action.discoverable) return [];
  const { description, mimeType } = action;
  const view: CatalogueRoute = {
    methods,
    pattern,
    url: base + pattern,
    parameters: segments.flatMap((segment) => {
      if (segment.kind === "static") return [];
      return [segment.kind === "param" ? `:${segment.name}` : "*"];
    }),
    description,
    mimeType,
    prices: pricesOf(action),
    inputs: inputsOf(action),
    bodyType: action.input.bodyType ?? null,
  };
  const networks = view.prices.map(({ network, amount }) => `${network} ${amount}`);
  const texts = [...(methods ?? []), pattern, description, mimeType, ...networks];
  return [{ route: view, searched: texts.join(" ").slice(0, MAX_SEARCHED_TEXT).toLowerCase() }];
}

function pricesOf({ offers }: PricedAction): CatalogueRoute["prices"] {
  return offers.map(({ network, asset, amountAtomic, dollars }) => ({
    family: networkOf(network).kind,
    dollars,
    amount: `${formatAmount(amountAtomic, asset.decimals)} ${asset.symbol}`,
    amountAtomic: amountAtomic.toString(),
    network: networkOf(network).displayName,
    asset: asset.address,
    isUsual: isSameToken(network, asset.address, networkOf(network).asset.address),
  }));
}

function inputsOf({ input }: PricedAction): readonly CatalogueInput[] {
  const { pathParams = {}, queryParams = {}, bodyFields = {}, headerFields = {} } = input;
  const inputs = [
    ...Object.entries(pathParams).map((each) => inputOf("path", each)),
    ...Object.entries(queryParams).map((each) => inputOf("query", each)),
    ...Object.entries(bodyFields).map((each) => inputOf("body", each)),
    ...Object.entries(headerFields).map((each) => inputOf("header", each)),
  ];
  return inputs.slice(0, MAX_INPUTS);
}

/** What stands under a name is a JSON Schema, or whatever the file says in its place. */
function inputOf(
  place: CatalogueInput["place"],
  [name, written]: readonly [string, unknown],
): CatalogueInput {
  if (typeof written !== "object" || written === null || Array.isArray(written)) {
    const description = typeof written === "string" ? written : (JSON.stringify(written) ?? "");
    return { place, name, type: "", isRequired: false, description };
  }
  const { type, required, description } = Object(written);
  return {
    place,
    name,
    type: typeof type === "string" ? type : "",
    isRequired: required === true,
    description: typeof description === "string" ? description : "",
  };
}

function keyOf({ route }: Entry): string {
  return `${route.pattern} ${route.methods?.join() ?? ""}`;
}
