/** What others sell that stands in our listing beside our own routes, and how workers hear of it. */
import type { CatalogueEntry } from "../discovery/discovery.ts";

export interface OtherEntries {
  /** Another number as soon as `entries` are others. */
  readonly revision: number;
  /** One that has not changed is the same object as before; of each resource and method there is one. */
  readonly entries: readonly CatalogueEntry[];
}

/** Where nobody else is listed. */
export const NO_OTHERS: OtherEntries = { revision: 0, entries: [] };

/** What has changed since it was asked last. */
export interface EntryChanges {
  /** New, or in place of what was there under the same name. */
  readonly put: readonly CatalogueEntry[];
  /** Names, see {@link nameOf}. */
  readonly dropped: readonly string[];
}

export class EntryDifferences {
  readonly #others: OtherEntries;
  #revision: number;
  #known: ReadonlyMap<string, CatalogueEntry>;

  /** What there is now is known. */
  constructor(others: OtherEntries) {
    this.#others = others;
    this.#revision = others.revision;
    this.#known = byName(others.entries);
  }

  /** Undefined where nothing has changed. */
  next(): EntryChanges | undefined {
    const { revision } = this.#others;
    if (revision === this.#revision) return undefined;
    const before = this.#known;
    const after = byName(this.#others.entries);
    this.#revision = revision;
    this.#known = after;
    return {
      put: [...after].filter(([name, entry]) => before.get(name) !== entry).map(([, each]) => each),
      dropped: [...before.keys()].filter((name) => !after.has(name)),
    };
  }
}

/** As another process tells of them. */
export class ToldEntries implements OtherEntries {
  #entries: Map<string, CatalogueEntry>;
  #revision = 0;

  constructor(entries: readonly CatalogueEntry[]) {
    this.#entries = byName(entries);
  }

  get revision(): number {
    return this.#revision;
  }

  get entries(): readonly CatalogueEntry[] {
    return [...this.#entries.values()];
  }

  tell({ put, dropped }: EntryChanges): void {
    for (const name of dropped) this.#entries.delete(name);
    for (const entry of put) this.#entries.set(nameOf(entry), entry);
    this.#revision += 1;
  }
}

function byName(entries: readonly CatalogueEntry[]): Map<string, CatalogueEntry> {
  return new Map(entries.map((entry) => [nameOf(entry), entry]));
}

function nameOf({ resource, methods }: CatalogueEntry): string {
  return `${methods?.join() ?? ""} ${resource}`;
}
