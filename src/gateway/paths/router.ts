/**
 * Which route a canonical path belongs to. Patterns are segments: a static one beats `:param` (one
 * non-empty segment) beats a trailing `*` (the rest after its slash, which may be empty), compared from
 * left to right; the longer pattern wins between equals. The order of the file never matters.
 *
 * `/articles/*` covers `/articles/` and everything below it, not `/articles`; the latter, if no key names
 * it, is `ambiguous` wherever it would cost less than `/articles/`.
 *
 * Once a pattern is chosen it alone decides about the method: a key that lists it, else a key without
 * methods, else 405. `GET` covers `HEAD`. There is no second look at less specific patterns: listing
 * methods for `/a/b` denies the others there, even below a priced `/a/*`.
 *
 * Backends differ in what they read alike (`http/path-readings.ts`). So a path is matched in all its readings: where
 * one of them may lead to another pattern that is priced or denied, the request is `ambiguous`, as nobody can
 * say which of the two resources the backend would serve. What the file spells out is the exception: whoever
 * writes `/docs: free` and `/Docs: $1` says that the backend tells them apart.
 */
import { foldName, readingsOf, type Reading, type Segment } from "../../http/path-readings.ts";
import type { Steps } from "../../time/breath.ts";
import { Trie } from "./segment-trie.ts";
import { readTarget } from "./target.ts";

export interface Route<Value> {
  /** Upper-case methods; null for a key without any, which covers all that no other key lists. */
  readonly methods: readonly string[] | null;
  /** `/reports/:id`, `/articles/*`; static segments in the canonical spelling or as plain Unicode. */
  readonly pattern: string;
  readonly value: Value;
}

export interface RouterOptions<Value> {
  /** True where serving a request by mistake costs something: priced and denied routes. */
  readonly guarded: (value: Value) => boolean;
  /** True where what no route covers is denied. */
  readonly unmatchedGuarded: boolean;
}

export type Match<Value> =
  | { readonly kind: "route"; readonly value: Value }
  /** `allow` is the value of the `Allow` header (RFC 9110 section 10.2.1). */
  | { readonly kind: "method-not-allowed"; readonly allow: string }
  | { readonly kind: "unmatched" }
  | { readonly kind: "ambiguous" };

const unmatched = { kind: "unmatched" } as const;
const ambiguous = { kind: "ambiguous" } as const;

/** Immutable once built; a match keeps nothing, and its work is bounded by the patterns. */
export class Router<Value> {
  readonly #strict = new Trie<Leaf<Value>>();
  readonly #loose = new Trie<Fold<Value>>();
  /** Patterns without `:param` and `*`, as spelled: no other reading of such a path is better. */
  readonly #exact = new Map<string, Leaf<Value>>();
  readonly #options: RouterOptions<Value>;

  /** @throws Error for a pattern that can match nothing and for two keys that match the same requests. */
  constructor(routes: readonly Route<Value>[], options: RouterOptions<Value>) {
    this.#options = options;
    for (const route of routes) this.#add(route);
  }

  /** The same as by the constructor, a step for each route. */
  static *steps<Value>(
    routes: Iterable<Route<Value>>,
    options: RouterOptions<Value>,
  ): Steps<Router<Value>> {
    const router = new Router<Value>([], options);
    for (const route of routes) {
      router.#add(route);
      yield;
    }
    return router;
  }

  #add(route: Route<Value>): void {
    const pattern = parsePattern(route.pattern);
    const leaf = this.#strict.add(pattern, () => this.#createLeaf(pattern));
    leaf.add(route);
    if (!pattern.rest && !pattern.segments.includes(null)) this.#exact.set(pattern.text, leaf);
  }

  #createLeaf(pattern: Pattern): Leaf<Value> {
    const leaf = new Leaf<Value>(pattern);
    const decoded = pattern.segments.map((segment) => segment && decodeURIComponent(segment));
    const readings = readingsOf(decoded, pattern.isSlashed);
    if (readings === null) {
      throw new Error(`Backends can read the route pattern ${pattern.text} in too many ways.`);
    }
    for (const { segments, isCut } of readings) {
      const names = segments.map((segment) => segment && foldName(segment));
      const place = { segments: names, isSlashed: false, rest: pattern.rest && !isCut };
      this.#loose.add(place, () => ({ leaves: [] })).leaves.push(leaf);
    }
    return leaf;
  }

  /** @param path as `readTarget` accepted it. */
  match(method: string, path: string): Match<Value> {
    const exact = this.#exact.get(path);
    if (exact !== undefined) return exact.answer(method);
    // Almost always the best loose reading is the spelling itself: then it is the best of all of them.
    const leaf = isPlain(path) ? spelledOut(this.#loose.find(path, false), path) : null;
    return leaf === null ? this.#compare(method, path) : leaf.answer(method);
  }

  /** The strict reading, unless another one may lead to something else that is guarded. */
  #compare(method: string, path: string): Match<Value> {
    const leaf = this.#strict.find(path, true);
    const strict = leaf === null ? unmatched : leaf.answer(method);
    if (strict.kind === "method-not-allowed") return strict;
    if (leaf === null && this.#options.unmatchedGuarded) return strict;
    const isSlashed = path.endsWith("/");
    const segments = path.slice(1, isSlashed ? -1 : undefined).split("/");
    const readings = readingsOf(path === "/" ? [] : segments.map(decodeURIComponent), isSlashed);
    if (readings === null) return ambiguous;
    for (const reading of readings) {
      const spelled = reading === readings[0] ? path : spell(reading);
      const names = reading.segments.map((segment) => foldName(segment ?? ""));
      for (const countsSlash of [true, false]) {
        const view = { spelled, names, isSlashed: reading.isSlashed, countsSlash };
        if (this.#mayCost(method, view, leaf)) return ambiguous;
      }
    }
    return strict;
  }

  /**
   * Whether a backend with this view of a path may find something guarded there, beside `leaf`. All that may
   * match is looked at in the order of precedence, down to what matches to the letter: every such backend
   * finds that, or something before it.
   */
  #mayCost(method: string, view: View, leaf: Leaf<Value> | null): boolean {
    const { spelled, names, isSlashed, countsSlash } = view;
    const found = this.#strict.find(spelled, countsSlash);
    const sure = found !== null && found.isSure(names) ? found : null;
    let costs = false;
    const isFound = this.#loose.reach(names, isSlashed || !countsSlash, ({ leaves }) => {
      if (countsSlash && !leaves.some((each) => each.takesSlash(isSlashed))) return false;
      costs = !(leaf !== null && leaves.includes(leaf)) && this.#isGuarded(leaves, method);
      return costs || (sure !== null && leaves.includes(sure));
    });
    return costs || (!isFound && this.#options.unmatchedGuarded);
  }

  #isGuarded(leaves: readonly Leaf<Value>[], method: string): boolean {
    return leaves.some((leaf) => {
      const answer = leaf.answer(method);
      return answer.kind !== "route" || this.#options.guarded(answer.value);
    });
  }
}

/** The patterns that differ in spelling only: `/docs`, `/docs/` and `/Docs`. */
interface Fold<Value> {
  readonly leaves: Leaf<Value>[];
}

/** A path as some backends have it. */
interface View {
  readonly spelled: string;
  /** Folded. */
  readonly names: readonly string[];
  readonly isSlashed: boolean;
  /** Whether these backends tell `/docs/` from `/docs`. */
  readonly countsSlash: boolean;
}

/** The canonical spelling of a reading of a path. */
function spell({ segments, isSlashed }: Reading): string {
  const path = segments.map((segment) => `/${encodeURIComponent(segment ?? "")}`).join("");
  return isSlashed ? `${path}/` : path;
}

/** The pattern of `fold` that is spelled like the plain path which led there, if one is. */
function spelledOut<Value>(fold: Fold<Value> | null, path: string): Leaf<Value> | null {
  if (fold === null) return null;
  for (const leaf of fold.leaves) if (leaf.isSpelled(path)) return leaf;
  return null;
}

type Answer<Value> = Extract<Match<Value>, { kind: "route" | "method-not-allowed" }>;

/** All keys of one pattern. */
class Leaf<Value> {
  readonly #pattern: Pattern;
  readonly #plain: boolean;
  readonly #listed = new Map<string, Answer<Value>>();
  #otherwise: Answer<Value> = { kind: "method-not-allowed", allow: "" };

  constructor(pattern: Pattern) {
    this.#pattern = pattern;
    this.#plain = isPlain(pattern.text);
  }

  /** True when a plain path that reads like this pattern also is one letter by letter. */
  isSpelled(path: string): boolean {
    if (!this.#plain) return false;
    const { segments, isSlashed, rest } = this.#pattern;
    return rest ? hasSlashes(path, segments.length + 1) : path.endsWith("/") === isSlashed;
  }

  takesSlash(isSlashed: boolean): boolean {
    return this.#pattern.rest || this.#pattern.isSlashed === isSlashed;
  }

  /**
   * True when a path that matches to the letter does so for every backend: to some, a segment whose folded name
   * is empty is none, and `:param` stands for one that is there.
   */
  isSure(names: readonly string[]): boolean {
    return !this.#pattern.segments.some(
      (segment, index) => segment === null && names[index] === "",
    );
  }

  add({ methods, pattern, value }: Route<Value>): void {
    const answer = { kind: "route", value } as const;
    if (methods === null) {
      if (this.#otherwise.kind === "route") throw duplicate(pattern);
      this.#otherwise = answer;
      return;
    }
    for (const method of methods) {
      if (this.#listed.has(method)) throw duplicate(`${method} ${pattern}`);
      this.#listed.set(method, answer);
    }
    if (this.#otherwise.kind === "method-not-allowed") {
      const allowed = new Set(this.#listed.keys());
      if (allowed.has("GET")) allowed.add("HEAD");
      this.#otherwise = { kind: "method-not-allowed", allow: [...allowed].sort().join(", ") };
    }
  }

  answer(method: string): Answer<Value> {
    const listed =
      this.#listed.get(method) ?? (method === "HEAD" ? this.#listed.get("GET") : undefined);
    return listed ?? this.#otherwise;
  }
}

function hasSlashes(path: string, count: number): boolean {
  let index = -1;
  for (let found = 0; found < count; found += 1) {
    index = path.indexOf("/", index + 1);
    if (index === -1) return false;
  }
  return true;
}

function duplicate(key: string): Error {
  return new Error(`Two routes match the same requests: ${key}`);
}

interface Pattern {
  /** In the canonical spelling. */
  readonly text: string;
  /** Null for `:param`. */
  readonly segments: readonly Segment[];
  /** Ends in a slash. */
  readonly isSlashed: boolean;
  /** Ends in `/*`. */
  readonly rest: boolean;
}

function parsePattern(given: string): Pattern {
  const rest = given.endsWith("/*");
  const text = (rest ? given.slice(0, -1) : given).replace(/[^\0-\x7f]+/g, encodeURIComponent);
  const segments = text.split("/").map((segment) => (/^:./.test(segment) ? null : segment));
  const sample = segments.map((segment) => segment ?? "param").join("/");
  const target = readTarget("GET", sample, new Set());
  if (target.kind !== "ok" || target.path !== sample || /(?:^|\/):(?:\/|$)|\*/.test(text)) {
    const detail = target.kind === "refused" ? target.detail : "It is not a pattern.";
    throw new Error(`No request can match the route pattern ${given}: ${detail}`);
  }
  const isSlashed = text.endsWith("/");
  return {
    text,
    segments: segments.slice(1, isSlashed ? -1 : undefined),
    isSlashed: isSlashed && !rest,
    rest,
  };
}

/** Its loosest reading is the text itself, but for a slash at the end. */
function isPlain(text: string): boolean {
  // Cheaper than any regular expression: almost always nothing changes and nothing is found.
  return (
    text.toLowerCase() === text &&
    !text.includes("%") &&
    !text.includes("+") &&
    !text.includes("./") &&
    !text.includes(":$") &&
    !text.endsWith(".")
  );
}
