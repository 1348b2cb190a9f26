/**
 * A first configuration as text, with comments for whoever edits it next. Whatever comes from outside is quoted,
 * so that it can be neither YAML nor a placeholder.
 */
import { networkOf, type NetworkName } from "../../x402/network.ts";
import type { ImportedRoute } from "../../openapi/openapi.ts";

export interface Plan {
  readonly upstream: string;
  readonly publicUrl: string;
  readonly payTo: { readonly evm?: string; readonly solana?: string };
  readonly networks: readonly NetworkName[];
  /** A URL, or `embedded`. */
  readonly facilitator: string;
  readonly price: string;
  /** The description that the routes are from; null: everything is sold as one. */
  readonly routes: {
    readonly from: string;
    /** The file of the description, relative to the configuration, where it can be published with prices. */
    readonly description: string | null;
    readonly list: readonly ImportedRoute[];
  } | null;
}

/** The files of the keys that settle, relative to the configuration; `keygen` writes them by default. */
export const KEY_FILES = { evm: "coinslot-evm.key", solana: "coinslot-solana.key" } as const;

/** The schema for editors, beside the configuration, which names it in its first line. */
export const SCHEMA_FILE = "gateway.schema.json";

/** Ends with a line break. */
export function configText(plan: Plan): string {
  return [...head(plan), ...facilitator(plan), ...routes(plan)].map((line) => `${line}\n`).join("");
}

function head({ upstream, publicUrl, payTo, networks }: Plan): readonly string[] {
  return [
    `# yaml-language-server: $schema=./${SCHEMA_FILE}`,
    "# What coinslot does with requests. An editor with the YAML language server explains every key.",
    "",
    "# The backend whose answers are sold. It has to be reachable from here only, or buyers go past the gateway.",
    `upstream: ${quoted(upstream)}`,
    "# Where buyers reach the gateway: https in production.",
    `publicUrl: ${quoted(publicUrl)}`,
    "listen: :8402",
    "# For the operator, never for the public: /metrics /livez /readyz, and coinslot reload.",
    "admin: 127.0.0.1:9402",
    "",
    "# Who is paid, and on which networks: in USDC, in the order that buyers see.",
    `payTo: ${payees(payTo)}`,
    `accept: [${networks.join(", ")}]`,
    "",
  ];
}

function payees({ evm, solana }: Plan["payTo"]): string {
  if (solana === undefined) return quoted(evm ?? "");
  return evm === undefined ? quoted(solana) : `{ evm: ${quoted(evm)}, solana: ${quoted(solana)} }`;
}

function facilitator(plan: Plan): readonly string[] {
  if (plan.facilitator !== "embedded") {
    return [
      "# Who verifies and settles payments. `coinslot init --facilitator embedded` shows how to do that here.",
      `facilitator: ${quoted(plan.facilitator)}`,
      "",
    ];
  }
  const settled = plan.networks.map((name) => {
    const { kind, rpcUrls } = networkOf(name);
    const rpc = rpcUrls.map(quoted).join(", ");
    return `      ${name}: { rpc: [${rpc}], signers: ["file:./${KEY_FILES[kind]}"] }`;
  });
  return [
    "# Payments are settled in this process. The accounts of the signers pay the gas (on Solana: the fee), so they",
    "# need a little of the networks' own currency. The endpoints are public ones: your provider's are better.",
    "facilitator:",
    "  embedded:",
    "    networks:",
    ...settled,
    "",
  ];
}

const FOUND = [
  "# What leads buyers to what is sold, beside the listing at /discovery/resources: /.well-known/x402 for programs that",
  "# know only the host, /openapi.json with prices, /llms.txt for language models.",
];

function routes(plan: Plan): readonly string[] {
  const { price } = plan;
  const unmatched = [
    "# What no route matches: deny (404), or free.",
    "unmatched: deny",
    "",
    "# What costs what: `[METHODS ]/pattern`, where :name is one segment and * at the end the rest. The most specific",
    "# pattern wins, whatever the order. A value is a price, free, deny, or a map like these.",
  ];
  if (plan.routes === null) {
    return [
      ...FOUND,
      // The backend may have the other documents itself, and they are sold as everything else is.
      "discovery: { wellKnown: true }",
      "",
      ...unmatched,
      "routes:",
      "  # GET /health: free",
      "  # /admin/*: deny",
      `  /*: { price: ${price}, description: "One request" }`,
    ];
  }
  const { from, description, list } = plan.routes;
  const openapi = description === null ? "true" : `{ from: ${quoted(description)} }`;
  return [
    ...FOUND,
    `discovery: { wellKnown: true, openapi: ${openapi}, llms: true }`,
    "",
    ...unmatched,
    `# Imported from ${comment(from)}.`,
    "routes:",
    ...list.flatMap((each) => route(each, price)),
  ];
}

/** What is not sold, and why. */
const UNSOLD = {
  health: "free # whether the backend is well",
  internal: "deny # the operator's own",
  members: "deny # wants a credential: `free` leaves it to the backend to ask for that",
} as const;

function route(imported: ImportedRoute, price: string): string[] {
  const { key, description, mimeType, audience, outputSchema } = imported;
  if (audience !== "buyers") return [`  ${routeKey(key)}: ${UNSOLD[audience]}`];
  const lines = [
    `  ${routeKey(key)}:`,
    `    price: ${price}`,
    `    description: ${quoted(description)}`,
  ];
  if (mimeType !== "") lines.push(`    mimeType: ${quoted(mimeType)}`);
  const input = inputOf(imported);
  if (input.length > 0) lines.push("    input:", ...input);
  if (outputSchema !== null) lines.push(`    outputSchema: ${quotedJson(outputSchema)}`);
  return lines;
}

function named(name: string, members: object): readonly string[] {
  const lines = Object.entries(members).map(
    ([each, told]) => `        ${quoted(each)}: ${quotedJson(told)}`,
  );
  return lines.length === 0 ? [] : [`      ${name}:`, ...lines];
}

function inputOf({ key, pathParams, queryParams, headerFields, body }: ImportedRoute): string[] {
  const hasBody = body !== null && /^(?:POST|PUT|PATCH) /.test(key);
  return [
    ...named("pathParams", pathParams),
    ...named("queryParams", queryParams),
    ...named("headerFields", headerFields),
    ...(hasBody ? [`      bodyType: ${body.type}`, ...named("bodyFields", body.fields)] : []),
  ];
}

/** Most keys need no quotes, and read better without. */
function routeKey(key: string): string {
  return /^[A-Z]+ (?:\/:?[\w.~-]*)+$/.test(key) ? key : quoted(key);
}

/** JSON is YAML, but for the placeholders of this language. */
function quoted(text: string): string {
  return quotedJson(text);
}

function quotedJson(value: unknown): string {
  return JSON.stringify(value).replaceAll("${", () => "$${");
}

function comment(text: string): string {
  return text.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, " ");
}
