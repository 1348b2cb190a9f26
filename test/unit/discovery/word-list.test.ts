import { array, assert, boolean, constantFrom, property, record, string, tuple } from "fast-check";
import { describe, expect, test } from "vitest";
import { WordList } from "../../../src/discovery/word-list.ts";

/** The entries with each word, as plainly as can be. */
type Held = Map<string, number[]>;

const byNumber = (left: number, right: number): number => left - right;

function found(held: Held, beginning: string): readonly number[] {
  return [...held]
    .flatMap(([word, list]) => (word.startsWith(beginning) ? list : []))
    .toSorted(byNumber);
}

const answers = (list: WordList, beginning: string) =>
  list.beginningWith(beginning).flat().toSorted(byNumber);

describe("words of which entries come and go", () => {
  test("are found by their beginnings as in a plain list, whatever is put in and dropped", () => {
    const letters = string({ unit: constantFrom("a", "b", "é"), maxLength: 3 });
    const step = record({ word: letters, entry: constantFrom(1, 2, 3), isDrop: boolean() });
    assert(
      property(array(tuple(letters)), array(step, { maxLength: 100 }), (first, steps) => {
        const held: Held = new Map(first.map(([word]) => [word, [0]]));
        const list = new WordList(new Map([...held].map(([word, each]) => [word, [...each]])));
        for (const { word, entry, isDrop } of steps) {
          const entries = held.get(word) ?? [];
          if (isDrop) list.drop(word, entry);
          else if (!entries.includes(entry)) list.put(word, entry);
          const others = entries.filter((each) => each !== entry);
          held.set(word, isDrop ? others : [...others, entry]);
        }
        for (const beginning of ["", "a", "b", "ab", "ba", "é", "bbb", "c"]) {
          expect(answers(list, beginning)).toEqual(found(held, beginning));
        }
      }),
    );
  });

  test("may be many: they are in more than one block then, and gone again without a trace", () => {
    const words = Array.from({ length: 5_000 }, (_, number) => `w${(number * 7_919) % 5_000}`);
    const [early, late] = [words.slice(0, 2_500), words.slice(2_500)];
    const list = new WordList(new Map(early.map((word) => [word, [0]])));
    for (const word of late) list.put(word, 1);
    expect(answers(list, "w")).toHaveLength(5_000);
    for (const beginning of ["w1", "w49", "w4999", "w5000", "x"]) {
      const expected = words.filter((word) => word.startsWith(beginning));
      expect(answers(list, beginning)).toHaveLength(expected.length);
    }
    for (const word of early) list.drop(word, 0);
    expect(answers(list, "")).toEqual(late.map(() => 1));
    for (const word of late) list.drop(word, 1);
    expect(list.beginningWith("")).toEqual([]);
    list.put("again", 2);
    expect(answers(list, "a")).toEqual([2]);
  });
});
