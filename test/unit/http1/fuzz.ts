/**
 * The long form of the differential test: `node test/unit/http1/fuzz.ts [RUNS] [FIRST SEED]`. Reads a
 * million mutated answers as our client, undici's and that of node:http do, and ends with 1 when two of them
 * come to differ without a reason that has a name.
 */
import { describeCase, problemOf } from "./differential.ts";

const [runs = 1_000_000, first = 1] = process.argv.slice(2).map(Number);
/** Answers that are read at the same time. */
const AT_ONCE = 64;
/** How often the progress is told, answers. */
const TOLD_EACH = 50_000;
/** Disagreements told before the run is given up. */
const MAX_PROBLEMS = 10;
/** The run is given up beyond this: it needs a third of it. */
const MAX_RESIDENT_BYTES = 1024 ** 3;

const told = new Map<string, number>();
const started = performance.now();
let [next, done, problems, residentBytes] = [first, 0, 0, 0];

function tell(): void {
  residentBytes = Math.max(residentBytes, process.memoryUsage.rss());
  const seconds = Math.round((performance.now() - started) / 1000);
  const megabytes = Math.round(residentBytes / 1024 ** 2);
  console.log(`${done} answers, ${problems} disagreements, ${seconds} s, ${megabytes} MiB`);
}

async function work(): Promise<void> {
  while (next < first + runs && problems < MAX_PROBLEMS && residentBytes < MAX_RESIDENT_BYTES) {
    const seed = next;
    next += 1;
    const problem = await problemOf(seed, told);
    done += 1;
    if (problem !== null) {
      problems += 1;
      console.log(describeCase(seed, problem));
    }
    if (done % TOLD_EACH === 0) tell();
  }
}

await Promise.all(Array.from({ length: AT_ONCE }, work));
tell();
for (const [outcome, count] of [...told].toSorted(([, left], [, right]) => right - left)) {
  console.log(`  ${String(count).padStart(9)}  ${outcome}`);
}
process.exitCode = problems === 0 && done === runs ? 0 : 1;
