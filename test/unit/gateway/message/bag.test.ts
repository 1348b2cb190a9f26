/** Things that come and go. */
import { describe, expect, test } from "vitest";
import { Bag, type Bagged } from "../../../../src/gateway/message/bag.ts";

interface Thing extends Bagged {
  readonly name: string;
}

function bagOf(names: string): { bag: Bag<Thing>; things: readonly Thing[] } {
  const bag = new Bag<Thing>();
  const things = names.split("").map((name) => ({ name, at: -1 }));
  for (const thing of things) bag.add(thing);
  return { bag, things };
}

function namesIn(bag: Bag<Thing>): string {
  return bag
    .all()
    .map(({ name }) => name)
    .toSorted()
    .join("");
}

describe("a bag", () => {
  test("loses what is taken out, whatever the order", () => {
    for (const order of ["abc", "acb", "bac", "bca", "cab", "cba"]) {
      const { bag, things } = bagOf("abc");
      let rest = "abc";
      for (const name of order) {
        const thing = things.find((each) => each.name === name)!;
        expect(bag.delete(thing)).toBe(true);
        rest = rest.replace(name, "");
        expect(namesIn(bag)).toBe(rest);
      }
      expect(bag.size).toBe(0);
    }
  });

  test("loses nothing where something is taken out twice", () => {
    const { bag, things } = bagOf("abc");
    bag.delete(things[0]!);
    expect(bag.delete(things[0]!)).toBe(false);
    expect(namesIn(bag)).toBe("bc");
  });

  test("takes in again what was taken out", () => {
    const { bag, things } = bagOf("ab");
    bag.delete(things[0]!);
    bag.add(things[0]!);
    expect(namesIn(bag)).toBe("ab");
  });

  test("tells of a moment, whatever goes meanwhile", () => {
    const { bag, things } = bagOf("abc");
    const all = bag.all();
    for (const thing of things) bag.delete(thing);
    expect(all).toHaveLength(3);
  });
});
