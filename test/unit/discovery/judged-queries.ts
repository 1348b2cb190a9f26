/**
 * What has to hold of every query whatever it says: it is answered or refused with a sentence, never anything
 * else, as the plainest way to filter would answer it; and the pages of a filter are all of it, once.
 */
import assert from "node:assert/strict";
import {
  listResources,
  parseDiscoveryQuery,
  writePage,
  type Catalogue,
  type DiscoveryQuery,
} from "../../../src/discovery/discovery.ts";
import { wordsOf } from "../../../src/discovery/discovery-query.ts";
import type { DiscoveredResource, PaymentRequirements } from "../../../src/x402/x402.ts";

type Verdict = "listed" | "refused";

export function judgeQuery(catalogue: Catalogue, text: string): Verdict {
  const read = parseDiscoveryQuery(text);
  if (!read.ok) {
    assert.ok(read.error.detail.length > 0 && read.error.detail.length < 100);
    return "refused";
  }
  const { limit, offset } = read.value;
  const response = listResources(catalogue, read.value);
  const all = plainly(catalogue, read.value);
  assert.equal(response.pagination.total, all.length);
  assert.deepEqual(names(response.items), names(all.slice(offset, offset + limit)));
  assert.equal(writePage(catalogue, read.value).body(), JSON.stringify(response));
  return "listed";
}

function names(items: readonly DiscoveredResource[]): readonly string[] {
  return items.map(({ resource }) => resource);
}

/** Reads a filter page by page; resolves with the number of entries. */
export function judgePages(catalogue: Catalogue, filter: string, limit: number): number {
  const seen = new Set<DiscoveredResource>();
  let total = 0;
  for (let offset = 0; offset <= total; offset += limit) {
    const read = parseDiscoveryQuery(`${filter}&limit=${limit}&offset=${offset}`);
    assert.ok(read.ok, `${filter} is refused`);
    const page = listResources(catalogue, read.value);
    ({ total } = page.pagination);
    for (const item of page.items) {
      assert.ok(!seen.has(item), `${item.resource} is repeated`);
      seen.add(item);
    }
  }
  assert.equal(seen.size, total);
  return total;
}

/** Looks at every entry for every condition. */
function plainly({ items }: Catalogue, query: DiscoveryQuery): readonly DiscoveredResource[] {
  const found = items.map(({ item }) => item).filter((item) => fits(item, query));
  const { sort, offer } = query;
  if (sort === undefined) return found;
  const priceOf = ({ accepts }: DiscoveredResource): number => {
    const fitting = accepts.filter((each) => offer === undefined || isWithin(each, offer));
    const usual = fitting.filter(({ network }) => network === "base-sepolia");
    return Math.min(...usual.map(({ maxAmountRequired }) => Number(maxAmountRequired)));
  };
  const ways = sort.isDescending ? -1 : 1;
  if (sort.by === "updated") {
    return found.toSorted((left, right) => ways * (left.lastUpdated - right.lastUpdated));
  }
  const priced = found.filter((item) => priceOf(item) < Infinity);
  const others = found.filter((item) => priceOf(item) === Infinity);
  return [...priced.toSorted((left, right) => ways * (priceOf(left) - priceOf(right))), ...others];
}

function fits(item: DiscoveredResource, query: DiscoveryQuery): boolean {
  const { type, scheme, extension, metadata, offer, words, updatedSince = 0 } = query;
  const values = item.metadata ?? {};
  const isNamed = metadata.every(({ key, value }) => {
    const scalar: unknown = Object.hasOwn(values, key) ? values[key] : undefined;
    // In JSON a number is written as in text, and a text has quotes.
    const written = typeof scalar === "string" ? scalar : JSON.stringify(scalar);
    return typeof scalar !== "object" && written?.toLowerCase() === value.toLowerCase();
  });
  const isOffered =
    offer === undefined || item.accepts.some((requirements) => isWithin(requirements, offer));
  const descriptions = item.accepts.map(({ description }) => description);
  const scalars = Object.values(values).filter((value) => typeof value !== "object");
  const path = item.resource.replace("https://api.example.com", "");
  const all = wordsOf([path, ...descriptions, ...scalars].join(" "));
  const isFound = words.every((word) => all.some((each) => each.startsWith(word)));
  const isAsked =
    (type ?? item.type) === item.type &&
    item.accepts.some((each) => (scheme ?? each.scheme) === each.scheme) &&
    (extension ?? "bazaar") === "bazaar" &&
    item.lastUpdated >= updatedSince;
  return isAsked && isNamed && isOffered && isFound;
}

/** Of the catalogue's own token, which is the usual one of base-sepolia and of no other network. */
function isWithin(
  { network, asset, payTo, maxAmountRequired }: PaymentRequirements,
  wanted: DiscoveryQuery["offer"] & {},
): boolean {
  const { maxPrice } = wanted;
  const amount = BigInt(maxAmountRequired);
  const isCheap =
    maxPrice === undefined ||
    (maxPrice.kind === "units"
      ? amount <= maxPrice.amount
      : network === "base-sepolia" && amount * 10n ** 30n <= maxPrice.amount);
  const isThere = wanted.network === undefined || wanted.network === network;
  return isThere && isCheap && same(asset, wanted.asset) && same(payTo, wanted.payTo);
}

function same(left: string, right: string | undefined): boolean {
  return right === undefined || left.toLowerCase() === right.toLowerCase();
}
