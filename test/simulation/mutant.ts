/** The money path with one promise broken, each in its own way. */
import type { Edit } from "../support/mutated-copy.ts";

export interface Mutant {
  readonly name: string;
  readonly changes: readonly Edit[];
  /** A test file that is to catch it, where hardly any world by chance leads there. */
  readonly unit?: string;
}

/** One that the tests of that file catch. */
export function caughtBy(unit: string, name: string, ...changes: readonly Edit[]): Mutant {
  return { name, changes, unit };
}
