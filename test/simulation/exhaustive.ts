/**
 * One payment, one buyer: every crash point with every single fault, or every pair of faults. Each world is
 * the same up to its first fault, so that the points can be counted.
 */
import { FAULTS, type Fault } from "./faults.ts";
import { nameFaults, type PlannedFault } from "./planned.ts";
import { CALM, type Mode, type Profile } from "./profile.ts";
import type { Print } from "./seeds.ts";
import { World, type Outcome } from "./world.ts";

const FAILURES = ["fail-before", "fail-after", "slow"] as const satisfies readonly Fault[];
/** In its world the first request meets the life that cannot sign. */
const SEED = 1;
/** Crossings of a world that are considered: those of the purchase, and of a recovery after it. */
const MOST_CROSSINGS = 45;

export interface Exploration {
  readonly print: Print;
  readonly modes: readonly Mode[];
  /** Every fault with every later fault, not only crashes with failures. */
  readonly pairs: boolean;
  /** The upstream works before it is settled. Default: afterwards. */
  readonly isAfter?: boolean;
  /** Of first faults, and of second ones, only each so many-th, for a short look. */
  readonly strides?: { readonly first: number; readonly second: number };
  /** Of first faults only those whose place leaves `rest` when it is divided by `by`. Default: all. */
  readonly part?: { readonly rest: number; readonly by: number };
}

/** The worlds that are explored: one life, one that cannot sign beside one that can, and two workers. */
const STAGES = {
  single: CALM,
  replicas: { ...CALM, accounts: [[], ...CALM.accounts] },
  workers: { ...CALM, workers: 2 },
} as const satisfies Record<Mode, Profile>;

/** True when every world kept every promise. */
export async function exploreAll(exploration: Exploration): Promise<boolean> {
  let isKept = true;
  for (const mode of exploration.modes) isKept = (await explore(mode, exploration)) && isKept;
  return isKept;
}

async function explore(
  mode: Mode,
  { print, pairs, isAfter = false, ...some }: Exploration,
): Promise<boolean> {
  const { strides = { first: 1, second: 1 }, part = { rest: 0, by: 1 } } = some;
  const started = performance.now();
  let worlds = 0;
  let failed = 0;
  const run = async (plan: readonly PlannedFault[]): Promise<Outcome> => {
    const outcome = await runPlan({ mode, isAfter }, plan);
    worlds += 1;
    if (outcome.violations.length > 0) failed += 1;
    for (const { invariant, detail } of outcome.violations) {
      print(`${mode}, ${nameFaults(plan)}: ${invariant}: ${detail}`);
    }
    return outcome;
  };
  const points = pointsOf(await run([]));
  const seconds: readonly Fault[] = pairs ? FAULTS : FAILURES;
  let pairsSeen = 0;
  for (const [index, first] of faultsAt(points, FAULTS).entries()) {
    if (index % strides.first !== 0 || index % part.by !== part.rest) continue;
    const outcome = await run([first]);
    if (!pairs && !isCrash(first)) continue;
    for (const second of faultsAt(pointsOf(outcome), seconds)) {
      if (second.at <= first.at && (pairs || second.at === first.at)) continue;
      pairsSeen += 1;
      if (pairsSeen % strides.second === 0) await run([first, second]);
    }
  }
  const elapsed = ((performance.now() - started) / 1000).toFixed(1);
  const counts = `${points.length} points, ${worlds} worlds in ${elapsed} s, ${failed} failed`;
  const told = part.by === 1 ? "" : `, part ${part.rest + 1} of ${part.by}`;
  print(`exhaustive, ${mode}${isAfter ? ", settled after" : ""}${told}: ${counts}`);
  return failed === 0;
}

/** The world of one buyer with exactly these faults. */
export function runPlan(
  { mode, isAfter }: { readonly mode: Mode; readonly isAfter: boolean },
  plan: readonly PlannedFault[],
  trace?: Print,
): Promise<Outcome> {
  const at = (crossing: number): Fault | undefined =>
    plan.find((each) => each.at === crossing)?.fault;
  const traced = trace === undefined ? {} : { trace };
  return new World({
    seed: SEED,
    profile: { ...STAGES[mode], isAfter },
    plan: { at },
    ...traced,
  }).run();
}

function pointsOf({ crossings }: Outcome): readonly number[] {
  return Array.from({ length: Math.min(crossings, MOST_CROSSINGS) }, (_, at) => at);
}

function faultsAt(points: readonly number[], faults: readonly Fault[]): readonly PlannedFault[] {
  return points.flatMap((at) => faults.map((fault) => ({ at, fault })));
}

function isCrash({ fault }: PlannedFault): boolean {
  return fault === "crash-before" || fault === "crash-after";
}
