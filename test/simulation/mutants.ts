/**
 * Is the simulation able to fail? Each mutant is the money path with one promise broken, on a copy of the
 * sources; the simulation must catch it. A text that is not found any more is an error, so that no mutant
 * quietly becomes the original.
 */
import { join } from "node:path";
import { failsIn, MutatedCopies, runIn } from "../support/mutated-copy.ts";
import type { Mutant } from "./mutant.ts";
import { MUTANTS } from "./mutant-list.ts";
import type { Print } from "./seeds.ts";

/** Worlds that a mutant may survive at most, of each mode. */
const WORLDS = 400;

/** True when every mutant was caught whose name, or whose test file, has that text in it. */
export async function runMutants(wanted: string, print: Print, worlds = WORLDS): Promise<boolean> {
  const mutants = MUTANTS.filter(({ name, unit = "" }) => `${name} ${unit}`.includes(wanted));
  const waiting = [...mutants];
  let survivors = 0;
  await using copies = new MutatedCopies();
  const work = async (): Promise<void> => {
    for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
      const caught = await tryMutant(mutant, worlds, copies);
      if (caught === undefined) survivors += 1;
      print(caught === undefined ? `SURVIVED ${mutant.name}` : `caught ${mutant.name}: ${caught}`);
    }
  };
  await Promise.all([work(), work()]);
  print(`${mutants.length} mutants, ${survivors} survived`);
  return survivors === 0;
}

/** The first broken promise, or undefined where none was noticed. Throws where it does not apply. */
export function tryMutant(
  { changes, unit }: Mutant,
  worlds: number,
  copies: MutatedCopies,
): Promise<string | undefined> {
  return copies.take(changes, async (folder) => {
    if (unit === undefined) return firstFailure(folder, worlds);
    return (await failsIn(folder, [unit])) ? `the tests of ${unit}` : undefined;
  });
}

async function firstFailure(folder: string, worlds: number): Promise<string | undefined> {
  const main = join(folder, "test/simulation/simulate.ts");
  const { code, said } = await runIn(folder, [main, "--count", String(worlds), "--first"]);
  if (code === 0) return undefined;
  const first = said.split("\n").find((line) => line.startsWith("seed "));
  // A mutant that does not even run says nothing about the simulation.
  if (first === undefined) throw new Error(`the mutant does not run: ${said}`);
  return first;
}
