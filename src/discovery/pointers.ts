/**
 * The small documents that lead to what is sold, for programs that know nothing but a host:
 * `/.well-known/x402` as JSON and `/llms.txt` as text for language models.
 */
import { findNetwork } from "../x402/network.ts";
import { formatAmount } from "../x402/amount.ts";
import { declaredExample } from "../x402/declared-example.ts";
import { howToPay, versionWords, type Versions } from "../x402/how-to-pay.ts";
import { isRecord } from "../x402/json.ts";
import { caip2Of } from "../x402/version-2.ts";
import { X402_VERSION, type DiscoveredResource, type PaymentRequirements } from "../x402/x402.ts";
import type { Catalogue } from "./discovery.ts";

/** Inputs of one route that are told of. */
const MAX_INPUTS = 20;
/** Longest text of one of them, and longest sample of an answer, characters. */
const MAX_INPUT_TEXT = 120;
const MAX_SAMPLE = 600;
const PLACES = {
  pathParams: "path",
  queryParams: "query",
  headerFields: "header",
  bodyFields: "body",
} as const;

/** One purchase from beginning to end, of a route that can be asked for as it is. */
export interface Purchase {
  /** `curl -i 'https://…'` */
  readonly request: string;
  /** The terms of the 402 in the words of the oldest version that is spoken. */
  readonly terms: object;
  /** A whole program of the official client. */
  readonly program: string;
  /** A sample of the answer; undefined: none is declared. */
  readonly sample: unknown;
}

/** Version of the form of `/.well-known/x402`. */
const FORM_VERSION = 1;
/** Resources that `/.well-known/x402` names itself; the listing has all of them. */
export const MAX_NAMED_RESOURCES = 100;
/** Routes that `/llms.txt` describes itself. */
export const MAX_DESCRIBED_ROUTES = 200;
/** Longest description in it, characters. */
const MAX_DESCRIPTION = 300;

/** Absolute URLs of what is published; null: it is not. */
export interface Published {
  readonly publicUrl: string;
  readonly listing: string | null;
  /** The same in the form of version 2. */
  readonly listingV2: string | null;
  readonly openapi: string | null;
  readonly llms: string | null;
  /** Where messages to its tools are posted (MCP). Default: nowhere. */
  readonly mcp?: string | null;
  readonly facilitator: string | null;
  /** Of the protocol that buyers may speak, the oldest first; at least one. */
  readonly versions: Versions;
}

/**
 * `version` and `resources` are what crawlers of such documents read already; the other members say where
 * the whole listing and the descriptions are. `resources` names every resource once, templates as they are
 * in the listing: asked for with GET they answer with their price as well. Networks have the names of the oldest
 * version that is spoken.
 */
export function writeWellKnown({ items }: Catalogue, published: Published): string {
  const { listing, listingV2, openapi, llms, mcp = null, facilitator, versions } = published;
  const [oldest = X402_VERSION] = versions;
  const resources = [...new Set(items.map(({ item }) => item.resource))];
  const networks = new Set(items.flatMap(({ item }) => item.accepts.map(({ network }) => network)));
  return JSON.stringify({
    version: FORM_VERSION,
    x402Version: oldest,
    x402Versions: versions,
    resources: resources.slice(0, MAX_NAMED_RESOURCES),
    total: resources.length,
    networks: oldest === X402_VERSION ? [...networks] : [...networks].map(caip2Of),
    ...(listing === null ? {} : { listing }),
    ...(listingV2 === null ? {} : { listingV2 }),
    ...(openapi === null ? {} : { openapi }),
    ...(llms === null ? {} : { llms }),
    ...(mcp === null ? {} : { mcp }),
    ...(facilitator === null ? {} : { facilitator }),
  });
}

/** What a program finds that asks for nothing but the host: where everything else is. */
export function writeEntrance(page: string, published: Published): string {
  const { versions, ...urls } = published;
  const links = Object.entries({ ...urls, page }).filter(([, url]) => url !== null);
  return JSON.stringify({ x402Versions: versions, ...Object.fromEntries(links) });
}

/** Markdown in the form of llmstxt.org: a title, a summary, sections of links with a sentence each. */
export function writeLlmsText(
  { items }: Catalogue,
  published: Published,
  purchase: Purchase | null = null,
): string {
  const { publicUrl, listing, listingV2, openapi, mcp = null, versions } = published;
  const shown = items.slice(0, MAX_DESCRIBED_ROUTES);
  const more = items.length - shown.length;
  const lines = [
    `# ${plain(new URL(publicUrl).host)}`,
    "",
    `> Resources over HTTP that are paid for with each request by the x402 protocol, ${versionWords(versions)}.`,
    "",
    ...howToPay(versions),
    "",
    "## Resources",
    "",
    ...shown.flatMap(({ item, entry: { ways = [] } }) => [
      describe(item),
      ...ways.map((way) => `  - Or: ${plain(way)}`),
      ...describeExchange(item),
    ]),
    ...(more === 0 ? [] : [`- and ${more} more, see the listing`]),
    "",
    ...(purchase === null ? [] : [...describePurchase(purchase), ""]),
    "## Machine-readable",
    "",
    ...(listing === null
      ? []
      : [`- [Listing](${listing}): every resource with its ways to pay, as JSON`]),
    ...(listingV2 === null ? [] : [`- [Listing of version 2](${listingV2}): the same in its form`]),
    ...(openapi === null ? [] : [`- [OpenAPI](${openapi}): requests and answers, as OpenAPI 3.1`]),
    ...(mcp === null
      ? []
      : [
          `- [MCP](${mcp}): the same as tools, over streamable HTTP; a call is paid in its \`_meta\``,
        ]),
  ];
  return `${lines.join("\n")}\n`;
}

function describe({ resource, accepts, metadata }: DiscoveredResource): string {
  const [first] = accepts;
  const several = metadata?.["methods"];
  const method = Array.isArray(several)
    ? several.map((method) => (method === "*" ? "Any method" : plain(String(method)))).join(", ")
    : methodOf(first);
  const asked = [...new Set(accepts.map(priceOf))].join(" or ");
  const { from } = Object(metadata?.["price"]);
  const prices = typeof from === "string" ? `from ${plain(from)}, at most ${asked}` : asked;
  const text = plain(first?.description ?? "");

  const said =
    text.length <= MAX_DESCRIPTION ? text : `${text.slice(0, MAX_DESCRIPTION - 1).toWellFormed()}…`;
  const link = `[${method} ${plain(resource)}](${address(resource)})`;
  const { buy } = Object(metadata?.["credits"]);
  const prepaid = typeof buy === "string" ? ` Or from credits, bought at ${address(buy)}.` : "";
  return `- ${link}: ${sentence(said)}Price: ${prices}.${prepaid}`;
}

/** Below a route: what it wants to be sent and what comes back, as far as it is declared. */
function describeExchange({ accepts }: DiscoveredResource): readonly string[] {
  const [first] = accepts;
  const { input, output } = first?.outputSchema ?? {};
  const told = isRecord(input) ? input : {};
  const inputs = Object.entries(PLACES).flatMap(([member, place]) => {
    const fields = told[member];
    return Object.entries(isRecord(fields) ? fields : {}).map((field) =>
      describeInput(place, field),
    );
  });
  const sample = declaredExample(output);
  return [
    ...inputs.slice(0, MAX_INPUTS).map((each) => `  - ${each}`),
    ...(sample === undefined ? [] : [`  - Answers like ${codeOf(sample, MAX_SAMPLE)}`]),
  ];
}

/** `query: city (string, required, like "oslo"): The city` */
function describeInput(place: string, [name, declared]: readonly [string, unknown]): string {
  const { type, required, description } = isRecord(declared) ? declared : {};
  const example = declaredExample(declared);
  const facts = [
    ...(typeof type === "string" ? [plain(type.slice(0, MAX_INPUT_TEXT))] : []),
    ...(place === "path" || required === true ? ["required"] : []),
    ...(example === undefined ? [] : [`like ${codeOf(example, MAX_INPUT_TEXT)}`]),
  ];
  const said = typeof description === "string" ? description : declared;
  const text =
    typeof said === "string" ? `: ${plain(said.slice(0, MAX_INPUT_TEXT).toWellFormed())}` : "";
  const about = facts.length === 0 ? "" : ` (${facts.join(", ")})`;
  return `${place}: ${plain(name.slice(0, MAX_INPUT_TEXT))}${about}${text}`;
}

function describePurchase({ request, terms, program, sample }: Purchase): readonly string[] {
  return [
    "## One purchase from beginning to end",
    "",
    "Asked for without payment, the answer has status 402 and the terms:",
    "",
    ...indented(request),
    ...indented(JSON.stringify(terms, null, 2)),
    "",
    "A program signs one of them and asks again with the payment (Node.js; `KEY` is the key of a wallet):",
    "",
    ...indented(program),
    "",
    sample === undefined
      ? "The answer has status 200, a receipt in its head, and what was paid for."
      : `The answer has status 200, a receipt in its head, and what was paid for, like ${codeOf(sample, MAX_SAMPLE)}`,
  ];
}

/** A block of code, which nothing in it can end. */
function indented(text: string): readonly string[] {
  return text.split(/[\r\n\u2028\u2029]/).map((line) => `    ${line.toWellFormed()}`);
}

/** JSON between as many backticks as it does not have itself, on one line. */
function codeOf(value: unknown, most: number): string {
  const json = JSON.stringify(value) ?? "";
  const short = json.length <= most ? json : `${json.slice(0, most - 1).toWellFormed()}…`;
  const ticks = short.match(/`+/g) ?? [];
  const fence = "`".repeat(Math.max(0, ...ticks.map((each) => each.length)) + 1);
  return ticks.length === 0 ? `${fence}${short}${fence}` : `${fence} ${short} ${fence}`;
}

/** With its end and a space behind it, so that what follows begins anew; nothing for nothing. */
function sentence(text: string): string {
  if (text === "") return "";
  return /[.!?…。！？]$/u.test(text) ? `${text} ` : `${text}. `;
}

/** A URL that ends where Markdown says it does. */
function address(url: string): string {
  return url.replace(/[()<>\\\s]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`);
}

function methodOf(requirements: PaymentRequirements | undefined): string {
  const input = requirements?.outputSchema?.["input"];
  const method = typeof input === "object" && input !== null && "method" in input && input.method;
  return typeof method === "string" ? method : "GET";
}

/** `0.01 USDC on base`; in atomic units where the token is not the network's own. */
function priceOf({ network, asset, maxAmountRequired }: PaymentRequirements): string {
  const usual = findNetwork(network)?.asset;
  if (usual === undefined || usual.address.toLowerCase() !== asset.toLowerCase()) {
    return `${maxAmountRequired} atomic units of ${asset} on ${network}`;
  }
  return `${formatAmount(BigInt(maxAmountRequired), usual.decimals)} ${usual.symbol} on ${network}`;
}

/** One line without anything that Markdown or a terminal would take for a mark. */
function plain(text: string): string {
  return text
    .toWellFormed()
    .replace(/[\s\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu, " ")
    .replace(/[\\`*_[\]<>#|]/g, "\\$&")
    .trim();
}
