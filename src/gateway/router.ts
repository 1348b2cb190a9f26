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
 * Backends differ in what they read alike: letter case, a trailing slash or dot, encoded reserved
 * characters. So every path is matched a second time in its loosest reading, against patterns folded
 * the same way. When that reading leads to another pattern that is priced or denied, the request is
 * `ambiguous`: nobody can say which of the two resources the backend would serve.
 */
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

/** Immutable once built; a match allocates nothing that is kept, and visits a node at most once. */
export class Router<Value> {
  readonly #strict = new Trie<Leaf<Value>>();
  readonly #loose = new Trie<Fold<Value>>();
  /** Patterns without `:param` and `*`, as spelled: no other reading of such a path is better. */
  readonly #exact = new Map<string, Leaf<Value>>();
  readonly #options: RouterOptions<Value>;

  /** @throws Error for a pattern that can match nothing and for two keys that match the same requests. */
  constructor(routes: readonly Route<Value>[], options: RouterOptions<Value>) {
    this.#options = options;
    for (const route of routes) {
      const pattern = parsePattern(route.pattern);
      const fold = this.#loose.add(foldPattern(pattern), () => ({ leaves: [] }));
      const leaf = this.#strict.add(pattern, () => {
        const created = new Leaf(pattern, fold);
        fold.leaves.push(created);
        return created;
      });
      leaf.add(route);
      if (isStatic(pattern)) this.#exact.set(`/${pattern.segments.join("/")}`, leaf);
    }
  }

  /** @param path as `readTarget` accepted it. */
  match(method: string, path: string): Match<Value> {
    const exact = this.#exact.get(path);
    if (exact !== undefined) return exact.answer(method);
    const plain = isPlain(path);
    const fold = this.#loose.findLoose(plain ? path : foldPath(path));
    // Almost always the best loose reading is the spelling itself: then it is the best strict one, too.
    const leaf = plain ? spelledOut(fold, path) : null;
    return leaf === null ? this.#compare(method, path, fold) : leaf.answer(method);
  }

  /** The strict reading, unless the loosest one leads to something else that is guarded. */
  #compare(method: string, path: string, fold: Fold<Value> | null): Match<Value> {
    const leaf = this.#strict.find(path);
    const strict = leaf === null ? unmatched : leaf.answer(method);
    if (strict.kind === "method-not-allowed") return strict;
    if (leaf === null && this.#options.unmatchedGuarded) return strict;
    if (fold === (leaf === null ? null : leaf.fold)) return strict;
    return this.#isGuarded(fold, method) ? ambiguous : strict;
  }

  #isGuarded(fold: Fold<Value> | null, method: string): boolean {
    if (fold === null) return this.#options.unmatchedGuarded;
    return fold.leaves.some((leaf) => {
      const answer = leaf.answer(method);
      return answer.kind !== "route" || this.#options.guarded(answer.value);
    });
  }
}

/** The patterns that differ in spelling only: `/docs`, `/docs/` and `/Docs`. */
interface Fold<Value> {
  readonly leaves: Leaf<Value>[];
}

/** The pattern of `fold` that is spelled like the plain path which led there, if one is. */
function spelledOut<Value>(fold: Fold<Value> | null, path: string): Leaf<Value> | null {
  if (fold === null) return null;
  const slashed = path.endsWith("/");
  for (const leaf of fold.leaves) if (leaf.isSpelled(path, slashed)) return leaf;
  return null;
}

type Answer<Value> = Extract<Match<Value>, { kind: "route" | "method-not-allowed" }>;

/** All keys of one pattern. */
class Leaf<Value> {
  readonly fold: Fold<Value>;
  readonly #pattern: Pattern;
  readonly #plain: boolean;
  readonly #listed = new Map<string, Answer<Value>>();
  #otherwise: Answer<Value> = { kind: "method-not-allowed", allow: "" };

  constructor(pattern: Pattern, fold: Fold<Value>) {
    this.fold = fold;
    this.#pattern = pattern;
    this.#plain = isPlain(pattern.segments.join("/"));
  }

  /** True when a plain path that reads like this pattern also is one letter by letter. */
  isSpelled(path: string, slashed: boolean): boolean {
    if (!this.#plain) return false;
    const { segments, rest } = this.#pattern;
    return rest ? hasSlashes(path, segments.length + 1) : slashed === (segments.at(-1) === "");
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
  /** Null for `:param`. A trailing slash is a last, empty segment. */
  readonly segments: readonly (string | null)[];
  /** Ends in `/*`. */
  readonly rest: boolean;
}

function parsePattern(text: string): Pattern {
  const rest = text.endsWith("/*");
  const path = (rest ? text.slice(0, -1) : text).replace(/[^\0-\x7f]+/g, encodeURIComponent);
  const segments = path.split("/").map((segment) => (/^:./.test(segment) ? null : segment));
  const sample = segments.map((segment) => segment ?? "param").join("/");
  const target = readTarget("GET", sample, new Set());
  if (target.kind !== "ok" || target.path !== sample || /(?:^|\/):(?:\/|$)|\*/.test(path)) {
    const detail = target.kind === "refused" ? target.detail : "It is not a pattern.";
    throw new Error(`No request can match the route pattern ${text}: ${detail}`);
  }
  return { segments: segments.slice(1, rest ? -1 : undefined), rest };
}

function isStatic({ segments, rest }: Pattern): boolean {
  return !rest && !segments.includes(null);
}

/** One node of a trie of segments. */
class Branch<Found> {
  readonly statics = new Map<string, Branch<Found>>();
  param: Branch<Found> | null = null;
  /** A pattern that ends here. */
  end: Found | null = null;
  /** A pattern that ends in `*` below here. */
  rest: Found | null = null;
}

class Trie<Found> {
  readonly #root = new Branch<Found>();

  /** What the pattern leads to, created unless an equal pattern was added before. */
  add({ segments, rest }: Pattern, create: () => Found): Found {
    let branch = this.#root;
    for (const segment of segments) branch = descend(branch, segment);
    return rest ? (branch.rest ??= create()) : (branch.end ??= create());
  }

  find(path: string): Found | null {
    return findBelow(this.#root, path, 1, false);
  }

  /** A slash at the end of the path makes no difference. */
  findLoose(path: string): Found | null {
    return findBelow(this.#root, path, 1, true);
  }
}

function descend<Found>(branch: Branch<Found>, segment: string | null): Branch<Found> {
  if (segment === null) return (branch.param ??= new Branch<Found>());
  const known = branch.statics.get(segment);
  if (known !== undefined) return known;
  const created = new Branch<Found>();
  branch.statics.set(segment, created);
  return created;
}

/**
 * Depth first, the more specific branch first. A branch has one path from the root, so that however a
 * request is spelled the work is bounded by the patterns, never by 2^segments.
 */
function findBelow<Found>(
  branch: Branch<Found>,
  path: string,
  from: number,
  loose: boolean,
): Found | null {
  if (loose && from >= path.length) return branch.end ?? branch.rest;
  if (from > path.length) return branch.end;
  const slash = path.indexOf("/", from);
  const to = slash === -1 ? path.length : slash;
  const next = branch.statics.get(path.slice(from, to));
  const found = next === undefined ? null : findBelow(next, path, to + 1, loose);
  if (found !== null) return found;
  if (branch.param !== null && to > from) {
    const behindParam = findBelow(branch.param, path, to + 1, loose);
    if (behindParam !== null) return behindParam;
  }
  return branch.rest;
}

/** Nothing but a slash at the end distinguishes the text from its loosest reading. */
function isPlain(text: string): boolean {
  // Cheaper than any regular expression: almost always nothing changes and nothing is found.
  return (
    text.toLowerCase() === text &&
    !text.includes("%") &&
    !text.includes("./") &&
    !text.endsWith(".")
  );
}

/** The loosest reading of a canonical path. */
function foldPath(path: string): string {
  // A reader that decodes before it splits takes what follows for a query or a fragment.
  const text = decodeURIComponent(path).split(/[?#]/, 1).join("");
  return `/${foldSegments(text.split("/")).join("/")}`;
}

function foldPattern({ segments, rest }: Pattern): Pattern {
  return { segments: foldSegments(segments.map((text) => text && decodeURIComponent(text))), rest };
}

/** Letter case and compatibility forms; dots and blanks at the end, which Windows ignores. */
function foldSegments(segments: readonly (string | null)[]): (string | null)[] {
  return segments
    .map((segment) =>
      segment === null
        ? null
        : segment
            .normalize("NFKC")
            .toLowerCase()
            .replace(/[. ]+$/, "")
            .replaceAll("/", "%2F"),
    )
    .filter((segment) => segment !== "");
}
