/** A catalogue of thousands of routes of many kinds, and random queries about it: honest, odd and hostile. */
import {
  createCatalogue,
  outputSchemaOf,
  type Catalogue,
  type CatalogueEntry,
} from "../../../src/discovery/discovery.ts";
import type { PaymentRequirements } from "../../../src/x402/x402.ts";

const ORIGIN = "https://api.example.com";
const NETWORKS = ["base", "base-sepolia", "avalanche", "polygon"] as const;
const USDC = "0x036CbD53842c5426634e7929541eC2318f3dCF7e";
const PAYEE = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const SUBJECTS = ["weather", "maps", "news", "prices", "tides", "résumé", "search", "images"];

export function largeCatalogue(size: number): Catalogue {
  return createCatalogue(Array.from({ length: size }, (_, index) => entryOf(index)));
}

function entryOf(index: number): CatalogueEntry {
  const subject = SUBJECTS[index % SUBJECTS.length] ?? "";
  const isTemplate = index % 3 === 0;
  const resource = `${ORIGIN}/v1/${subject}/item-${index}${isTemplate ? "/:id" : ""}`;
  const networks = NETWORKS.slice(0, 1 + (index % NETWORKS.length));
  return {
    resource,
    methods: index % 5 === 0 ? ["POST"] : ["GET"],
    accepts: networks.map((network) => requirements(resource, { index, network, subject })),
    metadata: { category: subject, provider: "Example Inc.", tier: index % 4, number: `${index}` },
    isTemplate,
    lastUpdated: 1_703_123_456 + index,
  };
}

interface Traits {
  readonly index: number;
  readonly network: string;
  readonly subject: string;
}

function requirements(resource: string, { index, network, subject }: Traits): PaymentRequirements {
  return {
    scheme: "exact",
    network,
    maxAmountRequired: String(1_000 + index * 10),
    asset: USDC,
    payTo: PAYEE,
    resource,
    description: `The ${subject} numbered ${index}: whatever is known of it, in one answer of JSON`,
    mimeType: "application/json",
    outputSchema: outputSchemaOf({
      method: "GET",
      discoverable: true,
      input: { queryParams: { city: { type: "string", required: true } } },
      output: { type: "object", properties: { value: { type: "number" } } },
    }),
    maxTimeoutSeconds: 60,
    extra: { name: "USDC", version: "2" },
  };
}

/** Numbers that a seed determines (mulberry32). */
export function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const HONEST: readonly ((n: number) => string)[] = [
  (n) => `limit=${1 + (n % 100)}`,
  (n) => `offset=${n % 12_000}`,
  () => "type=http",
  (n) => `metadata[category]=${encodeURIComponent(SUBJECTS[n % SUBJECTS.length] ?? "")}`,
  (n) => `metadata%5Btier%5D=${n % 5}`,
  (n) => `network=${NETWORKS[n % NETWORKS.length]}`,
  () => `asset=${USDC.toLowerCase()}`,
  () => `payTo=${PAYEE}`,
  (n) => `maxPrice=$0.${String(n % 1000).padStart(3, "0")}1`,
  (n) => `maxPrice=${n}units`,
  (n) => `q=${(SUBJECTS[n % SUBJECTS.length] ?? "").slice(0, 1 + (n % 4))}`,
  (n) => `q=item+${n % 100}`,
  (n) => `maxUsdPrice=0.${String(n % 1000).padStart(3, "0")}1`,
  (n) => `query=item+${n % 100}`,
  (n) => `scheme=${n % 3 === 0 ? "upto" : "exact"}`,
  () => "extensions=bazaar",
  (n) => `sort=${["price", "price_desc", "updated", "updated_asc"][n % 4]}`,
  (n) => `updatedSince=${1_703_123_456 + (n % 500)}`,
  () => "updatedSince=2023-12-21T01:55:00Z",
];
const HOSTILE: readonly ((n: number) => string)[] = [
  (n) => `limit=${"9".repeat(n % 400)}`,
  () => "limit=-1",
  () => "limit=1&limit=1",
  () => "offset=1e9",
  () => "metadata[a][b]=c",
  () => "__proto__[x]=1",
  () => "metadata[__proto__]=1",
  () => "constructor=1",
  (n) => "%".repeat(n % 50),
  () => "q=%ff",
  () => "a=%00",
  (n) => "&".repeat(n % 200),
  (n) => "metadata[a]=1&".repeat(n % 40),
  (n) => `q=${"w+".repeat(n % 300)}`,
  (n) => `metadata[${"k".repeat(n % 5_000)}]=v`,
  () => "maxPrice=0.05",
  () => "type=",
  (n) => `unknown${n}=1`,
  (n) => `${"u".repeat(n % 4_000)}=1`,
  () => "sort=cheap",
  () => "updatedSince=yesterday",
];

/** Of a few parts; one in four has something hostile among them. */
export function randomQuery(random: () => number): string {
  const pick = (from: readonly ((n: number) => string)[]): string => {
    const n = Math.floor(random() * 100_000);
    return from[Math.floor(random() * from.length)]?.(n) ?? "";
  };
  const parts = Array.from({ length: Math.floor(random() * 5) }, () => pick(HONEST));
  if (random() < 0.25) parts.splice(Math.floor(random() * parts.length), 0, pick(HOSTILE));
  return parts.join("&");
}

/** A query without limit and offset, for paging. */
export function randomFilter(random: () => number): string {
  const filters = HONEST.slice(2);
  const count = Math.floor(random() * 4);
  const parts = Array.from({ length: count }, () => {
    return filters[Math.floor(random() * filters.length)]?.(Math.floor(random() * 100_000)) ?? "";
  });
  // Each name once, as the listing wants it, and one of two that mean the same.
  const named = new Map(
    parts.map((part) => {
      const [name = ""] = part.split("=");
      return [{ query: "q", maxUsdPrice: "maxPrice" }[name] ?? name, part];
    }),
  );
  return [...named.values()].join("&");
}
