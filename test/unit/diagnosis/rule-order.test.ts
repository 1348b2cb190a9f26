/** The list for people against the router that decides: whatever the list puts first has to win. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  inWinningOrder,
  isSamePattern,
  listsMethod,
  matchesPath,
  whyBeaten,
} from "../../../src/diagnosis/rule-order.ts";
import type { RouteSettings } from "../../../src/config/config.ts";
import { Router } from "../../../src/gateway/paths/router.ts";
import { configOf } from "../app/config-of.ts";

const SEGMENTS = ["a", "b", "c", ":x"];
const METHODS = ["", "GET ", "POST ", "GET,HEAD ", "HEAD "];

/** Keys as a file would have them, without two for the same requests. */
const keys = fc
  .uniqueArray(
    fc
      .tuple(
        fc.constantFrom(...METHODS),
        fc.array(fc.constantFrom(...SEGMENTS), { minLength: 1, maxLength: 3 }),
        fc.constantFrom("", "/", "/*"),
      )
      .map(([methods, segments, end]) => {
        const named = segments.map((segment, index) => (segment === ":x" ? `:x${index}` : segment));
        return `${methods}/${named.join("/")}${end}`;
      }),
    { minLength: 1, maxLength: 12 },
  )
  .map((found) => {
    const taken = new Set<string>();
    return found.filter((key) => {
      const slash = key.indexOf("/");
      const pattern = key.slice(slash);
      const all = ["GET", "HEAD", "POST", "others"];
      const listed = slash === 0 ? all : key.slice(0, slash - 1).split(",");
      const methods = new Set(listed.includes("GET") ? [...listed, "HEAD"] : listed);
      const names = [...methods].map((method) => `${method} ${pattern}`);
      if (names.some((name) => taken.has(name))) return false;
      for (const name of names) taken.add(name);
      return true;
    });
  });

const paths = fc
  .tuple(fc.array(fc.constantFrom("a", "b", "c", "d"), { maxLength: 4 }), fc.boolean())
  .map(
    ([segments, isSlashed]) =>
      `/${segments.join("/")}${isSlashed && segments.length > 0 ? "/" : ""}`,
  );

function routesOf(written: readonly string[]): readonly RouteSettings[] {
  const routes = written.map((key) => `  ${JSON.stringify(key)}: free`).join("\n");
  return configOf(`upstream: http://localhost:3000
publicUrl: http://localhost:8402
unmatched: deny
routes:
${routes}
`).routes;
}

test("the first rule that matches a path has the pattern that the router chooses", () => {
  fc.assert(
    fc.property(
      keys,
      paths,
      fc.constantFrom("GET", "HEAD", "POST", "PUT"),
      (written, path, method) => {
        const routes = routesOf(written);
        const router = new Router(
          routes.map((route) => ({ ...route, value: route })),
          { guarded: () => false, unmatchedGuarded: false },
        );
        const [first, ...others] = inWinningOrder(routes).filter((route) =>
          matchesPath(route, path),
        );
        const match = router.match(method, path);
        // Some backends would read the path otherwise: then no rule wins.
        fc.pre(match.kind !== "ambiguous");
        if (first === undefined) {
          expect(match.kind).toBe("unmatched");
          return;
        }
        const samePattern = [first, ...others].filter((route) => isSamePattern(first, route));
        const winner = samePattern.find(
          (route) => route.methods === null || listsMethod(route, method),
        );
        expect(match).toMatchObject(
          winner === undefined ? { kind: "method-not-allowed" } : { kind: "route", value: winner },
        );
      },
    ),
    { numRuns: 2_000 },
  );
});

test("the order of the file makes no difference", () => {
  fc.assert(
    fc.property(keys, (written) => {
      const forward = inWinningOrder(routesOf(written)).map(({ key }) => key);
      expect(inWinningOrder(routesOf(written.toReversed())).map(({ key }) => key)).toEqual(forward);
    }),
  );
});

test("a rule that is beaten is told by what", () => {
  const [get, post, param, rest] = inWinningOrder(
    routesOf(["/a/*", "/a/:x", "POST /a/b", "GET /a/b"]),
  );
  if (!get || !post || !param || !rest) throw new Error("four rules were written");
  expect([get, post, param, rest].map(({ key }) => key)).toEqual([
    "GET /a/b",
    "POST /a/b",
    "/a/:x",
    "/a/*",
  ]);
  expect(whyBeaten(get, post, "GET")).toBe("is for POST, not for GET");
  expect(whyBeaten(get, param, "GET")).toBe('is less specific: :x where the winner has "b"');
  expect(whyBeaten(param, rest, "GET")).toBe("is less specific: * where the winner has :x");
});
