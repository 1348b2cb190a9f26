/**
 * Patterns of path segments, found by precedence: from left to right a static segment beats `:param` beats a
 * trailing `*`. The search goes depth first, the more specific branch first; a branch has one path from the
 * root, so that however a request is spelled the work is bounded by the patterns, never by 2^segments.
 */
import type { Segment } from "../../http/path-readings.ts";

export interface Place {
  readonly segments: readonly Segment[];
  /** Ends in a slash. */
  readonly isSlashed: boolean;
  /** Ends in `/*`. */
  readonly rest: boolean;
}

/** True: the search is over. */
export type Visit<Found> = (found: Found) => boolean;

class Branch<Found> {
  readonly statics = new Map<string, Branch<Found>>();
  param: Branch<Found> | null = null;
  /** A pattern that ends here, */
  end: Found | null = null;
  /** with a slash, */
  slashedEnd: Found | null = null;
  /** or with a slash and `*`. */
  rest: Found | null = null;
}

export class Trie<Found> {
  readonly #root = new Branch<Found>();

  /** What the pattern leads to, created unless an equal pattern was added before. */
  add({ segments, isSlashed, rest }: Place, create: () => Found): Found {
    let branch = this.#root;
    for (const segment of segments) branch = descend(branch, segment);
    if (rest) return (branch.rest ??= create());
    return isSlashed ? (branch.slashedEnd ??= create()) : (branch.end ??= create());
  }

  /** The most specific pattern. `countsSlash` false: a slash at the end of the path makes no difference. */
  find(path: string, countsSlash: boolean): Found | null {
    return findBelow(this.#root, path, 1, countsSlash);
  }

  /**
   * Visits every pattern that ends where these segments end, or before in a `*`, the more specific first. True
   * when a visit has ended it.
   *
   * @param takesRest whether a `*` also stands for nothing
   */
  reach(segments: readonly string[], takesRest: boolean, visit: Visit<Found>): boolean {
    return reachBelow(this.#root, { segments, takesRest, visit }, 0);
  }
}

function descend<Found>(branch: Branch<Found>, segment: Segment): Branch<Found> {
  if (segment === null) return (branch.param ??= new Branch<Found>());
  const known = branch.statics.get(segment);
  if (known !== undefined) return known;
  const created = new Branch<Found>();
  branch.statics.set(segment, created);
  return created;
}

function findBelow<Found>(
  branch: Branch<Found>,
  path: string,
  from: number,
  countsSlash: boolean,
): Found | null {
  if (from >= path.length) return findEnd(branch, from === path.length, countsSlash);
  const slash = path.indexOf("/", from);
  const to = slash === -1 ? path.length : slash;
  const next = branch.statics.get(path.slice(from, to));
  const found = next === undefined ? null : findBelow(next, path, to + 1, countsSlash);
  if (found !== null) return found;
  if (branch.param !== null && to > from) {
    const behindParam = findBelow(branch.param, path, to + 1, countsSlash);
    if (behindParam !== null) return behindParam;
  }
  return branch.rest;
}

function findEnd<Found>(
  { end, slashedEnd, rest }: Branch<Found>,
  isSlashed: boolean,
  countsSlash: boolean,
): Found | null {
  if (!countsSlash) return end ?? slashedEnd ?? rest;
  return isSlashed ? (slashedEnd ?? rest) : end;
}

interface Search<Found> {
  readonly segments: readonly string[];
  readonly takesRest: boolean;
  readonly visit: Visit<Found>;
}

function reachBelow<Found>(branch: Branch<Found>, search: Search<Found>, index: number): boolean {
  const segment = search.segments[index];
  if (segment === undefined) return reachEnd(branch, search);
  const { param, rest } = branch;
  const next = branch.statics.get(segment);
  if (next !== undefined && reachBelow(next, search, index + 1)) return true;
  if (param !== null && reachBelow(param, search, index + 1)) return true;
  return rest !== null && search.visit(rest);
}

function reachEnd<Found>(
  { end, slashedEnd, rest }: Branch<Found>,
  { takesRest, visit }: Search<Found>,
): boolean {
  if (end !== null && visit(end)) return true;
  if (slashedEnd !== null && visit(slashedEnd)) return true;
  return rest !== null && takesRest && visit(rest);
}
