/** Many worlds, one after another or in several processes beside each other. */
import { fork } from "node:child_process";
import { once } from "node:events";
import { profileOf, type Mode } from "./profile.ts";
import { Random } from "./random.ts";
import { World, type Outcome } from "./world.ts";

export interface Range {
  readonly from: number;
  /** Included. */
  readonly to: number;
  readonly modes: readonly Mode[];
  /** Ends at the first world that fails. */
  readonly isFirstOnly: boolean;
  readonly isTraced: boolean;
}

export type Print = (line: string) => void;

/**
 * Seeds that one process runs at most: lives that crash leave promises and signals that nothing ever ends,
 * and Node.js keeps composite signals with listeners for good, a megabyte for each world.
 */
const SEEDS_A_PROCESS = 250;
/** Processes for one mode of the exhaustive worlds, for the same reason. */
const PARTS = 8;

/** Up to here worlds have no redirects and no downloads that are fetched again: what was found in them is found again. */
const LAST_PLAIN_SEED = 300_000;

/** The world of a seed. */
function runSeed(seed: number, mode: Mode, trace?: Print): Promise<Outcome> {
  const drawn = profileOf(new Random(seed), mode);
  const profile = seed > LAST_PLAIN_SEED ? drawn : { ...drawn, leading: 0, repeats: 0 };
  return new World({ seed, profile, ...(trace === undefined ? {} : { trace }) }).run();
}

/** True when every world kept every promise. */
export async function runSeeds(range: Range, jobs: number, print: Print): Promise<boolean> {
  if (jobs > 1 || range.to - range.from >= SEEDS_A_PROCESS) return beside(range, jobs, print);
  const started = performance.now();
  const sums = { worlds: 0, failed: 0, charged: 0, delivered: 0, crashes: 0 };
  for (let seed = range.from; seed <= range.to; seed += 1) {
    for (const mode of range.modes) {
      const outcome = await runSeed(seed, mode, range.isTraced ? print : undefined);
      sums.worlds += 1;
      sums.charged += outcome.charged;
      sums.delivered += outcome.delivered;
      sums.crashes += outcome.crashes;
      if (outcome.violations.length === 0) continue;
      sums.failed += 1;
      for (const { invariant, detail } of outcome.violations) {
        print(`seed ${seed}, ${mode}: ${invariant}: ${detail}`);
      }
      print(`  npm run simulate -- --seed ${seed} --mode ${mode} --trace`);
      if (range.isFirstOnly) return false;
    }
  }
  const seconds = (performance.now() - started) / 1000;
  const { worlds, failed, charged, delivered, crashes } = sums;
  const rate = Math.round(worlds / seconds);
  print(
    `${worlds} worlds in ${seconds.toFixed(1)} s (${rate}/s): ${charged} payments charged, ` +
      `${delivered} delivered, ${crashes} crashes, ${failed} worlds failed`,
  );
  return failed === 0;
}

async function beside(range: Range, jobs: number, print: Print): Promise<boolean> {
  const size = Math.min(SEEDS_A_PROCESS, Math.ceil((range.to - range.from + 1) / jobs));
  const mode = range.modes.length === 1 ? ["--mode", ...range.modes] : [];
  const flags = [...(range.isFirstOnly ? ["--first"] : []), ...mode];
  let next = range.from;
  let failures = 0;
  const work = async (): Promise<void> => {
    while (next <= range.to && !(range.isFirstOnly && failures > 0)) {
      const from = next;
      next = from + size;
      const seeds = ["--seeds", `${from}..${Math.min(range.to, from + size - 1)}`];
      if (!(await runApart([...seeds, ...flags]))) failures += 1;
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  if (failures > 0) print("some worlds failed");
  return failures === 0;
}

/** Every part of the exhaustive worlds, each in a process of its own. True when every world kept every promise. */
export async function exploreBeside(
  modes: readonly Mode[],
  flags: readonly string[],
  jobs: number,
): Promise<boolean> {
  const parts = modes.flatMap((mode) =>
    Array.from({ length: PARTS }, (_, rest) => ["--mode", mode, "--part", `${rest}/${PARTS}`]),
  );
  let isKept = true;
  const work = async (): Promise<void> => {
    for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
      isKept = (await runApart(["--exhaustive", ...flags, ...part])) && isKept;
    }
  };
  await Promise.all(Array.from({ length: jobs }, work));
  return isKept;
}

/** In a process of its own. */
async function runApart(words: readonly string[]): Promise<boolean> {
  const [code] = await once(fork(new URL("simulate.ts", import.meta.url), words), "exit");
  return code === 0;
}
