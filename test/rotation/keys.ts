/** Every key of the configuration that a reload may change, and a file in which it says something else. */
import type { File, Names } from "./stage.ts";
import { TOOL_CHANGES } from "./tool-keys.ts";

export const PAID = "GET /paid";
const NETWORK = "base-sepolia";
/** A token that members may hold; nobody asks it here. */
const HELD = "0x857b06519E91e3A54538791bDbb0E22373e36b66";

/** What runs between two changes: with everything in it that a change may need. */
export function baseFile(names: Names): File {
  const { backends, folder, payees, solanaPayees, rpc, solanaRpc } = names;
  return {
    listen: "127.0.0.1:0",
    publicUrl: "http://localhost:8402",
    admin: "127.0.0.1:0",
    store: `sqlite:${folder}/ledger.db`,
    logging: { level: "silent", format: "json" },
    upstreams: {
      default: { targets: [backends[0]], path: { strip: "/" } },
      other: { targets: [{ url: backends[1], weight: 1 }] },
    },
    payTo: { evm: payees[0], solana: solanaPayees[0] },
    accept: [NETWORK, "solana-devnet"],
    facilitator: {
      listen: "127.0.0.1:0",
      auth: { bearer: "first", gateways: { shop: { bearer: "shop-one" } } },
      embedded: {
        networks: {
          [NETWORK]: { rpc: [rpc], signers: ["env:ONE"] },
          "solana-devnet": { rpc: [solanaRpc], signers: ["env:SOLANA_ONE"] },
        },
        allow: { payTo: [payees[1]] },
      },
    },
    unmatched: "deny",
    routes: {
      [PAID]: { price: "$0.01", description: "What everybody buys" },
      "POST /note": { price: "$0.02", description: "A note", input: { bodyType: "json" } },
      "GET /free": "free",
    },
  };
}

/** The keys of a file, and what is written there in place of what is. */
type Written = readonly (readonly [path: readonly (string | number)[], value: unknown])[];

export interface KeyChange {
  /** As in the schema: `NAME` is any name, `[]` each of a list. */
  readonly key: string;
  readonly written: (names: Names) => Written;
}

export function changedFile(names: Names, { written }: KeyChange): File {
  const file = structuredClone(baseFile(names));
  for (const [path, value] of written(names)) write(file, path, value);
  return file;
}

function write(file: File, path: readonly (string | number)[], value: unknown): void {
  let at: Record<string | number, unknown> = file;
  for (const step of path.slice(0, -1)) {
    const below = Object(at[step] ?? {});
    at[step] = below;
    at = below;
  }
  const last = path.at(-1) ?? "";
  if (value === undefined) delete at[last];
  else at[last] = value;
}

function only(key: string, path: readonly (string | number)[], value: unknown): KeyChange {
  return { key, written: () => [[path, value]] };
}

function named(key: string, written: (names: Names) => Written): KeyChange {
  return { key, written };
}

const EVM = ["facilitator", "embedded", "networks", NETWORK] as const;
const SOLANA = ["facilitator", "embedded", "networks", "solana-devnet"] as const;
const HERE = ["facilitator", "embedded"] as const;

/** Nothing is settled here any more: everything by somebody else. */
function elsewhere(names: Names, remote: object = {}): Written {
  return [
    [["facilitator", "embedded"], undefined],
    [["accept"], [NETWORK]],
    [["payTo"], names.payees[0]],
    [["facilitator", "remote"], [{ url: names.facilitator, ...remote }]],
    [["facilitator", "rpc"], { [NETWORK]: [names.rpc] }],
  ];
}

const LIMITS: Readonly<Record<string, unknown>> = {
  body: "5MiB",
  inFlight: 4_000,
  connections: 9_000,
  settlementWait: "25s",
  unpaidPerIp: "100000/m",
  unprovenPerIp: "240/m",
  bodyTimeout: "4m",
  bodyIdle: "20s",
  bodyRate: "256B/s",
  answerIdle: "50s",
  answerRate: "256B/s",
  tunnels: 900,
  tunnelIdle: "1h",
  tunnelLife: "12h",
  perPayer: "$100000/h",
  sales: "$1000000/h",
};

const ROUTE: Readonly<Record<string, unknown>> = {
  description: "What everybody still buys",
  mimeType: "text/plain",
  maxTimeoutSeconds: 90,
  outputSchema: { type: "string" },
  metadata: { category: "goods" },
  discoverable: false,
  memo: "book 7",
  cacheControl: "private, max-age=60",
  paymentIdentifier: "optional",
  redirects: "follow",
  goods: [404],
  grants: { for: "24h", times: 100 },
  free: "100/d by payer",
  checkInput: false,
  settle: "after",
  upstream: "other",
};

const INPUT: Readonly<Record<string, unknown>> = {
  queryParams: { city: { type: "string" } },
  bodyType: "text",
  bodyFields: { title: { type: "string" } },
  headerFields: { "X-City": { type: "string" } },
};

/** Of a command that nobody asks: no process is begun. */
const COMMAND: Readonly<Record<string, unknown>> = {
  run: ["/nowhere/other-server"],
  env: { STEP: "two" },
  cwd: "/srv",
  processes: 8,
  perClient: 2,
  idle: "5m",
  life: "6h",
  message: "1MiB",
  memory: "256MiB",
};

const WEBHOOK = { url: "http://127.0.0.1:9/hooks", secrets: "env:WEBHOOK_SECRET" };

const TOKEN = {
  DUSD: {
    [NETWORK]: {
      address: "0x808456652fdb597867f38412077A9182bf77359F",
      decimals: 6,
      eip712: { name: "Euro", version: "2" },
    },
  },
};

/**
 * Keys that a reload changes and that are not here: they want files, another server's certificate, a token on the chain
 * or a key of Coinbase's; `upstream.command` is that of `upstreams`, and whoever buys meanwhile would get nothing of it.
 */
export const LEFT_OUT: readonly string[] = [
  "facilitator.auth.gateways.NAME.urls",
  "facilitator.embedded.allow.assets",
  "facilitator.remote[].auth.cdp.keyId",
  "facilitator.remote[].auth.cdp.keySecret",
  "payers.allow",
  ...Object.keys(COMMAND).map((key) => `upstream.command.${key}`),
  "upstreams.NAME.tls.ca",
  "upstreams.NAME.tls.cert",
  "upstreams.NAME.tls.key",
  "upstreams.NAME.tls.serverName",
];

/** Of a host of the file, beside routes. */
const HOST: Readonly<Record<string, unknown>> = {
  publicUrl: "http://shop.localhost:8404",
  upstream: "other",
  routes: { "GET /elsewhere": "$0.02", "GET /free": "free" },
  unmatched: "free",
  payTo: { evm: "0x209693Bc6afc0C5328bA36FaF03C514EF312287C" },
  accept: [NETWORK],
  mode: "shadow",
  support: "shop@example.com",
  discovery: { llms: true },
  paywall: { brand: "Shop" },
  cors: true,
  mcp: true,
  passes: { day: { price: "$1", routes: ["GET /there"], for: "24h" } },
};

/** All that the schema has, but for {@link LEFT_OUT} and what wants a restart. */
export const KEY_CHANGES: readonly KeyChange[] = [
  only("include", ["include"], "more.yaml"),
  only("publicUrl", ["publicUrl"], "http://127.0.0.1:8402"),
  only("hosts", ["hosts"], ["gateway"]),
  ...Object.entries(HOST).map(([key, value]) =>
    only(`hosts.NAME.${key}`, ["hosts"], {
      "shop.localhost": { routes: { "GET /there": "$0.01" }, [key]: value },
    }),
  ),
  only("trustedProxies", ["trustedProxies"], ["10.0.0.0/8"]),
  ...Object.entries(LIMITS).map(([key, value]) => only(`limits.${key}`, ["limits", key], value)),
  only("shutdown.within", ["shutdown"], { within: "20s" }),
  only("shutdown.delay", ["shutdown"], { delay: "1s" }),
  only("watch", ["watch"], false),
  named("upstream", ({ backends }) => [
    [["upstreams"], undefined],
    [["upstream"], backends[1]],
  ]),
  named("upstreams", ({ backends }) => [[["upstreams", "third"], { targets: [backends[0]] }]]),
  named("upstreams.NAME.targets[].url", ({ backends }) => [
    [["upstreams", "default", "targets"], [backends[1]]],
  ]),
  named("upstreams.NAME.targets[].weight", ({ backends }) => [
    [["upstreams", "default", "targets"], backends.map((url, at) => ({ url, weight: at + 1 }))],
  ]),
  named("upstreams.NAME.balance", ({ backends }) => [
    [["upstreams", "default", "targets"], [...backends]],
    [["upstreams", "default", "balance"], "least-requests"],
  ]),
  ...Object.entries({ path: "/health", interval: "5s", timeout: "1s", up: 1, down: 4 }).map(
    ([key, value]) =>
      only(`upstreams.NAME.health.${key}`, ["upstreams", "default", "health"], {
        path: "/healthz",
        [key]: value,
      }),
  ),
  ...Object.entries({ connect: "4s", response: "50s", idle: "40s" }).map(([key, value]) =>
    only(`upstreams.NAME.timeouts.${key}`, ["upstreams", "default", "timeouts", key], value),
  ),
  ...Object.entries({ attempts: 3, methods: ["GET"], on: ["connect-failure"] }).map(
    ([key, value]) =>
      only(`upstreams.NAME.retry.${key}`, ["upstreams", "default", "retry"], {
        attempts: 2,
        [key]: value,
      }),
  ),
  ...Object.entries({ allow: ["X-City"], remove: ["X-Old"], set: { "X-New": "1" } }).map(
    ([key, value]) =>
      only(`upstreams.NAME.headers.${key}`, ["upstreams", "default", "headers", key], value),
  ),
  only("upstreams.NAME.host", ["upstreams", "default", "host"], "preserve"),
  only("upstreams.NAME.path.prefix", ["upstreams", "default", "path"], { prefix: "/paid" }),
  only("upstreams.NAME.path.strip", ["upstreams", "default", "path"], undefined),
  ...Object.entries(COMMAND).map(([key, value]) =>
    only(`upstreams.NAME.command.${key}`, ["upstreams", "other"], {
      command: { run: ["/nowhere/server"], [key]: value },
    }),
  ),
  only("upstreams.NAME.command", ["upstreams", "other"], { command: ["/nowhere/server"] }),
  only("upstreams.NAME.protocol", ["upstreams", "default", "protocol"], "h1"),
  only("headers.allow", ["headers"], { allow: ["X-City"] }),
  named("payTo.evm", ({ payees }) => [[["payTo", "evm"], payees[1]]]),
  named("payTo.solana", ({ solanaPayees }) => [[["payTo", "solana"], solanaPayees[1]]]),
  only("accept", ["accept"], ["solana-devnet", NETWORK]),
  ...["network", "testnet"].map((key) =>
    only(`accept[].${key}`, ["accept"], [{ network: NETWORK, testnet: true }, "solana-devnet"]),
  ),
  ...["asset", "amount"].map((key) =>
    only(
      `accept[].${key}`,
      ["accept"],
      [NETWORK, { network: "solana-devnet", asset: "USDC", amount: "7000" }],
    ),
  ),
  ...[
    "",
    ".NAME.NAME.address",
    ".NAME.NAME.decimals",
    ".NAME.NAME.eip712.name",
    ".NAME.NAME.eip712.version",
  ].map((key) => only(`assets${key}`, ["assets"], TOKEN)),
  only("facilitator.auth.bearer", ["facilitator", "auth", "bearer"], "second"),
  ...["", ".NAME.bearer"].map((key) =>
    only(`facilitator.auth.gateways${key}`, ["facilitator", "auth", "gateways"], {
      shop: { bearer: "shop-two" },
      other: { bearer: "other" },
    }),
  ),
  named("facilitator.embedded.networks", () => [
    [[...HERE, "networks", "solana-devnet"], undefined],
    [["accept"], [NETWORK]],
    [["payTo", "solana"], undefined],
  ]),
  named("facilitator.embedded.networks.NAME.rpc", ({ otherRpc }) => [
    [[...EVM, "rpc"], [otherRpc]],
  ]),
  only("facilitator.embedded.networks.NAME.signers", [...EVM, "signers"], ["env:TWO"]),
  only("facilitator.embedded.networks.NAME.signers", [...EVM, "signers"], ["env:ONE", "env:TWO"]),
  only("facilitator.embedded.networks.NAME.signers", [...SOLANA, "signers"], ["env:SOLANA_TWO"]),
  only("facilitator.embedded.networks.NAME.confirmations", [...EVM, "confirmations"], 2),
  only("facilitator.embedded.networks.NAME.smartWallets", [...EVM, "smartWallets"], "deny"),
  only("facilitator.embedded.networks.NAME.nativePrice", [...EVM, "nativePrice"], "$3000"),
  only("facilitator.embedded.networks.NAME.commitment", [...SOLANA, "commitment"], "finalized"),
  only("facilitator.embedded.networks.NAME.lighthouse", [...SOLANA, "lighthouse"], "deny"),
  only(
    "facilitator.embedded.networks.NAME.lighthouseLossPerHour",
    [...SOLANA, "lighthouseLossPerHour"],
    400_000,
  ),
  only("facilitator.embedded.networks.NAME.maxFeeLamports", [...SOLANA, "maxFeeLamports"], 90_000),
  named("facilitator.embedded.allow.payTo", ({ payees }) => [
    [[...HERE, "allow", "payTo"], [payees[0]]],
  ]),
  only("facilitator.embedded.allow.minAmount", [...HERE, "allow", "minAmount"], "$0.001"),
  named("facilitator.remote[].url", (names) => elsewhere(names)),
  named("facilitator.rpc", (names) => elsewhere(names)),
  named("facilitator.remote[].confirm", (names) => elsewhere(names, { confirm: "receipt" })),
  named("facilitator.remote[].timeout", (names) => elsewhere(names, { timeout: "9s" })),
  named("facilitator.remote[].headers", (names) => elsewhere(names, { headers: { "X-Key": "1" } })),
  only("routes", ["routes", "GET /more"], "$0.03"),
  only("routes.NAME.price", ["routes", PAID, "price"], "$0.02"),
  ...["amount", "asset"].map((key) =>
    only(`routes.NAME.price.${key}`, ["routes", PAID, "price"], { amount: "7000", asset: "USDC" }),
  ),
  ...["by", "from", "to"].map((key) =>
    only(`routes.NAME.price.${key}`, ["routes", PAID, "price"], {
      by: '"n" in query ? 9000 : 8000',
      from: "$0.008",
      to: "$0.009",
    }),
  ),
  ...["meter", "meter.of", "meter.each", "meter.max"].map((key) =>
    named(`routes.NAME.${key}`, () => [
      [["credits"], { packs: ["$1"] }],
      [["routes", PAID], { meter: { of: 'header("X-Usage")', each: "$0.000002", max: "$0.009" } }],
    ]),
  ),
  ...Object.entries(ROUTE).map(([key, value]) =>
    only(`routes.NAME.${key}`, ["routes", PAID, key], value),
  ),
  ...["network", "testnet"].map((key) =>
    only(
      `routes.NAME.accept[].${key}`,
      ["routes", PAID, "accept"],
      [{ network: NETWORK, testnet: true }],
    ),
  ),
  ...["asset", "amount"].map((key) =>
    only(
      `routes.NAME.accept[].${key}`,
      ["routes", PAID, "accept"],
      [{ network: NETWORK, asset: "USDC", amount: "9000" }],
    ),
  ),
  named("routes.NAME.payTo.evm", ({ payees }) => [[["routes", PAID, "payTo"], { evm: payees[1] }]]),
  named("routes.NAME.payTo.solana", ({ solanaPayees }) => [
    [["routes", PAID, "payTo"], { solana: solanaPayees[1] }],
  ]),
  ...Object.entries({ for: "5m", times: 5 }).map(([key, value]) =>
    only(`routes.NAME.repeat.${key}`, ["routes", PAID, "repeat"], { for: "8m", [key]: value }),
  ),
  ...TOOL_CHANGES,
  ...Object.entries(INPUT).map(([key, value]) =>
    only(`routes.NAME.input.${key}`, ["routes", "POST /note", "input", key], value),
  ),
  only("routes.NAME.input.pathParams", ["routes", "GET /notes/:id"], {
    price: "$0.01",
    input: { pathParams: { id: { type: "string" } } },
  }),
  ...["members", "routes.NAME.prices"].map((key) =>
    named(key, ({ payees }) => [
      [["members"], { partners: payees[1] }],
      [["routes", PAID, "prices"], { partners: "$0.005" }],
    ]),
  ),
  ...Object.entries({
    token: { token: HELD, decimals: 18 },
    network: { network: NETWORK },
    atLeast: { atLeast: 2.5 },
    decimals: { decimals: 6 },
    for: { for: "10m" },
  }).map(([key, value]) =>
    named(`members.NAME.${key}`, () => [
      [["members"], { rich: { token: "USDC", network: NETWORK, ...value } }],
      [["routes", PAID, "prices"], { rich: "free" }],
    ]),
  ),
  ...["amount", "asset"].map((key) =>
    named(`routes.NAME.prices.NAME.${key}`, ({ payees }) => [
      [["members"], { partners: payees[1] }],
      [["routes", PAID, "prices"], { partners: { amount: "7000", asset: "USDC" } }],
    ]),
  ),
  only("sessions.for", ["sessions"], { for: "2h" }),
  only("sessions.notBefore", ["sessions"], { notBefore: "2026-01-31T12:00:00Z" }),
  ...Object.entries({
    price: { price: "$3" },
    routes: { routes: [PAID] },
    for: { for: "2h" },
    times: { times: 20 },
    description: { description: "All of it" },
  }).map(([key, value]) =>
    only(`passes.NAME.${key}`, ["passes"], {
      day: { price: "$2", routes: [PAID], for: "1h", ...value },
    }),
  ),
  ...["for", "times"].map((key) =>
    only(`routes.NAME.grants.${key}`, ["routes", PAID, "grants"], { for: "2h", times: 7 }),
  ),
  ...["requests", "by"].map((key) =>
    only(`routes.NAME.free.${key}`, ["routes", PAID, "free"], { requests: "7/d", by: "payer" }),
  ),
  named("routes.NAME.credits", () => [
    [["credits"], { packs: ["$1"] }],
    [["routes", PAID, "credits"], true],
  ]),
  only("credits.packs", ["credits"], { packs: ["$1", "$5"] }),
  only("credits.atRisk", ["credits"], { packs: ["$1"], atRisk: "$2" }),
  named("limits.gas", () => [
    [["limits", "gas"], "$100000/h"],
    [[...EVM, "nativePrice"], "$2500"],
    [[...SOLANA, "nativePrice"], "$150"],
  ]),
  only("payers.deny", ["payers", "deny"], "denied.txt"),
  ...Object.entries({
    url: "http://127.0.0.1:9/others",
    secrets: ["env:OTHER_WEBHOOK_SECRET", "env:WEBHOOK_SECRET"],
    events: ["payment.sold"],
  }).map(([key, value]) =>
    only(`webhooks.NAME.${key}`, ["webhooks", "shop"], { ...WEBHOOK, [key]: value }),
  ),
  only("metrics.routeHistograms", ["metrics", "routeHistograms"], false),
  only("mode", ["mode"], "sell"),
  only("routes.NAME.mode", ["routes", "GET /free"], { price: "$0.01", mode: "shadow" }),
  named("unmatched", () => [[["unmatched"], "free"]]),
  only("support", ["support"], "help@example.com"),
  only("discovery.contact", ["discovery", "contact"], "help@example.com"),
  ...["listed", "llms", "quality", "wellKnown"].map((key) =>
    only(`discovery.${key}`, ["discovery", key], false),
  ),
  only("discovery.openapi.from", ["discovery", "openapi"], { from: "described.json" }),
  named("discovery.facilitator", ({ facilitator }) => [
    [["discovery", "facilitator"], facilitator],
  ]),
  only("discovery.page", ["discovery", "page"], "/catalogue"),
  only("paywall.brand", ["paywall", "brand"], "A shop"),
  only("paywall.page", ["paywall", "page"], false),
  only("logging.level", ["logging", "level"], "fatal"),
  only("mcp", ["mcp"], true),
  only("mcp.path", ["mcp"], { path: "/tools" }),
  only("cors.origins", ["cors"], { origins: ["https://app.example.com"] }),
  only("protocol.v1", ["protocol"], { v1: false }),
  only("protocol.v2", ["protocol"], { v2: false }),
  ...Object.entries({ for: "5m", times: 5 }).map(([key, value]) =>
    only(`repeat.${key}`, ["repeat"], { for: "8m", [key]: value }),
  ),
  only("paymentIdentifier", ["paymentIdentifier"], "optional"),
];
