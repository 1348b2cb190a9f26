import { array, assert, constantFrom, oneof, property, string } from "fast-check";
import { describe, expect, test } from "vitest";
import { readRouteKey } from "../../../../src/config/routes/route-key.ts";
import { Router } from "../../../../src/gateway/paths/router.ts";
import { GATEWAY, OTHER_PAYEE, parse, PAYEE, priced, ROUTES } from "../fixture.ts";

test("a server's tools are routes of their own, with the terms of any, that nobody finds by a path", () => {
  const config = parse(`${GATEWAY}routes:
  /mcp:
    tools: { quote: $0.01, "search_*": { price: $0.002, settle: after }, ping: free, "*": deny }
    unpaid: status`);

  const told = config.routes.map(({ key, methods, tool, action }) => {
    return [key, methods, tool?.name, action.kind];
  });
  expect(told).toEqual([
    ["/mcp", null, undefined, "free"],
    ["POST /mcp#quote", ["POST"], "quote", "priced"],
    ["POST /mcp#search_*", ["POST"], "search_*", "priced"],
    ["POST /mcp#ping", ["POST"], "ping", "free"],
    ["POST /mcp#*", ["POST"], "*", "deny"],
  ]);
  expect(config.routes[0]?.action).toEqual({
    kind: "free",
    upstream: "default",
    tools: { unpaid: "status", telling: true },
  });
  expect(priced(config, "POST /mcp#search_*")).toMatchObject({
    settle: "after",
    discoverable: false,
    offers: [{ dollars: "$0.002" }],
  });
  expect(new Set(config.routes.map(({ pattern }) => pattern)).size).toBe(5);
});

describe("prices", () => {
  const TWO = GATEWAY.replace("[base-sepolia]", '[base, { network: avalanche, amount: "93" }]');

  test("are exact in every accepted token, in the order of accept", () => {
    const config = parse(`${TWO}routes: { GET /a: $12345678.000001 }`);

    const offers = priced(config, "GET /a").offers;
    expect(offers.map((each) => [each.network, each.amountAtomic, each.dollars])).toEqual([
      ["base", 12_345_678_000_001n, "$12345678.000001"],
      ["avalanche", 93n, null],
    ]);
  });

  test("of a route with its own accept and payTo leave the global ones aside", () => {
    const config = parse(`${TWO}routes:
  GET /a: { price: $1, accept: [polygon], payTo: { evm: "${OTHER_PAYEE}" } }`);

    const offers = priced(config, "GET /a").offers;
    expect(offers.map((each) => [each.network, each.payTo])).toEqual([["polygon", OTHER_PAYEE]]);
  });

  test("in atomic units apply to the entries with that asset", () => {
    const config = parse(`${TWO}routes: { GET /a: { price: { amount: "7", asset: USDC } } }`);

    const offers = priced(config, "GET /a").offers;
    expect(offers.map((each) => [each.amountAtomic, each.dollars])).toEqual([
      [7n, null],
      [93n, null],
    ]);
  });

  test("have no room for a free route, which may still name its upstream", () => {
    const config = parse(`${GATEWAY}routes:
  GET /a: { price: free, upstream: default }
  /b: deny`);

    expect(config.routes.map((route) => route.action)).toEqual([
      { kind: "free", upstream: "default" },
      { kind: "deny" },
    ]);
  });

  test("write addresses with their checksum", () => {
    const config = parse(GATEWAY.replace(PAYEE, PAYEE.toLowerCase()) + ROUTES);

    expect(priced(config, "GET /weather").offers[0]?.payTo).toBe(PAYEE);
  });
});

describe("routes", () => {
  test.each([
    ["/", [{ kind: "static", text: "" }]],
    ["/*", [{ kind: "rest" }]],
    [
      "/a/",
      [
        { kind: "static", text: "a" },
        { kind: "static", text: "" },
      ],
    ],
    [
      "/v1/:id/x:y/*",
      [
        { kind: "static", text: "v1" },
        { kind: "param", name: "id" },
        { kind: "static", text: "x:y" },
        { kind: "rest" },
      ],
    ],
    ["/caf%C3%A9", [{ kind: "static", text: "caf%C3%A9" }]],
  ])("with the pattern %s are cut into segments", (pattern, segments) => {
    const [route] = parse(`${GATEWAY}routes: { "GET,POST ${pattern}": free }`).routes;

    expect(route).toMatchObject({ methods: ["GET", "POST"], pattern, segments });
  });

  test("stand for every method when none is named", () => {
    expect(parse(`${GATEWAY}routes: { /a: deny }`).routes[0]?.methods).toBeNull();
  });

  test("that nothing matches may lead to the one upstream", () => {
    const config = parse(`${GATEWAY.replace("unmatched: deny", "unmatched: free")}${ROUTES}`);

    expect(config.defaultUpstream).toBe("default");
  });

  test("that are accepted can be matched by the gateway", () => {
    const piece = constantFrom(
      ..."/ / // . .. : :id * % %2F %2f %3B %25 %252F %7F %41 %C3%A9 %C2%85 ; é a B ~ + GET + %20 %EF%BC%BC %E2%80%8B ::$DATA".split(
        " ",
      ),
    );
    const keys = array(oneof(piece, string({ maxLength: 2 })), { maxLength: 6 });
    let accepted = 0;

    assert(
      property(keys, (pieces) => {
        const key = readRouteKey(`/${pieces.join("")}`);
        if (!key.ok) return;
        accepted += 1;
        const { methods, pattern } = key.value;
        const options = { guarded: () => true, unmatchedGuarded: true };
        expect(() => new Router([{ methods, pattern, value: null }], options)).not.toThrow();
      }),
      { numRuns: 5000 },
    );

    expect(accepted).toBeGreaterThan(200);
  });
});
