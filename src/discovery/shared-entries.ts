/**
 * Entries of the listing that come and go while the process runs, with what has changed lately: whoever has seen
 * them once, in this process or in another, is told the changes and not everything again.
 */
import { entryName, type CatalogueEntry } from "./catalogue.ts";

/** Changes that are remembered; whoever has missed more than those is told everything. */
const MAX_REMEMBERED = 10_000;

export interface EntryChanges {
  /** Of the entries as they are now. */
  readonly revision: number;
  /** Whether these are all entries there are, in place of everything before. */
  readonly isAll: boolean;
  /** New, or in place of what was there under the same name. */
  readonly put: readonly CatalogueEntry[];
  /** Names, see {@link entryName}. */
  readonly dropped: readonly string[];
}

/** What others sell that stands in our listing beside our own routes. */
export interface OtherEntries {
  /** What has changed since that revision; 0: since there was none. */
  since(revision: number): EntryChanges;
}

export class SharedEntries implements OtherEntries {
  readonly #entries = new Map<string, CatalogueEntry>();
  /** Names, in the order in which they were changed; the last one made the present revision. */
  readonly #changed: string[] = [];
  #revision = 0;

  /** Another number with each change. */
  get revision(): number {
    return this.#revision;
  }

  put(entry: CatalogueEntry): void {
    const name = entryName(entry);
    this.#entries.set(name, entry);
    this.#note(name);
  }

  drop(name: string): void {
    if (this.#entries.delete(name)) this.#note(name);
  }

  /** What somebody else has told. */
  apply({ isAll, put, dropped }: EntryChanges): void {
    const kept = new Set(put.map(entryName));
    const gone = isAll ? [...this.#entries.keys()].filter((name) => !kept.has(name)) : dropped;
    for (const name of gone) this.drop(name);
    for (const entry of put) this.put(entry);
  }

  since(revision: number): EntryChanges {
    const missed = this.#revision - revision;
    const isAll = revision === 0 || missed > this.#changed.length;
    const now = { revision: this.#revision, isAll };
    if (isAll) return { ...now, put: [...this.#entries.values()], dropped: [] };
    const names = missed === 0 ? [] : new Set(this.#changed.slice(-missed));
    const put: CatalogueEntry[] = [];
    const dropped: string[] = [];
    for (const name of names) {
      const entry = this.#entries.get(name);
      if (entry === undefined) dropped.push(name);
      else put.push(entry);
    }
    return { ...now, put, dropped };
  }

  #note(name: string): void {
    this.#revision += 1;
    this.#changed.push(name);
    // Seldom, and then many: each time would move all the others.
    if (this.#changed.length >= 2 * MAX_REMEMBERED) this.#changed.splice(0, MAX_REMEMBERED);
  }
}
