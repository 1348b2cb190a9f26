import { expect, test } from "vitest";
import { parseDiscoveryQuery, writePage } from "../../../src/discovery/discovery.ts";
import { largeCatalogue, randomFilter, randomQuery, seeded } from "./large-catalogue.ts";
import { judgePages, judgeQuery } from "./judged-queries.ts";

/** `npm run fuzz:discovery` asks 100,000. */
const QUERIES = 1_500;
const FILTERS = 60;
const catalogue = largeCatalogue(400);

test("random queries are answered as the plainest filter would, or refused with a sentence", () => {
  const random = seeded(7);
  const verdicts = { listed: 0, refused: 0 };
  for (let asked = 0; asked < QUERIES; asked += 1) {
    verdicts[judgeQuery(catalogue, randomQuery(random))] += 1;
  }
  // Both kinds were there, or nothing was tried.
  expect(Math.min(verdicts.listed, verdicts.refused)).toBeGreaterThan(QUERIES / 10);
});

test("the pages of a filter are all of it, each entry once", () => {
  const random = seeded(11);
  let entries = 0;
  for (let filter = 0; filter < FILTERS; filter += 1) {
    entries += judgePages(catalogue, randomFilter(random), 1 + Math.floor(random() * 100));
  }
  expect(entries).toBeGreaterThan(catalogue.items.length);
});

test("pages have the same tag where they are the same, and another one where a byte is another", () => {
  const random = seeded(13);
  const bodies = new Map<string, string>();
  const tags = new Map<string, string>();
  const dearer = largeCatalogue(400);
  const [first] = dearer.items;
  if (first === undefined) throw new Error("an entry");
  dearer.put({ ...first.entry, lastUpdated: first.entry.lastUpdated + 1 });
  for (let asked = 0; asked < QUERIES; asked += 1) {
    const read = parseDiscoveryQuery(randomQuery(random));
    if (!read.ok) continue;
    for (const each of [catalogue, dearer]) {
      const { etag, body } = writePage(each, read.value);
      expect(bodies.get(etag) ?? body()).toBe(body());
      expect(tags.get(body()) ?? etag).toBe(etag);
      bodies.set(etag, body());
      tags.set(body(), etag);
    }
  }
  expect(bodies.size).toBeGreaterThan(50);
});
