/**
 * The simulation's command line:
 *
 *     npm run simulate -- --seed 7 --mode replicas --trace
 *     npm run simulate -- --count 100000 --jobs 2
 *     npm run simulate -- --seeds 5000..6000
 *     npm run simulate -- --exhaustive --pairs --after
 *     npm run simulate -- --faults 12:crash-after,20:fail-before --mode single
 *     npm run simulate -- --credits --count 1000
 *     npm run simulate -- --mutants
 *     npm run simulate -- --mutants --case giving-away
 */
import { parseArgs } from "node:util";
import { runCredits } from "./credits/credits-seeds.ts";
import { exploreAll, runPlan } from "./exhaustive.ts";
import { runMutants } from "./mutants.ts";
import { readFaults } from "./planned.ts";
import { MODES } from "./profile.ts";
import { exploreBeside, runSeeds, type Range } from "./seeds.ts";

const { values } = parseArgs({
  options: {
    seed: { type: "string" },
    seeds: { type: "string" },
    count: { type: "string" },
    mode: { type: "string" },
    jobs: { type: "string", default: "1" },
    /** Stop at the first seed that fails. */
    first: { type: "boolean", default: false },
    trace: { type: "boolean", default: false },
    exhaustive: { type: "boolean", default: false },
    faults: { type: "string" },
    pairs: { type: "boolean", default: false },
    /** `3/8`: of the exhaustive worlds that part, in this process. */
    part: { type: "string" },
    /** Worlds of balances in place of those of payments. */
    credits: { type: "boolean", default: false },
    /** Of the exhaustive worlds those in which the upstream works before it is settled. */
    after: { type: "boolean", default: false },
    mutants: { type: "boolean", default: false },
    /** Part of the name of a mutant, or of the test file that is to catch it. */
    case: { type: "string", default: "" },
  },
});

// Errors are thrown by the million here, and nobody reads where.
if (!values.trace) Error.stackTraceLimit = 0;

const modes = values.mode === undefined ? MODES : MODES.filter((mode) => mode === values.mode);

if (values.mutants) {
  process.exitCode = (await runMutants(values.case, print)) ? 0 : 1;
} else if (values.credits) {
  const { from, to } = rangeOf();
  const { violations, answered, refused, crashes, refunded } = await runCredits(from, to);
  for (const each of violations) print(each);
  const sums = `${answered} requests answered, ${refused} refused, ${refunded} refunds sent, ${crashes} lives lost`;
  print(`${to - from + 1} worlds of balances: ${sums}, ${violations.length} violations`);
  process.exitCode = violations.length === 0 ? 0 : 1;
} else if (values.faults !== undefined) {
  const { violations } = await runPlan(
    { mode: modes[0] ?? "single", isAfter: values.after },
    readFaults(values.faults),
    print,
  );
  process.exitCode = violations.length === 0 ? 0 : 1;
} else if (values.exhaustive) {
  const { pairs, after: isAfter } = values;
  const [rest, by] = values.part?.split("/").map(Number) ?? [];
  const flags = [...(pairs ? ["--pairs"] : []), ...(isAfter ? ["--after"] : [])];
  const isKept =
    rest === undefined || by === undefined
      ? await exploreBeside(modes, flags, Number(values.jobs))
      : await exploreAll({ print, modes, pairs, isAfter, part: { rest, by } });
  process.exitCode = isKept ? 0 : 1;
} else {
  const range = { ...rangeOf(), modes, isFirstOnly: values.first, isTraced: values.trace };
  process.exitCode = (await runSeeds(range, Number(values.jobs), print)) ? 0 : 1;
}

function rangeOf(): Pick<Range, "from" | "to"> {
  if (values.seed !== undefined) return { from: Number(values.seed), to: Number(values.seed) };
  const [from, to] = values.seeds?.split("..") ?? [];
  if (from !== undefined && to !== undefined) return { from: Number(from), to: Number(to) };
  return { from: 1, to: Number(values.count ?? "1000") };
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
