import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { Router } from "../../../../src/gateway/paths/router.ts";
import type { Route } from "../../../../src/gateway/paths/router.ts";
import { effort } from "../../../support/effort.ts";

/** The value of the route, or the kind of any other match. */
function where(built: Router<string>, path: string): string {
  const match = built.match("GET", path);
  return match.kind === "route" ? match.value : match.kind;
}

// Slow but obvious: every pattern as a regular expression, every match ranked segment by segment.

const segment = fc.constantFrom("a", "b", "c", ":x");
const pattern = fc
  .tuple(fc.array(segment, { maxLength: 4 }), fc.constantFrom("", "/", "/*"))
  .map(([segments, end]) => `/${segments.join("/")}${end}`.replace(/^\/\//, "/"));
const patterns = fc.uniqueArray(pattern, {
  minLength: 1,
  maxLength: 12,
  selector: (text) => text.replaceAll(":x", ":"),
});
const requested = fc
  .tuple(fc.array(fc.constantFrom("a", "b", "c", "d"), { maxLength: 5 }), fc.constantFrom("", "/"))
  .map(([segments, end]) => `/${segments.join("/")}${end}`.replace(/^\/\//, "/"));

function matches(text: string, path: string): boolean {
  const source = text.replaceAll(":x", "[^/]+").replace(/\*$/, ".*");
  return new RegExp(`^${source}$`).test(path);
}

function rank(text: string): string {
  const ranks = text.slice(1).split("/");
  return ranks.map((each) => (each === "*" ? "2" : each === ":x" ? "1" : "0")).join("");
}

/** Equal as far as they go: the one that ends there beats the one whose `*` stands for nothing. */
function isMoreSpecific(one: string, other: string): boolean {
  const [left, right] = [rank(one), rank(other)];
  for (let index = 0; index < Math.min(left.length, right.length); index += 1) {
    const difference = Number(left[index]) - Number(right[index]);
    if (difference !== 0) return difference < 0;
  }
  return left.length < right.length;
}

function reference(texts: readonly string[], path: string): string | null {
  let best: string | null = null;
  for (const text of texts) {
    if (matches(text, path) && (best === null || isMoreSpecific(text, best))) best = text;
  }
  return best;
}

/** The loosest reading, for letters, dots and slashes only; a slash at the end is kept. */
const loosen = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/\.+(?=\/|$)/g, "")
    .replaceAll(/\/+/g, "/");
const withoutSlash = (text: string): string => (text === "/" ? text : text.replace(/\/$/, ""));

/** As a backend has it that takes `/a/` for `/a`: a rest may also begin with nothing. */
function matchesBySlash(text: string, path: string, countsSlash: boolean): boolean {
  if (countsSlash) return matches(text, path);
  const [pattern, plain] = [text, path].map(withoutSlash);
  return matches(pattern ?? "", plain ?? "") || matches(text, `${plain === "/" ? "" : plain}/`);
}

/** All patterns of equal rank and names are one to a backend that does not count their differences. */
const sameAs = (text: string): string => withoutSlash(loosen(text));
describe("for any set of routes", () => {
  test("the most specific pattern wins, as a naive matcher finds it", () => {
    fc.assert(
      fc.property(patterns, requested, (texts, path) => {
        const routes = texts.map((text) => ({ methods: null, pattern: text, value: text }));
        const built = new Router(routes, { guarded: () => false, unmatchedGuarded: false });
        expect(where(built, path)).toBe(reference(texts, path) ?? "unmatched");
      }),
      { numRuns: effort(5_000, 20_000) },
    );
  });

  test("the order of the routes does not matter", () => {
    fc.assert(
      fc.property(patterns, fc.array(requested, { maxLength: 5 }), (texts, paths) => {
        const routes = texts.map((text, index) => ({
          methods: null,
          pattern: text,
          value: index % 2 === 0 ? "free" : text,
        }));
        const options = { guarded: (value: string) => value !== "free", unmatchedGuarded: false };
        const forwards = new Router(routes, options);
        const backwards = new Router(routes.toReversed(), options);
        for (const path of paths) expect(where(backwards, path)).toBe(where(forwards, path));
      }),
      { numRuns: 2_000 },
    );
  });

  test("a respelling that could be a guarded pattern is ambiguous, and nothing else is", () => {
    const respelled = fc
      .tuple(requested, fc.array(fc.boolean(), { minLength: 12, maxLength: 12 }), fc.boolean())
      .map(([path, upper, dot]) => {
        const letters = Array.from(path).map((letter, index) =>
          upper[index] === true ? letter.toUpperCase() : letter,
        );
        return `${letters.join("")}${dot && !path.endsWith("/") ? "." : ""}`;
      });
    fc.assert(
      fc.property(patterns, fc.nat(), respelled, (texts, mask, path) => {
        const guardedTexts = new Set(texts.filter((_, index) => (mask >> index) % 2 === 1));
        const routes = texts.map((text) => ({ methods: null, pattern: text, value: text }));
        const built = new Router(routes, {
          guarded: (value) => guardedTexts.has(value),
          unmatchedGuarded: false,
        });
        const strict = reference(texts, path);
        const costs = (text: string): boolean =>
          (strict === null || sameAs(text) !== sameAs(strict)) && guardedTexts.has(text);
        const isAmbiguous = [true, false].some((countsSlash) => {
          // Whatever a backend does not count, it finds this one or a more specific one.
          const sure = texts.filter((text) => matchesBySlash(text, path, countsSlash));
          return texts.some(
            (text) =>
              costs(text) &&
              matchesBySlash(text, loosen(path), countsSlash) &&
              sure.every((each) => sameAs(each) === sameAs(text) || isMoreSpecific(text, each)),
          );
        });
        // Another spelling counts only where the file itself does not name this one.
        const isNamed = strict !== null && !strict.includes(":") && !strict.endsWith("*");
        const expected = isAmbiguous && !isNamed ? "ambiguous" : (strict ?? "unmatched");
        expect(where(built, path)).toBe(expected);
      }),
      { numRuns: 5_000 },
    );
  });

  test("a request made to be searched long costs no more than the patterns", () => {
    const routes: Route<string>[] = [];
    for (let depth = 1; depth < 200; depth += 1) {
      for (const last of ["x", "y"]) {
        const prefix = "/a".repeat(depth);
        routes.push({ methods: null, pattern: `${prefix}/:p/${last}`, value: "free" });
        routes.push({ methods: null, pattern: `${prefix}/:p/:q/${last}`, value: "free" });
      }
    }
    const built = new Router(routes, { guarded: () => true, unmatchedGuarded: false });
    const path = "/a".repeat(2000);
    const started = performance.now();
    for (let index = 0; index < 100; index += 1) expect(where(built, path)).toBe("unmatched");
    expect((performance.now() - started) / 100).toBeLessThan(50);
  });
});
