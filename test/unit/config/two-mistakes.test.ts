import { expect, test } from "vitest";
import { parseConfig } from "../../../src/config/config.ts";
import { environment } from "./fixture.ts";
import { mistakes, SOUND, type Mistake } from "./mistakes/mistakes.ts";

/** Of which the first leaves unread what the second is about: a token that is none, the second of two keys. */
const SHADOWED: readonly (readonly [string, string])[] = [
  ["a check without a path", "a check that outlasts its interval"],
  ["an entry without its network", "a token that there is not"],
  ["a token without its decimals", "a token without an amount"],
  ["decimals in words", "a token without an amount"],
  ["a contract mistyped", "a token without an amount"],
  ["a misspelt network of a token", "a token without an amount"],
  ["a method twice", "a route twice"],
  ["a method twice", "two routes for one request"],
  ["a route twice", "dollars as atomic units"],
];

/** A mistake as one replacement in {@link SOUND}. */
interface Slip {
  readonly mistake: Mistake;
  readonly start: number;
  readonly end: number;
  readonly to: string;
}

const SLIPS = mistakes("values.txt").map((mistake): Slip => {
  const [from = "", to = ""] = mistake.edits[0] ?? [];
  const start = SOUND.indexOf(from);
  return { mistake, start, end: start + from.length, to: to.replace(/[«»]/g, "") };
});

/** Whether both can be in one file, and be seen there. */
function go(one: Slip, other: Slip): boolean {
  const names = new Set([one, other].map(({ mistake }) => mistake.what));
  const isShadowed = SHADOWED.some((pair) => pair.every((each) => names.has(each)));
  return !isShadowed && (one.end <= other.start || other.end <= one.start);
}

/** Files that have each pair of mistakes in at least one of them. */
function* files(): Generator<readonly Slip[]> {
  const pairs = new Set(
    SLIPS.flatMap((one, index) =>
      SLIPS.slice(index + 1).flatMap((other) => (go(one, other) ? [[one, other] as const] : [])),
    ),
  );
  for (const pair of pairs) {
    const planted: Slip[] = [...pair];
    for (const slip of SLIPS.filter((each) => !pair.includes(each))) {
      if (planted.every((each) => go(each, slip))) planted.push(slip);
    }
    for (const each of pairs) {
      if (each.every((slip) => planted.includes(slip))) pairs.delete(each);
    }
    yield planted;
  }
}

test("mistakes hide no other, and add none: each pair of them is planted in one file", () => {
  let count = 0;
  for (const slips of files()) {
    count += 1;
    const text = slips
      .toSorted((left, right) => right.start - left.start)
      .reduce((all, { start, end, to }) => all.slice(0, start) + to + all.slice(end), SOUND);

    const { problems } = parseConfig(text, { file: "/etc/coinslot/gateway.yaml", ...environment });

    const found = problems.filter(({ severity }) => severity === "error").map(({ code }) => code);
    const wanted = slips.map(({ mistake }) => mistake.code);
    expect(found.toSorted(), slips.map(({ mistake }) => mistake.what).join(", ")).toEqual(
      wanted.toSorted(),
    );
  }

  expect(count).toBeGreaterThan(1);
});
