import { array, assert, constantFrom, integer, property, record } from "fast-check";
import { describe, expect, test } from "vitest";
import {
  createCatalogue,
  entryName,
  listResources,
  writePage,
  type CatalogueEntry,
  type DiscoveryQuery,
} from "../../../src/discovery/discovery.ts";
import { SharedEntries } from "../../../src/discovery/shared-entries.ts";
import { largeCatalogue, randomQuery, seeded } from "./large-catalogue.ts";
import { judgeQuery } from "./judged-queries.ts";

/** Entries that have words, prices and payees in common, and some of their own. */
const ENTRIES = largeCatalogue(60).items.map(({ entry }) => entry);

const EVERYTHING: DiscoveryQuery = {
  type: undefined,
  limit: 100,
  offset: 0,
  metadata: [],
  form: "v1",
  scheme: undefined,
  extension: undefined,
  offer: undefined,
  words: [],
  updatedSince: undefined,
  sort: undefined,
};

/** Another version of the same entry: other terms under the same name. */
function changed(entry: CatalogueEntry, to: number): CatalogueEntry {
  const accepts = entry.accepts.map((each) => ({
    ...each,
    maxAmountRequired: String(to),
    description: `${each.description} version${to}`,
    payTo: `0x${String(to).padStart(40, "0")}`,
  }));
  return { ...entry, accepts, lastUpdated: to, metadata: { ...entry.metadata, version: to } };
}

const step = record({
  at: integer({ min: 0, max: ENTRIES.length - 1 }),
  to: constantFrom(0, 0, 1, 2, 3),
});

function entryAt(at: number): CatalogueEntry {
  const entry = ENTRIES[at];
  if (entry === undefined) throw new Error(`no entry ${at}`);
  return entry;
}

describe("a catalogue that entries come into and go from", () => {
  test("answers every query as one that is made of what is left", () => {
    const random = seeded(3);
    assert(
      property(array(step, { maxLength: 120 }), (steps) => {
        const catalogue = createCatalogue(ENTRIES.slice(0, 30));
        const left = new Map(ENTRIES.slice(0, 30).map((entry) => [entryName(entry), entry]));
        for (const { at, to } of steps) {
          const entry = changed(entryAt(at), to);
          const name = entryName(entry);
          if (to === 0) {
            catalogue.drop(name);
            left.delete(name);
          } else {
            catalogue.put(entry);
            left.set(name, entry);
          }
        }
        const fresh = createCatalogue([...left.values()]);
        expect(writePage(catalogue, EVERYTHING).body()).toBe(writePage(fresh, EVERYTHING).body());
        for (let query = 0; query < 20; query += 1) judgeQuery(catalogue, randomQuery(random));
        const words = { ...EVERYTHING, words: ["version"] };
        expect(listResources(catalogue, words)).toEqual(listResources(fresh, words));
      }),
      { numRuns: 60 },
    );
  });

  test("is as it was after everything that came has gone, its memory too", () => {
    const catalogue = createCatalogue([entryAt(0)]);
    const before = writePage(catalogue, EVERYTHING).body();
    for (let round = 1; round <= 50; round += 1) {
      for (const entry of ENTRIES.slice(1)) catalogue.put(changed(entry, round));
      for (const entry of ENTRIES.slice(1)) catalogue.drop(entryName(entry));
    }
    expect(writePage(catalogue, EVERYTHING).body()).toBe(before);
    // Numbers of those that have gone are used again, and nobody has the payees of the rounds any more.
    catalogue.put(entryAt(1));
    expect(catalogue.items.map(({ number }) => number)).toSatisfy((numbers: number[]) =>
      numbers.every((number) => number < ENTRIES.length),
    );
    expect(catalogue.names.find(`0x${"7".padStart(40, "0")}`)).toBeUndefined();
  });

  test("stays as it is where what is to go is not there", () => {
    const catalogue = createCatalogue(ENTRIES.slice(0, 5));
    const before = writePage(catalogue, EVERYTHING).body();
    catalogue.drop("GET https://nowhere.example/");
    expect(writePage(catalogue, EVERYTHING).body()).toBe(before);
  });
});

const contents = (entries: readonly CatalogueEntry[]) =>
  new Map(entries.map((entry) => [entryName(entry), entry]));

describe("shared entries", () => {
  test("are in another process what they are here once it was told, whenever it began to listen", () => {
    assert(
      property(array(array(step, { maxLength: 4 }), { maxLength: 12 }), (rounds) => {
        const shared = new SharedEntries();
        let { revision } = shared;
        const others: SharedEntries[] = [];
        for (const steps of rounds) {
          for (const { at, to } of steps) {
            const entry = changed(entryAt(at % 6), to);
            if (to === 0) shared.drop(entryName(entry));
            else shared.put(entry);
          }
          // One that begins between two changes is given what there is, and hears of some of it again.
          const late = new SharedEntries();
          late.apply(structuredClone(shared.since(0)));
          others.push(late);
          const changes = shared.since(revision);
          ({ revision } = changes);
          for (const other of others) other.apply(structuredClone(changes));
          const here = contents(shared.since(0).put);
          for (const other of others) expect(contents(other.since(0).put)).toEqual(here);
          expect(shared.since(revision)).toEqual({
            revision,
            isAll: revision === 0,
            put: [],
            dropped: [],
          });
        }
      }),
    );
  });

  test("tell what has changed and nothing else", () => {
    const shared = new SharedEntries();
    const [one, two, three] = [entryAt(0), entryAt(1), entryAt(2)];
    for (const each of [one, two, three]) shared.put(each);
    const { revision } = shared;
    shared.put(changed(two, 2));
    shared.put(changed(two, 3));
    shared.drop(entryName(three));
    shared.drop(entryName(three));
    const changes = shared.since(revision);
    expect(changes).toEqual({
      revision: revision + 3,
      isAll: false,
      put: [changed(two, 3)],
      dropped: [entryName(three)],
    });
  });

  test("tell everything to whoever has missed too much", () => {
    const shared = new SharedEntries();
    shared.put(entryAt(0));
    const { revision } = shared;
    for (let count = 0; count < 25_000; count += 1) shared.put(changed(entryAt(1), count));
    const late = new SharedEntries();
    late.put(entryAt(2));
    const changes = shared.since(revision);
    expect(changes.isAll).toBe(true);
    late.apply(changes);
    expect(contents(late.since(0).put)).toEqual(
      contents([entryAt(0), changed(entryAt(1), 24_999)]),
    );
    expect(shared.since(shared.revision - 1)).toMatchObject({ isAll: false });
  });
});
