/**
 * The oracle: what a backend was asked for, by every reading that a backend may have, and whether any of
 * them costs money or is denied. It matches by ranking all patterns, slow and obvious, and shares no code
 * with the gateway.
 */
import { READINGS, type Reading } from "./readings.ts";
import { SHOP, type ShopRoute, type Unmatched } from "./shop.ts";

/** Stands for `:name` and `*` while a reading is applied to a pattern: private-use characters. */
const PARAM = "%EE%80%80";
const REST = "%EE%80%81";

interface Readable {
  readonly reading: Reading;
  readonly patterns: readonly Pattern[];
  /** Whether the reading takes `/a/` for `/a`. */
  readonly ignoresSlash: boolean;
}

interface Pattern {
  /** Undefined for `:name`. */
  readonly segments: readonly (string | undefined)[];
  readonly isRest: boolean;
  readonly routes: readonly ShopRoute[];
}

/** What one reading makes of a request. */
export interface Named {
  readonly reading: string;
  readonly path: string;
  /** The keys that lead there, or `unmatched`. */
  readonly leadsTo: string;
  readonly isGuarded: boolean;
}

export type Verdict =
  /** Free by every reading. */
  | { readonly kind: "free" }
  /** Priced or denied by the bytes themselves or by the standards. */
  | { readonly kind: "bypass"; readonly named: Named }
  /** Free by the standards, priced or denied to some backends. */
  | { readonly kind: "reading"; readonly named: Named };

export class Oracle {
  readonly #readables: readonly Readable[];
  readonly #unmatched: Unmatched;

  constructor(
    unmatched: Unmatched,
    routes: readonly ShopRoute[] = SHOP,
    readings: readonly Reading[] = READINGS,
  ) {
    this.#unmatched = unmatched;
    this.#readables = readings.map((reading) => readable(reading, routes));
  }

  /** Judges a request that reached the backend and that nobody paid for. */
  judge(method: string, target: string): Verdict {
    let loose: Named | undefined;
    for (const each of this.#readables) {
      const named = this.#name(each, method, target);
      if (!named.isGuarded) continue;
      if (each.reading.isStandard) return { kind: "bypass", named };
      loose ??= named;
    }
    return loose === undefined ? { kind: "free" } : { kind: "reading", named: loose };
  }

  #name({ reading, patterns, ignoresSlash }: Readable, method: string, target: string): Named {
    const path = reading.read(target);
    const segments = split(path, ignoresSlash);
    let best: Pattern | undefined;
    for (const pattern of patterns) {
      if (!fits(pattern, segments, ignoresSlash)) continue;
      if (best === undefined || beats(pattern, best)) best = pattern;
    }
    const name = { reading: reading.name, path };
    if (best === undefined) {
      return { ...name, leadsTo: "unmatched", isGuarded: this.#unmatched === "deny" };
    }
    const leadsTo = best.routes.map(({ pattern, action }) => `${pattern} (${action})`).join(", ");
    return { ...name, leadsTo, isGuarded: costs(best.routes, method) };
  }
}

function readable(reading: Reading, routes: readonly ShopRoute[]): Readable {
  const ignoresSlash = reading.read("/a/") === reading.read("/a");
  const [param = "", rest = ""] = [PARAM, REST].map((mark) => reading.read(`/${mark}`).slice(1));
  const grouped = new Map<string, { pattern: Omit<Pattern, "routes">; routes: ShopRoute[] }>();
  for (const route of routes) {
    const text = route.pattern.replaceAll(/\/:[^/]+/g, `/${PARAM}`).replace(/\/\*$/, `/${REST}`);
    const read = split(reading.read(text), ignoresSlash);
    const isRest = read.at(-1) === rest;
    const segments = (isRest ? read.slice(0, -1) : read).map((each) =>
      each === param ? undefined : each,
    );
    const key = `${segments.map((each) => each ?? "\0").join("/")}${isRest ? "*" : ""}`;
    const group = grouped.get(key) ?? { pattern: { segments, isRest }, routes: [] };
    group.routes.push(route);
    grouped.set(key, group);
  }
  const patterns = [...grouped.values()].map((group) => ({
    ...group.pattern,
    routes: group.routes,
  }));
  return { reading, patterns, ignoresSlash };
}

function split(path: string, ignoresSlash: boolean): string[] {
  const segments = path.split("/").slice(1);
  return ignoresSlash && segments.at(-1) === "" ? segments.slice(0, -1) : segments;
}

function fits(
  { segments, isRest }: Pattern,
  path: readonly string[],
  ignoresSlash: boolean,
): boolean {
  const least = segments.length + (isRest && !ignoresSlash ? 1 : 0);
  if (isRest ? path.length < least : path.length !== least) return false;
  return segments.every((segment, index) => {
    const given = path[index] ?? "";
    return segment === undefined ? given !== "" : segment === given;
  });
}

/** Segment by segment from the left: static before `:name` before `*`; an end before a `*` for nothing. */
function beats(one: Pattern, other: Pattern): boolean {
  const [left, right] = [ranks(one), ranks(other)];
  for (let index = 0; index < Math.min(left.length, right.length); index += 1) {
    const difference = (left[index] ?? 0) - (right[index] ?? 0);
    if (difference !== 0) return difference < 0;
  }
  return left.length < right.length;
}

function ranks({ segments, isRest }: Pattern): readonly number[] {
  return [...segments.map((segment) => (segment === undefined ? 1 : 0)), ...(isRest ? [2] : [])];
}

/** A pattern alone decides about the method; a method that no key of it lists is denied. */
function costs(routes: readonly ShopRoute[], method: string): boolean {
  const lists = (wanted: string) => routes.filter(({ methods }) => methods?.includes(wanted));
  const listed = lists(method);
  const asGet = listed.length === 0 && method === "HEAD" ? lists("GET") : listed;
  const deciding = asGet.length > 0 ? asGet : routes.filter(({ methods }) => methods === null);
  return deciding.length === 0 || deciding.some(({ action }) => action !== "free");
}
