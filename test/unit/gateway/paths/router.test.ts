import { describe, expect, test } from "vitest";
import { Router } from "../../../../src/gateway/paths/router.ts";
import type { Route } from "../../../../src/gateway/paths/router.ts";

type Keys = Readonly<Record<string, string>>;

/** Keys as in the configuration file. */
function routesOf(keys: Keys): Route<string>[] {
  return Object.entries(keys).map(([key, value]) => {
    const [methods, pattern] = key.includes(" ") ? key.split(" ") : [undefined, key];
    return { methods: methods?.split(",") ?? null, pattern: pattern ?? "", value };
  });
}

/** `free` is the only value that is not guarded. */
function router(keys: Keys, unmatched: "deny" | "free" = "deny") {
  return new Router(routesOf(keys), {
    guarded: (value) => value !== "free",
    unmatchedGuarded: unmatched === "deny",
  });
}

/** The value of the route, or the kind of any other match. */
function where(built: Router<string>, path: string, method = "GET"): string {
  const match = built.match(method, path);
  return match.kind === "route" ? match.value : match.kind;
}

describe("a path", () => {
  const unguarded = { guarded: () => false, unmatchedGuarded: false };
  const keys = {
    "/": "root",
    "/weather": "static",
    "/reports/:id": "param",
    "/reports/latest": "latest",
    "/reports/:id/pages/:page": "page",
    "/reports/latest/*": "below latest",
    "/articles/*": "rest",
    "/articles/:id": "article",
    "/articles/new": "new",
    "/docs/": "slash",
    "/caf\u00e9": "coffee",
    "/@me": "at",
  };
  const built = new Router(routesOf(keys), unguarded);

  test.each([
    ["/", "root"],
    ["/weather", "static"],
    ["/reports/7", "param"],
    ["/reports/latest", "latest"],
    ["/reports/7/pages/1", "page"],
    ["/reports/latest/pages/1", "below latest"],
    ["/reports/latest/", "below latest"],
    ["/articles/", "rest"],
    ["/articles/1", "article"],
    ["/articles/1/2", "rest"],
    ["/articles/1/", "rest"],
    ["/articles/new", "new"],
    ["/articles/new/x", "rest"],
    ["/docs/", "slash"],
    ["/caf%C3%A9", "coffee"],
    ["/@me", "at"],
    ["/articles", "unmatched"],
    ["/reports", "unmatched"],
    ["/reports/", "unmatched"],
    ["/reports/7/pages", "unmatched"],
    ["/weather/", "unmatched"],
    ["/Weather", "unmatched"],
    ["/nothing", "unmatched"],
  ])("%s belongs to %s", (path, value) => {
    expect(where(built, path)).toBe(value);
  });

  test("leaves a static branch that leads nowhere for the parameter beside it", () => {
    const built = router({ "/a/b/c": "static", "/a/:x/d": "param", "/*": "rest" });
    expect(where(built, "/a/b/d")).toBe("param");
    expect(where(built, "/a/b/e")).toBe("rest");
    expect(where(built, "/a/b")).toBe("rest");
  });

  test("is compared from left to right, so that an early static segment beats a later one", () => {
    const built = router({ "/a/*": "early", "/:x/b/c": "late" });
    expect(where(built, "/a/b/c")).toBe("early");
    expect(where(built, "/z/b/c")).toBe("late");
  });

  test("gives the longer of two rests", () => {
    const built = router({ "/*": "all", "/a/*": "a", "/a/b/*": "b" });
    expect(where(built, "/a/b/c")).toBe("b");
    expect(where(built, "/a/c")).toBe("a");
    expect(where(built, "/c")).toBe("all");
    expect(where(built, "/")).toBe("all");
  });

  test("does not match a parameter with an empty segment", () => {
    expect(where(router({ "/a/:x": "x" }), "/a/")).toBe("unmatched");
  });
});

describe("a method", () => {
  const built = router({
    "GET /a": "get",
    "POST,PUT /a": "write",
    "/b": "any",
    "GET /b": "get b",
    "HEAD /c": "head",
    "GET /c": "get c",
    "GET /d/e": "free",
    "/d/*": "below d",
  });

  test.each([
    ["GET", "/a", "get"],
    ["HEAD", "/a", "get"],
    ["POST", "/a", "write"],
    ["PUT", "/a", "write"],
    ["DELETE", "/a", "method-not-allowed"],
    ["get", "/a", "method-not-allowed"],
    ["GET", "/b", "get b"],
    ["HEAD", "/b", "get b"],
    ["POST", "/b", "any"],
    ["PURGE", "/b", "any"],
    ["HEAD", "/c", "head"],
    ["GET", "/c", "get c"],
    ["POST", "/c", "method-not-allowed"],
  ])("%s %s leads to %s", (method, path, value) => {
    expect(where(built, path, method)).toBe(value);
  });

  test("that is not listed is answered with those that are", () => {
    expect(built.match("DELETE", "/a")).toEqual({
      kind: "method-not-allowed",
      allow: "GET, HEAD, POST, PUT",
    });
  });

  test("that the chosen pattern denies is not looked for in a wider pattern", () => {
    expect(where(built, "/d/e", "POST")).toBe("method-not-allowed");
    expect(where(built, "/d/f", "POST")).toBe("below d");
  });

  test("named like a property of every object is just a method", () => {
    for (const method of ["__proto__", "constructor", "toString"]) {
      expect(where(built, "/a", method)).toBe("method-not-allowed");
    }
    expect(where(built, "/__proto__")).toBe("unmatched");
  });
});

describe("a spelling that some backends read as another path", () => {
  test.each([
    ["/paid", "$1"],
    ["/Paid", "ambiguous"],
    ["/PAID", "ambiguous"],
    ["/paid/", "ambiguous"],
    ["/paid.", "ambiguous"],
    ["/paid...", "ambiguous"],
    ["/paid%20", "ambiguous"],
    ["/paid.%20.", "ambiguous"],
    ["/paid%3F", "ambiguous"],
    ["/paid%3Fx", "ambiguous"],
    ["/paid%23x", "ambiguous"],
    ["/Paid/", "ambiguous"],
    ["/%EF%BD%90aid", "ambiguous"],
    ["/paid/x", "unmatched"],
    ["/paidx", "unmatched"],
    ["/pai", "unmatched"],
    ["/reports/7", "$2"],
    ["/reports/7/", "ambiguous"],
    ["/Reports/7", "ambiguous"],
    ["/REPORTS/7", "ambiguous"],
    ["/reports/Seven", "$2"],
    ["/reports/a%2Cb", "$2"],
    ["/reports", "unmatched"],
    ["/articles/x", "$3"],
    ["/articles/X/", "$3"],
    ["/Articles/x", "ambiguous"],
    ["/articles", "ambiguous"],
    ["/%40me", "ambiguous"],
    ["/%40ME/", "ambiguous"],
    ["/STATUS", "unmatched"],
    ["/status/", "unmatched"],
    ["/free/ANYTHING/", "free"],
    ["/stra%C3%9Fe", "ambiguous"],
  ])("%s is %s where everything else is free", (path, value) => {
    const built = router(
      {
        "/paid": "$1",
        "/reports/:id": "$2",
        "/articles/*": "$3",
        "/@me": "$4",
        "/Stra\u00dfe": "$5",
        "/status": "free",
        "/free/*": "free",
      },
      "free",
    );
    expect(where(built, path)).toBe(value);
  });

  test("is plainly unmatched where what no route covers is denied", () => {
    const built = router({ "/paid": "$1" }, "deny");
    expect(where(built, "/PAID")).toBe("unmatched");
    expect(where(built, "/paid/")).toBe("unmatched");
  });

  test("does not get in by a free wildcard over a priced path", () => {
    const built = router({ "/*": "free", "/paid": "$1", "/admin/*": "deny" });
    expect(where(built, "/PAID")).toBe("ambiguous");
    expect(where(built, "/Admin/x")).toBe("ambiguous");
    expect(where(built, "/admin")).toBe("ambiguous");
    expect(where(built, "/other")).toBe("free");
  });

  test("does not buy a dear resource at the price of the pattern around it", () => {
    const built = router({ "/items/:id": "$1", "/items/gold": "$500" });
    expect(where(built, "/items/gold")).toBe("$500");
    expect(where(built, "/items/GOLD")).toBe("ambiguous");
    expect(where(built, "/items/gold.")).toBe("ambiguous");
    expect(where(built, "/items/Silver")).toBe("$1");
  });

  test("does not get a method past a key that denies it", () => {
    const built = router({ "GET /paid": "$1" }, "free");
    expect(where(built, "/paid", "POST")).toBe("method-not-allowed");
    expect(where(built, "/PAID", "POST")).toBe("ambiguous");
  });

  test("does not leave a free prefix for what is denied", () => {
    const built = router({ "/free/:name/x": "free" }, "deny");
    expect(where(built, "/free/a/x")).toBe("free");
    expect(where(built, "/free/a%3F/x")).toBe("ambiguous");
    expect(where(built, "/free/.../x")).toBe("ambiguous");
  });

  test("is honoured when the file names both spellings", () => {
    const built = router({ "/docs": "free", "/docs/": "$1", "/Docs": "$2" });
    expect(where(built, "/docs")).toBe("free");
    expect(where(built, "/docs/")).toBe("$1");
    expect(where(built, "/Docs")).toBe("$2");
    expect(where(built, "/DOCS")).toBe("unmatched");
    expect(where(router({ "/docs": "free", "/docs/": "$1" }, "free"), "/DOCS")).toBe("ambiguous");
  });
});

describe("a path that is not ASCII", () => {
  const keys = {
    "/caf\u00e9": "$1",
    "/free/*": "free",
    "/goods/:name": "free",
    "/:lang/wiki/*": "free",
    "/paid": "$2",
    "/\u30ab": "$3",
  };

  test.each([
    ["/caf\u00e9", "$1"],
    ["/free/\u{1f44d}", "free"],
    ["/free/\u8ab0\uff1f", "free"],
    ["/free/AC\uff0fDC", "free"],
    ["/goods/\u{1f44d}\ufe0f", "free"],
    ["/goods/\u8ab0\uff1f", "free"],
    ["/goods/10\uff05", "free"],
    ["/goods/\u00bd", "free"],
    ["/goods/\u00a5100", "free"],
    ["/ja/wiki/\u8ab0\uff1f\uff0f\u4f55", "free"],
    ["/\u30ab", "$3"],
  ])("%s is served where it cannot be anything else", (path, value) => {
    for (const unmatched of ["deny", "free"] as const) {
      expect(where(router(keys, unmatched), encodeURI(path))).toBe(value);
    }
  });

  test.each([
    ["/cafe\u0301"],
    ["/CAF\u00c9"],
    ["/cafe"],
    ["/\uff50aid"],
    ["/pa\u0131d"],
    ["/paid\uff1fx"],
    ["/free\uff0f..\uff0fpaid"],
    ["/free/\u2025/paid"],
    ["/free/..%20/paid"],
    ["/\u304b"],
  ])("%s is refused where a backend may see what is priced", (path) => {
    const encoded = path.includes("%") ? path : encodeURI(path);
    expect(where(router(keys, "free"), encoded)).toBe("ambiguous");
  });

  test("of a pattern is matched in all its readings, too", () => {
    const built = router({ "/a%3Fb": "$1", "/*": "free" }, "free");
    expect(where(built, "/a%3Fb")).toBe("$1");
    expect(where(built, "/a%3Fc")).toBe("ambiguous");
    expect(where(built, "/a")).toBe("ambiguous");
    expect(where(built, "/b")).toBe("free");
  });

  test("of a pattern may not be nothing twice", () => {
    expect(() => router({ "/.../.../a": "free" })).toThrow("too many ways");
  });
});

describe("a table of routes is refused", () => {
  test.each([
    ["", "no request can match"],
    ["weather", "no request can match"],
    ["/a//b", "empty segment"],
    ["/a/../b", "dot segment"],
    ["/a;b", "path parameter"],
    ["/a?b", "not a pattern"],
    ['/a"b', "percent-encoded"],
    ["/%61", "write it as it is"],
    ["/caf%c3%a9", "lower case"],
    ["/:", "not a pattern"],
    ["/a/:/b", "not a pattern"],
    ["/a*", "not a pattern"],
    ["/a/*/b", "not a pattern"],
    ["/**", "not a pattern"],
    ["*", "no request can match"],
  ])("with the pattern %j", (pattern, reason) => {
    expect(() => router({ [pattern]: "free" })).toThrow(new RegExp(reason, "i"));
  });

  test.each([
    ["/a", "/a"],
    ["/a/:x", "/a/:y"],
    ["/caf\u00e9", "/caf%C3%A9"],
    ["/a/*", "/a/*"],
  ])("with both %s and %s", (one, other) => {
    const routes = [one, other].map((pattern) => ({ methods: null, pattern, value: "free" }));
    const options = { guarded: () => false, unmatchedGuarded: true };
    expect(() => new Router(routes, options)).toThrow("Two routes match the same requests");
    const listed = routes.map((route) => ({ ...route, methods: ["GET"] }));
    expect(() => new Router(listed, options)).toThrow("Two routes match the same requests");
  });
});
