import { describe, expect, test } from "vitest";
import {
  createEarlierQuotes,
  createSnapshot,
  siteSteps,
} from "../../../src/app/request-snapshot.ts";
import { SilentEngine } from "../../../src/app/silent-engine.ts";
import { NO_DRAFTS } from "../../../src/gateway/offers/drafts.ts";
import { NO_FEE_PAYERS } from "../../../src/payments/sale/offers.ts";
import { HostTable } from "../../../src/http/host-names.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { atOnce } from "../../../src/time/breath.ts";
import { configOf } from "./config-of.ts";

const FILE = `
upstream: http://localhost:3000
publicUrl: http://localhost:8402
payTo: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C"
accept: [base-sepolia]
facilitator: https://facilitator.example.com
unmatched: deny
routes:
  /any: { price: $0.01, description: Any }
  GET /other: { price: $0.01, description: Other }
  PUT /other: free
  DELETE /other: deny
  GET,POST /both: { price: $0.02, description: Both }
  POST,GET /turned: { price: $0.02, description: Turned }
  /reports/:id: { price: $0.03, description: A report }
  GET,HEAD /one: { price: $0.04, description: One }
`;

function snapshotOf(file = FILE) {
  const config = configOf(file);
  const engine = new SilentEngine();
  const engines = new Map(
    ["proxy", ...config.upstreams.map(({ name }) => name)].map((name) => [name, engine]),
  );
  const ground = { feePayers: NO_FEE_PAYERS, drafts: NO_DRAFTS, earlier: [] };
  return {
    snapshot: createSnapshot(config, engines, { ...ground, metrics: new Metrics("test") }),
    earlier: createEarlierQuotes(config, NO_FEE_PAYERS, 0),
  };
}

/** The method that a buyer is told, or what else is answered. */
function told(method: string, path: string): unknown {
  const { snapshot, earlier } = snapshotOf();
  const match = snapshot.router.match(method, path);
  if (match.kind !== "route") return match.kind === "method-not-allowed" ? match.allow : match.kind;
  const plan = match.value;
  const before = earlier[0]?.router.match(method, path);
  if (plan.kind !== "priced") {
    expect(before).toEqual({ kind: "route", value: null });
    return plan.kind;
  }
  const resource = `http://localhost:8402${path}`;
  const [requirements] = plan.offers.accepts(resource);
  if (before?.kind !== "route" || before.value === null) throw new Error("it was not sold before");
  expect(before.value.offers.accepts(resource)).toEqual([requirements]);
  return Object(requirements?.outputSchema).input;
}

const input = (method: string, more: object = {}) => ({
  type: "http",
  method,
  discoverable: true,
  ...more,
});

describe("what buyers and catalogues are told of a resource", () => {
  test.each([
    ["GET", "/any", "GET"],
    ["HEAD", "/any", "GET"],
    ["POST", "/any", "POST"],
    ["PATCH", "/any", "PATCH"],
    ["PROPFIND", "/any", "GET"],
    ["GET", "/both", "GET"],
    ["HEAD", "/both", "GET"],
    ["POST", "/both", "POST"],
    ["GET", "/turned", "GET"],
    ["POST", "/turned", "POST"],
    ["GET", "/one", "GET"],
    ["HEAD", "/one", "HEAD"],
  ])("names the method by which it was asked for: %s %s", (method, path, named) => {
    expect(told(method, path)).toEqual(input(named));
  });

  test("names the template of a route with parameters", () => {
    const template = { routeTemplate: "/reports/:id" };
    expect(told("GET", "/reports/7")).toEqual(input("GET", template));
    expect(told("POST", "/reports/7")).toEqual(input("POST", template));
  });

  test("changes nothing in which key a request belongs to", () => {
    expect(told("PUT", "/other")).toBe("free");
    expect(told("DELETE", "/other")).toBe("deny");
    expect(told("POST", "/other")).toBe("DELETE, GET, HEAD, PUT");
    expect(told("PUT", "/both")).toBe("GET, HEAD, POST");
    expect(told("POST", "/one")).toBe("GET, HEAD");
    expect(told("GET", "/none")).toBe("unmatched");
  });
});

describe("the hosts that are served", () => {
  const LISTEN = 'listen: ["gateway.internal:8402", ":8403", "10.0.0.1:8404"]\n';
  const hostsOf = (more: string) =>
    snapshotOf(FILE.replace("publicUrl: http://localhost", "publicUrl: http://shop.example") + more)
      .snapshot.hosts;

  test("are those of publicUrl and of the listeners, and with a list no others", () => {
    const hosts = hostsOf(`${LISTEN}hosts: []\n`);
    expect(hosts?.only).toBe(true);
    expect(hosts?.names.has("gateway.internal")).toBe(true);
    expect(hosts?.names.has("localhost")).toBe(true);
    expect(hosts?.names.has("other.example")).toBe(false);
  });

  test("are those of the list as well", () => {
    const hosts = hostsOf('hosts: [api.example, "*.shops.example"]\n');
    for (const name of ["api.example", "a.shops.example", "shop.example:8402"])
      expect(hosts?.names.has(name)).toBe(true);
  });

  test("are all of them without a list", () => {
    expect(hostsOf("")?.only).toBe(false);
  });

  test("are the proxy's to know where it asks here", () => {
    const file = FILE.replace(
      /^upstream: .*$/m,
      "sidecar: { listen: 127.0.0.1:8403, proxy: caddy }",
    );
    expect(snapshotOf(file).snapshot.hosts).toBeNull();
  });
});

describe("the site that a request is for", () => {
  const HOSTS = `
hosts:
  "*.shop.example": { publicUrl: https://w.shop.example, unmatched: free, routes: { GET /w: free } }
  dear.shop.example: { routes: { GET /d: $1 } }
`;
  const siteAt = (file: string, host: string): string | undefined => {
    const config = configOf(
      file.replace("http://localhost:8402", "https://api.shop.example") + HOSTS,
    );
    const engines = new Map(config.upstreams.map(({ name }) => [name, new SilentEngine()]));
    const ground = { feePayers: NO_FEE_PAYERS, drafts: NO_DRAFTS, earlier: [] };
    const told = { ...ground, metrics: new Metrics("test"), publish: () => Object({}) };
    const { hosts = [] } = atOnce(siteSteps(config, engines, told));
    return new HostTable(hosts).of(host)?.snapshot.site;
  };

  test.each([
    ["api.shop.example", ""],
    ["API.shop.example.:443", ""],
    ["dear.shop.example", "dear.shop.example"],
    ["one.shop.example", "*.shop.example"],
    ["elsewhere.example", undefined],
  ])("of %s is its own, also below a wildcard", (host, site) => {
    expect(siteAt(FILE, host)).toBe(site);
  });

  test("is a wildcard's where the file sells nothing itself", () => {
    const file = FILE.slice(0, FILE.indexOf("routes:"));
    expect(siteAt(file, "api.shop.example")).toBe("*.shop.example");
  });
});
