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
  readonly #options: RouterOptions<Value>;

  /** @throws Error for a pattern that can match nothing and for two keys that match the same requests. */
  constructor(routes: readonly Route<Value>[], options: RouterOptions<Value>) {
    this.#options = options;
    for (const route of routes) {
      const pattern = parsePattern(route.pattern);
      const fold = this.#loose.add(foldPattern(pattern), () => ({ leaves: [] }));
      const leaf = this.#strict.add(pattern, () => {
        const created = new Leaf<Value>(fold);
        fold.leaves.push(created);
        return created;
      });
      leaf.add(route);
    }
  }

  /** @param path as `readTarget` accepted it. */
  match(method: string, path: string): Match<Value> {
    const leaf = this.#strict.find(path);
    const strict = leaf === null ? unmatched : leaf.answer(method);
    if (strict.kind === "method-not-allowed") return strict;
    if (leaf === null && this.#options.unmatchedGuarded) return strict;
    const fold = this.#loose.find(foldPath(path));
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

type Answer<Value> = Extract<Match<Value>, { kind: "route" | "method-not-allowed" }>;

/** All keys of one pattern. */
class Leaf<Value> {
  readonly fold: Fold<Value>;
  readonly #listed = new Map<string, Answer<Value>>();
  #otherwise: Answer<Value> = { kind: "method-not-allowed", allow: "" };

  constructor(fold: Fold<Value>) {
    this.fold = fold;
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
  /** Patterns without `:param` and `*`: nothing is more specific, so one look-up decides. */
  readonly #exact = new Map<string, Found>();

  /** What the pattern leads to, created unless an equal pattern was added before. */
  add({ segments, rest }: Pattern, create: () => Found): Found {
    let branch = this.#root;
    for (const segment of segments) branch = descend(branch, segment);
    if (rest) return (branch.rest ??= create());
    branch.end ??= create();
    if (!segments.includes(null)) this.#exact.set(`/${segments.join("/")}`, branch.end);
    return branch.end;
  }

  find(path: string): Found | null {
    return this.#exact.get(path) ?? findBelow(this.#root, path, 1);
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
function findBelow<Found>(branch: Branch<Found>, path: string, from: number): Found | null {
  if (from > path.length) return branch.end;
  const slash = path.indexOf("/", from);
  const to = slash === -1 ? path.length : slash;
  const next = branch.statics.get(path.slice(from, to));
  const found = next === undefined ? null : findBelow(next, path, to + 1);
  if (found !== null) return found;
  if (branch.param !== null && to > from) {
    const behindParam = findBelow(branch.param, path, to + 1);
    if (behindParam !== null) return behindParam;
  }
  return branch.rest;
}

/** Spellings that folding changes, beside the slash at the end. */
const foldable = /[A-Z%]|\.(?:\/|$)/;

/** The loosest reading of a canonical path; always ends in a slash. */
function foldPath(path: string): string {
  if (!foldable.test(path)) return path.endsWith("/") ? path : `${path}/`;
  let folded = "/";
  // A reader that decodes before it splits takes the rest for a query or a fragment.
  for (const segment of decodeURIComponent(path).split(/[?#]/, 1).join("").split("/")) {
    const text = foldText(segment);
    if (text !== "") folded += `${text}/`;
  }
  return folded;
}

function foldPattern({ segments, rest }: Pattern): Pattern {
  const folded: (string | null)[] = [];
  for (const segment of segments) {
    const text = segment === null ? null : foldText(decodeURIComponent(segment));
    if (text !== "") folded.push(text);
  }
  return { segments: rest ? folded : [...folded, ""], rest };
}

/** Letter case and compatibility forms; dots and blanks at the end, which Windows ignores. */
function foldText(segment: string): string {
  return segment
    .normalize("NFKC")
    .toLowerCase()
    .replace(/[. ]+$/, "")
    .replaceAll("/", "%2F");
}
