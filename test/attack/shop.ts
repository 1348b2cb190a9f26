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
 * for where a request comes from, has short limits, and sells nothing under another name; `rewriting` gives its backend other paths and lines;
 * `listed` speaks TLS, too, serves the hosts that are listed and hands on the names that are; `crowded` as well, with
 * few places and connections, takes our word for who asks. These two have a facilitator that others may call: that of
 * `listed` knows its callers by a token, that of `crowded` takes no small amounts.
 */
export type Gateway = Unmatched | "secure" | "trusting" | "rewriting" | "listed" | "crowded";

const SECURE: ReadonlySet<Gateway> = new Set<Gateway>(["secure", "listed", "crowded"]);

/** Whether clients speak TLS with it, and HTTP/2. */
export const isSecure = (gateway: Gateway): boolean => SECURE.has(gateway);

/** Whether it believes what `X-Forwarded-For` says. */
export const believesUs = (gateway: Gateway): boolean =>
  gateway === "trusting" || gateway === "crowded";

/** What callers of the facilitator of `listed` send as their token. */
export const CALLERS_TOKEN = "what-the-callers-of-this-facilitator-send";

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
  "/mcp": "free",
  "/free/*": "free",
  "GET /open/:name/page": "free",
  "GET /store/:shelf/map": "free",
};

/** What is free there is whatever is no call of a tool that costs something; a sidecar is shown no body. */
const TOOLS_PATH = "/mcp";
const TOOLS_YAML =
  '{ tools: { quote: { price: $0.01, description: Goods }, echo: free, "admin_*": deny, "*": free } }';

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
  /** Null: another proxy forwards the requests. */
  readonly upstream: string | null;
  readonly rpc: string;
  readonly network: string;
  readonly payee: string;
  readonly gateway: Gateway;
  /** Where its facilitator listens, if anywhere. */
  readonly facilitatorPort: number;
}

/** What is short, so that a case need not wait long. */
const SHORT_LIMITS: Readonly<Record<Gateway, string>> = {
  deny: "",
  free: "",
  secure: ", bodyIdle: 1s",
  rewriting: "",
  listed: "",
  crowded: ", connections: 8, unprovenPerIp: 3/m",
  trusting:
    ", unpaidPerIp: 5/m, bodyIdle: 1s, bodyTimeout: 3s, tunnels: 2, tunnelIdle: 1s, tunnelLife: 3s",
};

/** The configuration without listeners, public URL and store. The signer's key is in SIGNER. */
export function shopYaml(places: ShopPlaces): string {
  const { upstream, rpc, network, payee, gateway } = places;
  const unmatched = unmatchedOf(gateway);
  const inFlight = gateway === "crowded" ? 10 : 200;
  const keys = Object.entries(KEYS).filter(([key]) => upstream !== null || key !== TOOLS_PATH);
  const lines = keys.map(([key, action]) =>
    key === TOOLS_PATH
      ? `  ${key}: ${TOOLS_YAML}`
      : action.startsWith("$")
        ? `  ${key}: { price: ${action}, description: Goods, mimeType: text/plain }`
        : `  ${key}: ${action}`,
  );
  return `
${upstreamYaml(upstream, gateway)}
payTo: "${payee}"
accept: [${network}]
facilitator:
${facilitatorYaml(places)}
  embedded:
    networks:
      ${network}: { rpc: ["${rpc}"], signers: [env:SIGNER] }
    allow: { minAmount: ${gateway === "crowded" ? "$0.001" : "$0.000001"} }
unmatched: ${unmatched}
# Preflight requests: answered here before the one gateway, the backend's to answer before the other.
cors: ${unmatched === "free"}
discovery: { wellKnown: true, openapi: true, llms: true }
limits: { header: ${HEAD_LIMIT_BYTES}B${upstream === null ? "" : `, body: ${BODY_LIMIT_BYTES}B`}, inFlight: ${inFlight}${SHORT_LIMITS[gateway]} }
trustedProxies: [${believesUs(gateway) ? "127.0.0.0/8, 10.0.0.0/8" : ""}]
${hostsYaml(gateway)}
shutdown: 1s
logging: { level: debug }
routes:
${lines.join("\n")}
`;
}

function upstreamYaml(upstream: string | null, gateway: Gateway): string {
  if (upstream === null) return "";
  if (gateway === "listed") return listing(upstream);
  return gateway === "rewriting" ? rewriting(upstream) : `upstream: ${upstream}`;
}

function facilitatorYaml({ gateway, facilitatorPort }: ShopPlaces): string {
  const listen = `  listen: 127.0.0.1:${facilitatorPort}`;
  if (gateway === "crowded") return listen;
  return gateway === "listed" ? `${listen}\n  auth: { bearer: "${CALLERS_TOKEN}" }` : "";
}

/** Beside that of `publicUrl`: names of the same shop, or of another one, where nothing of this one is to be had. */
function hostsYaml(gateway: Gateway): string {
  if (gateway === "listed") return 'hosts: ["*.partner.example", "mirror.example"]';
  if (gateway !== "trusting") return "";
  return `hosts:
  closed.example: { routes: { "/free/*": deny, GET /health: free } }
  "*.closed.example": { publicUrl: http://www.closed.example, routes: { GET /health: deny } }`;
}

/** The client chooses among the sites of the backend, by the hosts and the names that are listed. */
const listing = (upstream: string): string => `upstreams:
  default:
    targets: [${upstream}]
    host: preserve
    headers: { set: { X-Api-Key: of-the-gateway }, allow: [X-App-Version, X-Api-Key, Cookie] }`;

/** Everything that a configuration may change about a request. */
const rewriting = (upstream: string): string => `upstreams:
  default:
    targets: [${upstream}]
    path: { prefix: ${prefixOf("rewriting")} }
    host: preserve
    headers: { set: { X-Api-Key: of-the-gateway }, remove: [X-Internal] }`;
