/**
 * What the gateway under attack sells: one table of routes that becomes its configuration, and by which
 * the oracle judges what its backend was asked for. Nothing of the product's own matching is used here.
 */

export interface ShopRoute {
  /** Null: every method that no other key of the pattern lists. */
  readonly methods: readonly string[] | null;
  /** Canonical spelling; `:name` is one segment, `*` the rest. */
  readonly pattern: string;
  readonly action: "free" | "deny" | `$${string}`;
}

/** What happens to requests that no route matches. */
export type Unmatched = "deny" | "free";

/**
 * The gateways under attack. Each case runs before the first two, which differ in what happens to requests
 * that no route matches, unless it is made for one: `secure` speaks TLS, with HTTP/2; `trusting` takes our word
 * for where a request comes from, and has short limits; `rewriting` gives its backend other paths and lines.
 */
export type Gateway = Unmatched | "secure" | "trusting" | "rewriting";

export const unmatchedOf = (gateway: Gateway): Unmatched => (gateway === "free" ? "free" : "deny");

/** The host that the gateway serves: absolute-form targets name it. */
export const AUTHORITY = "shop.example";
export const PUBLIC_URL = `http://${AUTHORITY}`;

/** Largest request head of the gateway under attack, bytes. */
const HEAD_LIMIT_BYTES = 32 * 1024;
/** Largest request body of the gateway under attack, bytes. */
const BODY_LIMIT_BYTES = 128 * 1024;

const KEYS: Readonly<Record<string, ShopRoute["action"]>> = {
  "GET /paid": "$0.01",
  "GET /paid/deep/page": "$0.01",
  "/vault": "$0.05",
  "GET /reports/:id": "$0.25",
  "GET /reports/latest": "free",
  "GET /articles/*": "$0.10",
  "GET /items/:id": "$0.01",
  "GET /items/gold": "$5",
  "GET /users/:name/photo": "$0.02",
  "GET /caf%C3%A9": "$0.03",
  "GET /@me": "$0.04",
  "GET /files/report.pdf": "$0.07",
  "GET /classes": "$0.08",
  "GET /chat": "$0.02",
  "GET /mixed": "$0.06",
  "POST /mixed": "free",
  "POST /upload": "$0.02",
  "GET /store/:shelf/prices": "$0.03",
  "/admin/*": "deny",
  "GET /health": "free",
  "/free/*": "free",
  "GET /open/:name/page": "free",
  "GET /store/:shelf/map": "free",
};

export const SHOP: readonly ShopRoute[] = Object.entries(KEYS).map(([key, action]) => {
  const [methods, pattern] = key.includes(" ") ? key.split(" ") : [undefined, key];
  return { methods: methods?.split(",") ?? null, pattern: pattern ?? "", action };
});

/** What each path at the backend begins with. */
export const prefixOf = (gateway: Gateway): string => (gateway === "rewriting" ? "/base" : "");

/** What is sold, as the backend knows it. */
export function shopBehind(gateway: Gateway): readonly ShopRoute[] {
  const prefix = prefixOf(gateway);
  return SHOP.map((route) => ({ ...route, pattern: prefix + route.pattern }));
}

export interface ShopPlaces {
  readonly upstream: string;
  readonly rpc: string;
  readonly network: string;
  readonly payee: string;
  readonly gateway: Gateway;
}

/** What is short, so that a case need not wait long. */
const SHORT_LIMITS: Readonly<Record<Gateway, string>> = {
  deny: "",
  free: "",
  secure: ", bodyIdle: 1s",
  rewriting: "",
  trusting:
    ", unpaidPerIp: 5/m, bodyIdle: 1s, bodyTimeout: 3s, tunnels: 2, tunnelIdle: 1s, tunnelLife: 3s",
};

/** The configuration without listeners, public URL and store. The signer's key is in SIGNER. */
export function shopYaml({ upstream, rpc, network, payee, gateway }: ShopPlaces): string {
  const unmatched = unmatchedOf(gateway);
  const isTrusting = gateway === "trusting";
  const lines = Object.entries(KEYS).map(([key, action]) =>
    action.startsWith("$")
      ? `  ${key}: { price: ${action}, description: Goods, mimeType: text/plain }`
      : `  ${key}: ${action}`,
  );
  return `
${gateway === "rewriting" ? rewriting(upstream) : `upstream: ${upstream}`}
payTo: "${payee}"
accept: [${network}]
facilitator:
  embedded:
    networks:
      ${network}: { rpc: ["${rpc}"], signers: [env:SIGNER] }
unmatched: ${unmatched}
# Preflight requests: answered here before the one gateway, the backend's to answer before the other.
cors: ${unmatched === "free"}
discovery: { wellKnown: true, openapi: true, llms: true }
limits: { header: ${HEAD_LIMIT_BYTES}B, body: ${BODY_LIMIT_BYTES}B, inFlight: 200${SHORT_LIMITS[gateway]} }
trustedProxies: [${isTrusting ? "127.0.0.0/8, 10.0.0.0/8" : ""}]
shutdown: 1s
logging: { level: debug }
routes:
${lines.join("\n")}
`;
}

/** Everything that a configuration may change about a request. */
const rewriting = (upstream: string): string => `upstreams:
  default:
    targets: [${upstream}]
    path: { prefix: ${prefixOf("rewriting")} }
    host: preserve
    headers: { set: { X-Api-Key: of-the-gateway }, remove: [X-Internal] }`;
