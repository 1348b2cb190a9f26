import { array, assert, integer, property, record } from "fast-check";
import { expect, test } from "vitest";
import { EntryDifferences, NO_OTHERS, ToldEntries } from "../../../src/app/other-entries.ts";
import type { CatalogueEntry } from "../../../src/discovery/discovery.ts";

function entry(name: number, lastUpdated: number): CatalogueEntry {
  return {
    resource: `https://a.example/${name}`,
    methods: name % 2 === 0 ? ["GET"] : null,
    accepts: [],
    metadata: {},
    isTemplate: false,
    lastUpdated,
  };
}

/** As a hub has them: one that has not changed stays the same object. */
class Changing {
  revision = 0;
  #entries = new Map<number, CatalogueEntry>();

  get entries(): readonly CatalogueEntry[] {
    return [...this.#entries.values()];
  }

  change(name: number, lastUpdated: number): void {
    if (lastUpdated === 0) this.#entries.delete(name);
    else this.#entries.set(name, entry(name, lastUpdated));
    this.revision += 1;
  }
}

const sorted = (entries: readonly CatalogueEntry[]): readonly CatalogueEntry[] =>
  entries.toSorted((left, right) => left.resource.localeCompare(right.resource));

test("another process has what there is once it was told, whenever it began to listen", () => {
  const step = record({ name: integer({ min: 0, max: 5 }), to: integer({ min: 0, max: 3 }) });
  assert(
    property(array(array(step, { maxLength: 4 }), { maxLength: 12 }), (rounds) => {
      const others = new Changing();
      const differences = new EntryDifferences(others);
      const told: ToldEntries[] = [new ToldEntries(others.entries)];
      for (const steps of rounds) {
        for (const { name, to } of steps) others.change(name, to);
        // One that begins between two changes is given what there is, and hears of it again.
        told.push(new ToldEntries(structuredClone(others.entries)));
        const changes = differences.next();
        if (changes !== undefined) for (const each of told) each.tell(structuredClone(changes));
        for (const { entries } of told) expect(sorted(entries)).toEqual(sorted(others.entries));
        expect(differences.next()).toBeUndefined();
      }
    }),
  );
});

test("only what has changed is told", () => {
  const others = new Changing();
  others.change(1, 1);
  others.change(2, 1);
  others.change(3, 1);
  const differences = new EntryDifferences(others);
  others.change(2, 2);
  others.change(3, 0);
  expect(differences.next()).toEqual({ put: [entry(2, 2)], dropped: [" https://a.example/3"] });
});

test("told entries have another revision each time, and nobody is nobody", () => {
  const told = new ToldEntries([entry(1, 1)]);
  const { revision } = told;
  told.tell({ put: [entry(2, 1)], dropped: [] });
  expect(told.revision).not.toBe(revision);
  expect(new EntryDifferences(NO_OTHERS).next()).toBeUndefined();
});
