import {
  assert,
  array,
  constantFrom,
  jsonValue,
  oneof,
  option,
  property,
  string,
  tuple,
  webUrl,
} from "fast-check";
import { describe, expect, test } from "vitest";
import { isListable, readSoldTerms, templateOf } from "../../../src/discovery/sold-resource.ts";
import type { PaymentRequirements } from "../../../src/x402/x402.ts";
import { examplePayment } from "../ledger/example-payment.ts";

const URLS = ["https://weather.example.com", "https://maps.example.com/v1"];
const INPUT = { type: "http", method: "GET", discoverable: true };

function sold(resource: string, input: object = INPUT): PaymentRequirements {
  const { paymentRequirements } = examplePayment(1).request;
  return { ...paymentRequirements, resource, outputSchema: { input } };
}

/** What is listed, `METHOD URL`, or why nothing is. */
function word(requirements: PaymentRequirements): string {
  const read = readSoldTerms(requirements, URLS);
  return read.ok ? `${read.value.method} ${read.value.resource}` : read.error;
}

function weather(path: string, routeTemplate: unknown): string {
  return word(sold(`https://weather.example.com${path}`, { ...INPUT, routeTemplate }));
}

const FOREIGN = "resource is under no URL that this gateway may list";
const NO_URL = "resource is no http or https URL";
const NO_FIT = "outputSchema.input.routeTemplate does not fit resource";

describe("the URL that is listed", () => {
  test.each([
    ["https://weather.example.com/today", "GET https://weather.example.com/today"],
    ["https://weather.example.com", "GET https://weather.example.com/"],
    ["https://weather.example.com/today?city=Oslo#x", "GET https://weather.example.com/today"],
    ["HTTPS://Weather.Example.com:443/a/./b/../c", "GET https://weather.example.com/a/c"],
    ["https://weather.example.com/ä b", "GET https://weather.example.com/%C3%A4%20b"],
    ["https://maps.example.com/v1", "GET https://maps.example.com/v1"],
    ["https://maps.example.com/v1/tiles", "GET https://maps.example.com/v1/tiles"],
    ["https://maps.example.com/v1/%2e%2e/v2", FOREIGN],
    ["https://maps.example.com/v12", FOREIGN],
    ["https://maps.example.com/", FOREIGN],
    ["http://weather.example.com/today", FOREIGN],
    ["https://weather.example.com:8443/today", FOREIGN],
    ["https://weather.example.com.evil.example/today", FOREIGN],
    ["https://weather.example.com@evil.example/today", NO_URL],
    ["https://me:secret@weather.example.com/today", NO_URL],
    ["https:weather.example.com/today", NO_URL],
    ["//weather.example.com/today", NO_URL],
    ["javascript:alert(1)//https://weather.example.com/", NO_URL],
    ["https://", NO_URL],
    ["", NO_URL],
    [
      `https://weather.example.com/${"x".repeat(2_048)}`,
      "resource is longer than the listing takes",
    ],
  ])("of %s is %s", (resource, expected) => {
    expect(word(sold(resource))).toBe(expected);
  });
});

describe("a route with parameters is listed as its template", () => {
  test.each([
    ["/stations/7/readings", "/stations/:id/readings"],
    ["/stations/7/readings?key=x", "/stations/:id/readings"],
    ["/a%2Fb", "/:any"],
    ["/archive/2020/1", "/archive/*"],
    ["/archive/", "/archive/*"],
    ["/archive/x/1", "/:kind/:id/*"],
    ["/today", "/today"],
  ])("%s as %s", (path, template) => {
    expect(weather(path, template)).toBe(`GET https://weather.example.com${template}`);
  });

  test.each([
    ["/stations/7", "/stations/:id/readings"],
    ["/stations/7/readings/x", "/stations/:id/readings"],
    ["/stations//readings", "/stations/:id/readings"],
    ["/else/7", "/stations/:id"],
    ["/archive", "/archive/*"],
    ["/a/b/c", "/a/*/c"],
    ["/a/b", "/a/:"],
    ["/a/b", "/a/:b c"],
    ["/a/b", "/a/:b?x=1"],
    ["/a/b", "/a/../a/:b"],
    ["/a/b", "a/:b"],
    ["/a/b", "@evil.example/:b"],
    ["/a/b", `/a/:${"b".repeat(65)}`],
    ["/a/b", ""],
    ["/a/b", 7],
    ["/a/b", null],
    ["/a/b", ["/a/:b"]],
  ])("but not %s as %s", (path, template) => {
    expect(weather(path, template)).toBe(NO_FIT);
  });

  test("which has to be among the seller's URLs itself", () => {
    const tile = "https://maps.example.com/v1/7";
    expect(word(sold(tile, { ...INPUT, routeTemplate: "/v1/:z" }))).toBe(
      "GET https://maps.example.com/v1/:z",
    );
    expect(word(sold(tile, { ...INPUT, routeTemplate: "/:version/7" }))).toBe(FOREIGN);
    expect(word(sold(tile, { ...INPUT, routeTemplate: "/*" }))).toBe(FOREIGN);
  });

  test("with what is known of the parameters", () => {
    const pathParams = { id: { type: "string" } };
    const described = sold("https://x/", { ...INPUT, routeTemplate: "/:id", pathParams });
    expect(templateOf(described)).toEqual({ pathParams });
    expect(templateOf(sold("https://x/", { ...INPUT, routeTemplate: "/:id" }))).toEqual({
      pathParams: {},
    });
    const odd = sold("https://x/", { ...INPUT, routeTemplate: "/:id", pathParams: ["id"] });
    expect(templateOf(odd)).toEqual({ pathParams: {} });
    expect(templateOf(sold("https://x/"))).toBeUndefined();
  });
});

describe("nothing is listed", () => {
  const today = "https://weather.example.com/today";
  const discoverable = "outputSchema.input.discoverable is not true";
  const kind = "outputSchema.input.type is not http, or its method is none";

  test.each([
    [{ ...INPUT, discoverable: false }, discoverable],
    [{ ...INPUT, discoverable: "true" }, discoverable],
    [{ type: "http", method: "GET" }, discoverable],
    [{}, discoverable],
    [{ ...INPUT, type: "mcp" }, kind],
    [{ ...INPUT, method: "" }, kind],
    [{ ...INPUT, method: "GET /x" }, kind],
    [{ ...INPUT, method: ["GET"] }, kind],
  ])("of %j", (input, expected) => {
    expect(word(sold(today, input))).toBe(expected);
  });

  test("of a requirement that says nothing of how to ask for the resource", () => {
    const { outputSchema: _, ...bare } = sold(today);
    expect(word(bare)).toBe(discoverable);
    for (const outputSchema of [{}, { input: null }, { input: [INPUT] }, { input: "GET" }]) {
      expect(word({ ...bare, outputSchema })).toBe(discoverable);
    }
  });

  test("that takes more room than there is", () => {
    const long = { ...sold(today), description: "x".repeat(8_192) };
    expect(word(long)).toBe("its terms are longer than the listing takes");
    expect(word({ ...long, description: "x".repeat(7_000) })).toBe(`GET ${today}`);
  });
});

test("what is listed is the requirement as it was paid, for the URL that is listed", () => {
  const paid = sold("https://weather.example.com/today?x=1", { ...INPUT, method: "post" });
  expect(readSoldTerms(paid, URLS)).toEqual({
    ok: true,
    value: {
      method: "POST",
      resource: "https://weather.example.com/today",
      requirements: { ...paid, resource: "https://weather.example.com/today" },
    },
  });
});

test("whatever a seller says, what is listed is a URL of its own without a query", () => {
  const host = constantFrom(...URLS, "https://evil.example", "http://weather.example.com");
  const piece = oneof(
    constantFrom(
      "/",
      "//",
      ":id",
      "*",
      "..",
      "%2e%2e",
      "%2f",
      "\\",
      "@",
      "?",
      "#",
      "v1",
      "\t",
      "\n",
    ),
    string({ maxLength: 6 }),
  );
  const path = array(piece, { maxLength: 8 }).map((pieces) => pieces.join(""));
  const resource = oneof(
    webUrl(),
    tuple(host, path).map(([base, rest]) => `${base}/${rest}`),
    tuple(host, path).map(([base, rest]) => base + rest),
  );
  const template = option(
    oneof(
      path,
      path.map((each) => `/${each}`),
      jsonValue(),
    ),
    { freq: 2 },
  );
  let listedCount = 0;
  assert(
    property(resource, template, (written, routeTemplate) => {
      const input = routeTemplate === null ? INPUT : { ...INPUT, routeTemplate };
      const read = readSoldTerms(sold(written, input), URLS);
      if (!read.ok) return;
      listedCount += 1;
      const { resource: listed, requirements } = read.value;
      expect(requirements.resource).toBe(listed);
      expect(isListable(listed, URLS)).toBe(true);
      const url = new URL(listed);
      expect(url.href).toBe(listed);
      expect([url.search, url.hash, url.username, url.password]).toEqual(["", "", "", ""]);
      expect(URLS).toContain(url.origin === URLS[0] ? URLS[0] : `${url.origin}/v1`);
      expect(listed).not.toMatch(/[\s\\]/);
    }),
    { numRuns: 2_000 },
  );
  expect(listedCount).toBeGreaterThan(50);
});
