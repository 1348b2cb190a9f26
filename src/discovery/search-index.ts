/**
 * Finds entries of a catalogue by exact terms and by the beginnings of words, in time that depends on how
 * often what is asked for occurs, and not on how long the texts are: the listing is open to everyone.
 */
import { wordsOf } from "./discovery-query.ts";
import { WordList } from "./word-list.ts";

/** What one entry can be found by. */
export interface Findable {
  /** Matched whole: `type` and metadata, written by {@link termOf}. */
  readonly terms: readonly string[];
  /** Matched by the beginnings of its words. */
  readonly text: string;
}

/** Of the entries those whose mark is `wanted`. */
interface Found {
  readonly marks: Uint8Array;
  readonly wanted: number;
}

/** Of one entry's text so much is searched, characters: every entry costs memory. */
const MAX_SEARCHED_LENGTH = 2_000;

/** No name and no value of a query has the character between them: control characters are refused there. */
export function termOf(name: string, value: string): string {
  return `${name}\u0000${value.toLowerCase()}`;
}

export class SearchIndex {
  /** Entries have numbers below this. */
  #size: number;
  readonly #terms = new Map<string, number[]>();
  readonly #words: WordList;

  /** Each entry has its place in the list as its number. */
  constructor(entries: readonly Findable[]) {
    this.#size = entries.length;
    const words = new Map<string, number[]>();
    for (const [index, { terms, text }] of entries.entries()) {
      for (const term of terms) append(this.#terms, term, index);
      for (const word of searchedWords(text)) append(words, word, index);
    }
    this.#words = new WordList(words);
  }

  /** One more entry, under a number that no other has. */
  put(index: number, { terms, text }: Findable): void {
    this.#size = Math.max(this.#size, index + 1);
    for (const term of terms) append(this.#terms, term, index);
    for (const word of new Set(searchedWords(text))) this.#words.put(word, index);
  }

  /** Takes an entry away that was put in with the same terms and text; its number is free then. */
  drop(index: number, { terms, text }: Findable): void {
    for (const term of new Set(terms)) {
      const list = this.#terms.get(term) ?? [];
      remove(list, index);
      if (list.length === 0) this.#terms.delete(term);
    }
    for (const word of new Set(searchedWords(text))) this.#words.drop(word, index);
  }

  /** For each entry whether it has all terms and all words: the number that is returned with it, if it has. */
  find(terms: readonly string[], words: readonly string[]): Found {
    const marks = new Uint8Array(this.#size);
    let wanted = 0;
    for (const term of new Set(terms)) {
      mark(marks, this.#terms.get(term) ?? [], wanted);
      wanted += 1;
    }
    for (const word of words) {
      for (const list of this.#words.beginningWith(word)) mark(marks, list, wanted);
      wanted += 1;
    }
    return { marks, wanted };
  }
}

/**
 * Raises the marks of a list by one. Whoever failed a condition before stays behind; whoever has two words of a
 * beginning is raised once.
 */
function mark(marks: Uint8Array, list: readonly number[], wanted: number): void {
  // By index: an iterator takes several times as long, and every client may ask for this.
  for (let at = 0; at < list.length; at += 1) {
    const index = list[at] ?? 0;
    if (marks[index] === wanted) marks[index] = wanted + 1;
  }
}

function searchedWords(text: string): readonly string[] {
  return wordsOf(text.slice(0, MAX_SEARCHED_LENGTH));
}

function remove(list: number[], index: number): void {
  const place = list.indexOf(index);
  if (place !== -1) list.splice(place, 1);
}

/** An entry with the same word twice is noted once: entries come one after the other. */
function append(lists: Map<string, number[]>, name: string, index: number): void {
  const list = lists.get(name);
  if (list === undefined) lists.set(name, [index]);
  else if (list.at(-1) !== index) list.push(index);
}
