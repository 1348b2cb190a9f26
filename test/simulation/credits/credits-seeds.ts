/** Many worlds of balances, one after another. */
import { creditsProfileOf, CreditsWorld } from "./credits-world.ts";

export interface CreditsOutcome {
  readonly violations: readonly string[];
  readonly answered: number;
  readonly refused: number;
  readonly crashes: number;
  /** Transfers that have paid something back. */
  readonly refunded: number;
}

/** The worlds of all seeds from one to another, both included. */
export async function runCredits(from: number, to: number): Promise<CreditsOutcome> {
  const violations: string[] = [];
  let [answered, refused, crashes, refunded] = [0, 0, 0, 0];
  for (let seed = from; seed <= to; seed += 1) {
    const world = await new CreditsWorld(creditsProfileOf(seed)).run();
    violations.push(...world.violations.map((each) => `seed ${seed}: ${each}`));
    answered += world.answered;
    refused += world.refused;
    crashes += world.crashes;
    refunded += world.refunded;
  }
  return { violations, answered, refused, crashes, refunded };
}
