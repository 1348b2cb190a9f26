/**
 * The routes of a configuration as a list in which the first one that matches a request wins. The router needs
 * no such list; people do, since the order of the file means nothing.
 */
import type { RouteSettings } from "../config/config.ts";
import { compare } from "../discovery/catalogue.ts";

type Segment = RouteSettings["segments"][number];

/** More specific first: static, `:param`, `*`, compared from left to right; then the longer pattern. */
const RANKS: Readonly<Record<Segment["kind"], number>> = { static: 0, param: 1, rest: 2 };

export function inWinningOrder(routes: readonly RouteSettings[]): readonly RouteSettings[] {
  return routes.toSorted((left, right) => {
    const bySegments = compareSegments(left.segments, right.segments);
    if (bySegments !== 0) return bySegments;
    if (left.methods === null || right.methods === null) {
      return Number(left.methods === null) - Number(right.methods === null);
    }
    return compare(left.methods.join(), right.methods.join());
  });
}

/** Whether a canonical path matches the pattern, letter by letter; whatever the method. */
export function matchesPath({ segments }: Pick<RouteSettings, "segments">, path: string): boolean {
  const texts = path.slice(1).split("/");
  for (const [index, segment] of segments.entries()) {
    const text = texts[index];
    if (text === undefined) return false;
    if (segment.kind === "rest") return true;
    if (segment.kind === "param" ? text === "" : text !== segment.text) return false;
  }
  return texts.length === segments.length;
}

/** Whether a key names the method, or covers it: `GET` covers `HEAD`. */
export function listsMethod({ methods }: Pick<RouteSettings, "methods">, method: string): boolean {
  if (methods === null) return false;
  return methods.includes(method) || (method === "HEAD" && methods.includes("GET"));
}

/** Whether two patterns match the same paths: the names of parameters make no difference. */
export function isSamePattern(
  left: Pick<RouteSettings, "segments">,
  right: Pick<RouteSettings, "segments">,
) {
  return compareSegments(left.segments, right.segments) === 0;
}

/** Why `loser`, whose pattern matches as well, does not answer; words that go on from its key. */
export function whyBeaten(winner: RouteSettings, loser: RouteSettings, method: string): string {
  // No two keys of a pattern cover the same method.
  if (isSamePattern(winner, loser)) {
    return `is for ${loser.methods?.join(", ") ?? "other methods"}, not for ${method}`;
  }
  for (const [index, segment] of winner.segments.entries()) {
    const other = loser.segments[index];
    if (other === undefined || RANKS[segment.kind] === RANKS[other.kind]) continue;
    return `is less specific: ${written(other)} where the winner has ${written(segment)}`;
  }
  return "is less specific";
}

function written(segment: Segment): string {
  if (segment.kind === "rest") return "*";
  return segment.kind === "param" ? `:${segment.name}` : JSON.stringify(segment.text);
}

function compareSegments(left: readonly Segment[], right: readonly Segment[]): number {
  for (const [index, segment] of left.entries()) {
    const other = right[index];
    if (other === undefined) break;
    const byRank = RANKS[segment.kind] - RANKS[other.kind];
    if (byRank !== 0) return byRank;
    const byText = compare(textOf(segment), textOf(other));
    if (byText !== 0) return byText;
  }
  return right.length - left.length;
}

function textOf(segment: Segment): string {
  return segment.kind === "static" ? segment.text : "";
}
