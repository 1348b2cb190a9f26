/**
 * The words that entries of a catalogue have, in order. They are in blocks: one more word moves the words of its
 * block and not all others, of which sellers who mean no good could have written millions.
 */

interface Block {
  /** In the order of their code units; never empty. */
  readonly words: string[];
  /** The entries with each word. */
  readonly holders: number[][];
}

/** Words of a block at most. */
const MAX_BLOCK = 512;

export class WordList {
  readonly #blocks: Block[] = [];

  /** `held`: the entries with each word. */
  constructor(held: ReadonlyMap<string, number[]>) {
    const words = [...held.keys()].sort();
    for (let from = 0; from < words.length; from += MAX_BLOCK / 2) {
      const some = words.slice(from, from + MAX_BLOCK / 2);
      this.#blocks.push({ words: some, holders: some.map((word) => held.get(word) ?? []) });
    }
  }

  /** The entry does not have that word yet. */
  put(word: string, entry: number): void {
    const at = Math.min(this.#blockOf(word), this.#blocks.length - 1);
    const block = this.#blocks[at];
    if (block === undefined) {
      this.#blocks.push({ words: [word], holders: [[entry]] });
      return;
    }
    const { words, holders } = block;
    const place = firstFrom(words, word);
    if (words[place] === word) {
      holders[place]?.push(entry);
      return;
    }
    words.splice(place, 0, word);
    holders.splice(place, 0, [entry]);
    if (words.length <= MAX_BLOCK) return;
    const half = MAX_BLOCK / 2;
    this.#blocks.splice(at + 1, 0, { words: words.splice(half), holders: holders.splice(half) });
  }

  drop(word: string, entry: number): void {
    const at = this.#blockOf(word);
    const { words, holders } = this.#blocks[at] ?? { words: [], holders: [] };
    const place = firstFrom(words, word);
    const list = holders[place];
    if (words[place] !== word || list === undefined) return;
    const held = list.indexOf(entry);
    if (held !== -1) list.splice(held, 1);
    if (list.length > 0) return;
    words.splice(place, 1);
    holders.splice(place, 1);
    if (words.length === 0) this.#blocks.splice(at, 1);
  }

  /** The entries of each word that begins so. */
  beginningWith(beginning: string): readonly (readonly number[])[] {
    const found: (readonly number[])[] = [];
    for (let at = this.#blockOf(beginning); at < this.#blocks.length; at += 1) {
      const { words, holders } = this.#blocks[at] ?? { words: [], holders: [] };
      for (let place = firstFrom(words, beginning); place < words.length; place += 1) {
        if (!words[place]?.startsWith(beginning)) return found;
        found.push(holders[place] ?? []);
      }
    }
    return found;
  }

  /** The first block with a word that is not before it; beyond the last one where there is none. */
  #blockOf(word: string): number {
    return firstWhere(this.#blocks.length, (at) => (this.#blocks[at]?.words.at(-1) ?? "") >= word);
  }
}

/** Position of the first word that is not before it. */
function firstFrom(words: readonly string[], word: string): number {
  return firstWhere(words.length, (at) => (words[at] ?? "") >= word);
}

/** The first number below `size` of which it holds, as it does of all behind that; `size` where it holds of none. */
function firstWhere(size: number, holds: (at: number) => boolean): number {
  let low = 0;
  let high = size;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}
