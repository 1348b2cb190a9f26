/** A short form of the simulation; the long one is `npm run simulate`. */
import { afterAll, describe, expect, test } from "vitest";
import { exploreAll } from "./exhaustive.ts";
import { MutatedCopies, staleness } from "../support/mutated-copy.ts";
import { MODES } from "./profile.ts";
import { MUTANTS } from "./mutant-list.ts";
import { tryMutant } from "./mutants.ts";
import { runSeeds } from "./seeds.ts";
import { STORE_MUTANTS } from "./store-mutants.ts";

const SEEDS = 30;
/** Of the exhaustive worlds every so many-th; no divisor of the number of faults, so that each has its turn. */
const STRIDES = { first: 17, second: 61 };
/** Worlds of each mode in which a mutant has to be caught. */
const MUTANT_WORLDS = 200;
/** Longest that one of these searches may take on a busy machine, milliseconds. */
const SEARCH_TIMEOUT_MS = 400_000;

async function linesOf(run: (print: (line: string) => void) => Promise<boolean>): Promise<{
  readonly isKept: boolean;
  readonly lines: readonly string[];
}> {
  const lines: string[] = [];
  const isKept = await run((line) => lines.push(line));
  return { isKept, lines };
}

test.each(MODES)(
  "%s: every promise is kept, whatever fails",
  async (mode) => {
    const range = { from: 1, to: SEEDS, modes: [mode], isFirstOnly: false, isTraced: false };
    const { isKept, lines } = await linesOf((print) => runSeeds(range, 1, print));
    expect(isKept, lines.join("\n")).toBe(true);
  },
  SEARCH_TIMEOUT_MS,
);

async function traceOf(seed: number): Promise<readonly string[]> {
  const modes = ["replicas"] as const;
  const range = { from: seed, to: seed, modes, isFirstOnly: false, isTraced: true };
  const { lines } = await linesOf((print) => runSeeds(range, 1, print));
  // The last one tells how long it took.
  return lines.slice(0, -1);
}

test("a seed repeats its world to the last line", async () => {
  expect(await traceOf(5)).toEqual(await traceOf(5));
});

test(
  "one payment survives every crash with every other fault",
  async () => {
    const exploration = { modes: MODES, pairs: false, strides: STRIDES };
    const { isKept, lines } = await linesOf((print) => exploreAll({ ...exploration, print }));
    expect(isKept, lines.join("\n")).toBe(true);
  },
  SEARCH_TIMEOUT_MS,
);

test(
  "one payment that is settled after the work survives them, too",
  async () => {
    const exploration = { modes: MODES, pairs: false, strides: STRIDES, isAfter: true };
    const { isKept, lines } = await linesOf((print) => exploreAll({ ...exploration, print }));
    expect(isKept, lines.join("\n")).toBe(true);
  },
  SEARCH_TIMEOUT_MS,
);

test("each mutant finds what it changes", async () => {
  const edits = MUTANTS.flatMap(({ changes }) => changes);
  const stale = await Promise.all(edits.map(staleness));
  expect(stale.filter((why) => why !== undefined)).toEqual([]);
});

/** Of the store that is shipped; `npm run simulate -- --mutants` takes all of them. */
const copies = new MutatedCopies();
afterAll(() => copies[Symbol.asyncDispose]());

describe.concurrent("the simulation catches a money path that", () => {
  test.each(STORE_MUTANTS)(
    "$name",
    async (mutant) => {
      expect(await tryMutant(mutant, MUTANT_WORLDS, copies)).toBeDefined();
    },
    SEARCH_TIMEOUT_MS,
  );
});
