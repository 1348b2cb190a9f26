import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inspect } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { loadConfig, parseConfig } from "../../../src/config/config.ts";
import { documentSchema } from "../../../src/config/document.ts";
import {
  environment,
  FILE_KEY,
  GATEWAY,
  KEY,
  OTHER_PAYEE,
  parse,
  PAYEE,
  ROUTES,
} from "./fixture.ts";

describe("a configuration", () => {
  test("is complete: what is not written has its default", () => {
    const config = parse(GATEWAY + ROUTES);

    expect(config).toMatchObject({
      file: "/etc/coinslot/gateway.yaml",
      included: [],
      listen: [{ host: null, port: 8402, tls: null, redirect: false }],
      acme: null,
      publicUrl: "http://localhost:8402",
      limits: {
        headerBytes: 32_768,
        bodyBytes: 10_485_760,
        inFlight: null,
        settlementWaitMs: 30_000,
        unpaidPerIp: null,
        unprovenPerIp: { requests: 120, perMs: 60_000 },
        bodyTimeoutMs: 300_000,
        bodyIdleMs: 15_000,
        bodyBytesPerSecond: 512,
        answerIdleMs: 60_000,
        answerBytesPerSecond: 512,
        tunnels: 1000,
        tunnelIdleMs: 7_200_000,
        tunnelLifeMs: 86_400_000,
        payerPerHour: null,
        salesPerHour: null,
        gasPerHour: null,
      },
      trustedProxies: [],
      shutdown: { withinMs: 30_000, delayMs: 0 },
      admin: null,
      upstreams: [
        {
          name: "default",
          targets: [{ url: "http://localhost:3000", weight: 1 }],
          balance: "round-robin",
          health: null,
          connectTimeoutMs: 2000,
          responseTimeoutMs: 30_000,
          idleTimeoutMs: 60_000,
          retry: {
            attempts: 2,
            methods: ["GET", "HEAD", "OPTIONS"],
            on: ["connect-failure", "connection-lost"],
          },
          tls: { ca: null, serverName: null, cert: null, key: null },
          protocol: "h1",
          host: { kind: "upstream" },
          path: { strip: "", prefix: "" },
          headers: { set: [], remove: [], allow: null },
        },
      ],
      facilitator: {
        listen: null,
        basePath: "",
        bearer: null,
        gateways: [],
        catalogue: { expiresMs: 2_592_000_000, maxResources: 1_000, isPublic: false },
        embedded: [],
        payees: [PAYEE],
        remote: [{ url: "https://facilitator.example.com", headers: [], timeoutMs: 10_000 }],
      },
      unmatched: "deny",
      defaultUpstream: null,
      discovery: {
        listed: true,
        wellKnown: false,
        openapi: "off",
        llms: false,
        facilitator: null,
      },
      support: null,
      paywall: { page: true, brand: "" },
      credits: null,
      passes: [],
      store: { kind: "sqlite", path: "/etc/coinslot/data/coinslot.db" },
      logging: { level: "info", format: "json", access: null },
      metrics: { routeHistograms: true },
      cors: "off",
      mcp: null,
    });
    expect(config.routes).toEqual([
      {
        key: "GET /weather",
        file: "/etc/coinslot/gateway.yaml",
        line: 10,
        methods: ["GET"],
        pattern: "/weather",
        segments: [{ kind: "static", text: "weather" }],
        action: {
          kind: "priced",
          computed: null,
          metered: null,
          upstream: "default",
          offers: [
            {
              network: "base-sepolia",
              asset: {
                symbol: "USDC",
                address: "0x036CbD53842c5426634e7929541eC2318f3dCF7e",
                decimals: 6,
                eip712: { name: "USDC", version: "2" },
              },
              payTo: PAYEE,
              amountAtomic: 10_000n,
              dollars: "$0.01",
            },
          ],
          description: "",
          mimeType: "",
          prices: [],
          maxTimeoutSeconds: 60,
          outputSchema: null,
          input: {},
          metadata: {},
          discoverable: true,
          memo: null,
          cacheControl: "private, no-store",
          paymentIdentifier: "off",
          repeat: { forMs: 600_000, times: 10 },
          grants: null,
          quota: null,
          redirects: "pass",
          settle: "before",
          credits: false,
          goods: [],
          checkInput: true,
        },
      },
    ]);
  });

  test("is frozen in every part", () => {
    const unfrozen: string[] = [];
    const visit = (value: unknown, path: string): void => {
      if (typeof value !== "object" || value === null) return;
      if (!Object.isFrozen(value)) unfrozen.push(path);
      for (const [key, child] of Object.entries(value)) visit(child, `${path}.${key}`);
    };

    visit(parse(GATEWAY + ROUTES), "config");

    expect(unfrozen).toEqual([]);
  });

  test("gives durations in milliseconds and sizes in bytes", () => {
    const config = parse(`${GATEWAY}${ROUTES}
shutdown: 1h
limits: { header: 8KiB, body: 512B, settlementWait: 500ms }
`);

    expect(config.shutdown.withinMs).toBe(3_600_000);
    expect(config.limits).toMatchObject({
      headerBytes: 8192,
      bodyBytes: 512,
      settlementWaitMs: 500,
    });
  });

  test.each([
    [":8402", { host: null, port: 8402 }],
    ["8402", { host: null, port: 8402 }],
    ["127.0.0.1:0", { host: "127.0.0.1", port: 0 }],
    ['"[::1]:8402"', { host: "::1", port: 8402 }],
    ["{ address: localhost:80 }", { host: "localhost", port: 80 }],
    ["[{ address: localhost:80 }]", { host: "localhost", port: 80 }],
  ])("listens on %s", (written, address) => {
    expect(parse(`${GATEWAY}${ROUTES}listen: ${written}`).listen).toEqual([
      { ...address, tls: null, redirect: false },
    ]);
  });

  test("asks an authority for the names of the file, by what its listeners can answer", () => {
    const asking = (more: string, beside: string): unknown => {
      const listen = `listen: [{ address: ":443", tls: { acme: { agreeToTerms: true${more} } } }${beside}]`;
      const text = GATEWAY.replace("http://localhost:8402", "https://API.coinslot.dev/x");
      const hosts = 'hosts: [www.coinslot.dev, "*.coinslot.dev", api.coinslot.dev]';
      return parse(`${text}${ROUTES}${listen}\n${hosts}`).acme;
    };
    const standard = {
      directory: "https://acme-v02.api.letsencrypt.org/directory",
      ca: null,
      email: null,
      domains: ["api.coinslot.dev", "www.coinslot.dev"],
      challenges: ["tls-alpn-01"],
    };
    expect(asking("", "")).toEqual(standard);
    const both = { ...standard, challenges: ["http-01", "tls-alpn-01"] };
    expect(asking("", ', ":80"')).toEqual(both);
    expect(asking(", directory: staging, challenge: both", ', ":80"')).toEqual({
      ...both,
      directory: "https://acme-staging-v02.api.letsencrypt.org/directory",
    });
  });

  test("trims the slash at the end of publicUrl and keeps a path", () => {
    const text = GATEWAY.replace("http://localhost:8402", "https://example.com/api/");

    expect(parse(text + ROUTES).publicUrl).toBe("https://example.com/api");
  });

  test("reads mcp as a path, the usual one, or none, of the file and of each host", () => {
    expect(parse(`${GATEWAY}${ROUTES}mcp: false`).mcp).toBeNull();
    expect(parse(`${GATEWAY}${ROUTES}mcp: true`).mcp).toEqual({ path: "/mcp" });
    expect(parse(`${GATEWAY}${ROUTES}mcp: {}`).mcp).toEqual({ path: "/mcp" });
    const hosts =
      "{ a.example: { routes: { GET /a: free } }, b.example: { mcp: false, routes: { GET /b: free } } }";
    const { mcp, sites } = parse(`${GATEWAY}${ROUTES}mcp: { path: /tools/ }\nhosts: ${hosts}`);
    expect(mcp).toEqual({ path: "/tools" });
    expect(sites.map((site) => site.mcp)).toEqual([{ path: "/tools" }, null]);
  });

  test("reads cors as off, any or a list of origins", () => {
    expect(parse(`${GATEWAY}${ROUTES}cors: false`).cors).toBe("off");
    expect(parse(`${GATEWAY}${ROUTES}cors: true`).cors).toBe("any");
    const some = parse(`${GATEWAY}${ROUTES}cors: { origins: [https://a.example] }`);
    expect(some.cors).toEqual(["https://a.example"]);
  });

  test.each([
    ["support: https://example.com/help?x=1#mail", "https://example.com/help?x=1#mail"],
    ["support: help@example.com", "mailto:help@example.com"],
    ["support: hälp@example.com", "mailto:h%C3%A4lp@example.com"],
    ["support: 'https://example.com/<a>\"b'", "https://example.com/%3Ca%3E%22b"],
    ["discovery: { contact: api@example.com }", "mailto:api@example.com"],
    [
      "discovery: { contact: api@example.com }\nsupport: https://example.com",
      "https://example.com/",
    ],
  ])("tells where buyers are helped as a link: %s", (written, link) => {
    expect(parse(`${GATEWAY}${written}\n${ROUTES}`).support).toBe(link);
  });

  test("may be only a facilitator, open to every payee", () => {
    const config = parse(`
facilitator:
  listen: 127.0.0.1:4021
  basePath: /x402/
  auth: { bearer: "\${TOKEN}" }
  embedded:
    networks:
      base-sepolia: { rpc: ["http://127.0.0.1:8545/v2/key"], signers: [env:KEY, file:/run/secrets/key] }
      peaq: { rpc: ["http://127.0.0.1:8546"], signers: [env:KEY], confirmations: 3, smartWallets: deny }
      polygon: { rpc: ["http://127.0.0.1:8547"], signers: [env:KEY] }
`);

    expect(config.routes).toEqual([]);
    expect(config.publicUrl).toBeNull();
    const { listen, basePath, bearer, payees, embedded } = config.facilitator;
    expect({ listen, basePath, payees }).toEqual({
      listen: { host: "127.0.0.1", port: 4021, tls: null },
      basePath: "/x402",
      payees: "any",
    });
    expect(bearer?.reveal()).toBe("a-very-secret-token");
    const [sepolia, peaq, polygon] = embedded;
    expect(sepolia?.rpc.map(({ host, url }) => [host, url.reveal()])).toEqual([
      ["127.0.0.1:8545", "http://127.0.0.1:8545/v2/key"],
    ]);
    expect(sepolia?.signers.map(({ source, key }) => [source, key.reveal()])).toEqual([
      ["env:KEY", KEY],
      ["file:/run/secrets/key", `0x${FILE_KEY}`],
    ]);
    expect(sepolia?.assets.map((asset) => asset.symbol)).toEqual(["USDC"]);
    expect(peaq).toMatchObject({ kind: "evm", confirmations: 3, smartWallets: "deny" });
    expect(polygon).toMatchObject({ kind: "evm", confirmations: 2, smartWallets: "allow" });
  });

  test("restricts the embedded facilitator to our payees and those of `allow`", () => {
    const config = parse(`${GATEWAY.replace(/facilitator:.*/, "")}
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ["http://127.0.0.1:8545"], signers: [env:KEY] }
    allow: { payTo: ["${OTHER_PAYEE.toLowerCase()}"] }
${ROUTES}`);

    expect(config.facilitator.payees).toEqual([PAYEE, OTHER_PAYEE]);
  });

  test("settles the tokens of its routes and of `allow`, each once", () => {
    const config = parse(`${GATEWAY.replace(/facilitator:.*/, "")}
assets:
  AAA: { base-sepolia: { address: "0x${"a1".repeat(20)}", decimals: 2, eip712: { name: A, version: "1" } } }
  BBB: { base-sepolia: { address: "0x${"b2".repeat(20)}", decimals: 2, eip712: { name: B, version: "1" } } }
  CCC: { base-sepolia: { address: "0x${"c3".repeat(20)}", decimals: 2, eip712: { name: C, version: "1" } } }
facilitator:
  embedded:
    networks:
      base-sepolia: { rpc: ["http://127.0.0.1:8545"], signers: [env:KEY] }
    allow: { assets: [BBB, USDC] }
routes:
  GET /a: { accept: [{ network: base-sepolia, asset: AAA, amount: "1" }] }
`);

    const symbols = config.facilitator.embedded[0]?.assets.map((asset) => asset.symbol);
    expect(symbols).toEqual(["USDC", "AAA", "BBB"]);
  });
});

describe("a store in PostgreSQL", () => {
  const URL_TEXT = "postgres://coinslot:pass%40word@db.example.com:5433/payments?sslmode=require";

  test.each([
    ["as it is written", `store: ${URL_TEXT}`],
    ["from a variable", 'store: "${DATABASE_URL}"'],
    ["from a mounted secret", 'store: "${MOUNTED_URL}"'],
    [
      "with a password from a variable",
      "store: postgres://coinslot:${PASSWORD}@db.example.com:5433/payments?sslmode=require",
    ],
  ])("is read %s", (_, store) => {
    const env = {
      DATABASE_URL: URL_TEXT,
      PASSWORD: "pass%40word",
      MOUNTED_URL_FILE: "/run/secrets/database",
    };
    const readFile = (path: string): string => {
      expect(path).toBe("/run/secrets/database");
      return `${URL_TEXT}\n`;
    };

    const result = parseConfig(`${GATEWAY}${ROUTES}${store}`, { file: "x.yaml", env, readFile });

    if (!result.ok || result.config.store.kind !== "postgres") throw new Error(result.text);
    expect(result.config.store.url.reveal()).toBe(URL_TEXT);
    expect(result.config.store.place).toBe("db.example.com:5433/payments");
    expect(result.text).not.toContain("pass%40word");
    expect(inspect(result.config.store)).not.toContain("pass%40word");
    expect(JSON.stringify(result.config.store)).not.toContain("pass%40word");
  });
});

describe("the price of a network's currency", () => {
  test.each([
    ["", null],
    [", nativePrice: $3000", 3_000n * 10n ** 18n],
    [", nativePrice: $0.000001", 10n ** 12n],
    [`, nativePrice: "$${"9".repeat(50)}"`, (10n ** 50n - 1n) * 10n ** 18n],
  ])("is exact: %s", (written, attodollars) => {
    const { facilitator } = parse(`
facilitator:
  listen: 127.0.0.1:4021
  embedded:
    networks:
      base-sepolia: { rpc: ["http://127.0.0.1:8545"], signers: [env:KEY]${written} }
`);
    const [embedded] = facilitator.embedded;
    expect(embedded?.nativePriceAttodollars).toBe(attodollars);
  });
});

test("the shape of the language can be given to editors as a JSON Schema", () => {
  const schema = z.toJSONSchema(documentSchema, { io: "input" });

  expect(schema).toMatchObject({ type: "object", additionalProperties: false });
  expect(Object.keys(schema.properties ?? {})).toEqual(
    expect.arrayContaining(["listen", "publicUrl", "routes", "facilitator", "unmatched"]),
  );
});

describe("a file", () => {
  test("may have Windows line ends", () => {
    const text = `${GATEWAY}shutdwn: 1s${ROUTES}`.replaceAll("\n", "\r\n");

    const { problems } = parseConfig(text, { file: "x.yaml", ...environment });

    expect(problems[0]).toMatchObject({ code: "unknown-key", line: 8, column: 1, length: 7 });
  });

  test("is read, and paths in it are relative to its folder", async () => {
    const folder = mkdtempSync(join(tmpdir(), "coinslot-config-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const file = join(folder, "gateway.yaml");
    writeFileSync(file, `${GATEWAY}${ROUTES}store: sqlite:./x.db`);

    const loaded = await loadConfig(file, environment);

    const path = join(folder, "x.db");
    expect(loaded.ok && loaded.config.store).toEqual({ kind: "sqlite", path });
  });

  test("that is not there is a problem without a line", async () => {
    const loaded = await loadConfig("/nowhere/gateway.yaml", environment);

    expect(loaded.ok).toBe(false);
    expect(loaded.problems).toMatchObject([
      { severity: "error", code: "unreadable-file", line: 0, column: 0 },
    ]);
  });
});
