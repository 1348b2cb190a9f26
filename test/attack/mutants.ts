/**
 * Is the battery able to fail? Each mutant is the gateway without one of its guards, on a copy of the tree;
 * a case must find it, or a property of the canonical path, or where no client would see it a test. A text
 * that is not found any more is an error, so that no mutant quietly becomes the original. What is found on
 * the original already catches nobody. The cases are played by this tree's own code, which no mutant touches.
 */
import { join } from "node:path";
import { startChain, type Chain } from "../support/chain.ts";
import { failsIn, MutatedCopies, runIn, staleness, type Edit } from "../support/mutated-copy.ts";
import { keyOf } from "./attack-report.ts";
import { ACCESS_MUTANTS } from "./access-mutants.ts";
import { ANSWER_MUTANTS } from "./answer-mutants.ts";
import { runBattery } from "./battery.ts";
import { CERTIFICATE_MUTANTS } from "./certificate-mutants.ts";
import { COMMAND_MUTANTS } from "./command-mutants.ts";
import { COUNTED_MUTANTS } from "./counted-mutants.ts";
import { CREDIT_MUTANTS } from "./credit-mutants.ts";
import { HOLDER_MUTANTS } from "./holder-mutants.ts";
import { LIMIT_MUTANTS } from "./limit-mutants.ts";
import { MESSAGE_MUTANTS } from "./message-mutants.ts";
import { METER_MUTANTS } from "./meter-mutants.ts";
import type { Mutant } from "./mutant.ts";
import { OTHER_MUTANTS } from "./other-mutants.ts";
import { PATH_MUTANTS } from "./path-mutants.ts";
import { PRICE_MUTANTS } from "./price-mutants.ts";
import { REWRITING_MUTANTS } from "./rewriting-mutants.ts";
import { SALE_MUTANTS } from "./sale-mutants.ts";
import { SIGN_IN_MUTANTS } from "./sign-in-mutants.ts";
import { SPENDING_MUTANTS } from "./spending-mutants.ts";
import { MCP_MUTANTS } from "./mcp-mutants.ts";
import { TOOL_MUTANTS } from "./tool-mutants.ts";
import { TURN_MUTANTS } from "./turn-mutants.ts";
import { WEBHOOK_MUTANTS } from "./webhook-mutants.ts";
import { WORK_MUTANTS } from "./work-mutants.ts";

export const MUTANTS: readonly Mutant[] = [
  ...PATH_MUTANTS,
  ...MESSAGE_MUTANTS,
  ...ANSWER_MUTANTS,
  ...REWRITING_MUTANTS,
  ...OTHER_MUTANTS,
  ...ACCESS_MUTANTS,
  ...LIMIT_MUTANTS,
  ...TURN_MUTANTS,
  ...SIGN_IN_MUTANTS,
  ...HOLDER_MUTANTS,
  ...SALE_MUTANTS,
  ...PRICE_MUTANTS,
  ...CERTIFICATE_MUTANTS,
  ...WEBHOOK_MUTANTS,
  ...WORK_MUTANTS,
  ...SPENDING_MUTANTS,
  ...COUNTED_MUTANTS,
  ...CREDIT_MUTANTS,
  ...METER_MUTANTS,
  ...TOOL_MUTANTS,
  ...MCP_MUTANTS,
  ...COMMAND_MUTANTS,
];

/** Seeds that a mutant of the canonical path is tried with, and runs of each. */
const FUZZ = ["--fuzz-here", "--first", "--seeds", "1..3", "--runs", "60000"];
/** Characters of a finding that are printed. */
const MOST_SHOWN = 200;

type Print = (line: string) => void;

/** True when every mutant whose name or threat is `wanted` was caught. */
export async function runMutants(wanted: string, print: Print): Promise<boolean> {
  const started = performance.now();
  const mutants = MUTANTS.filter(({ name, cites }) => name.includes(wanted) || cites === wanted);
  const stale = await findStale(mutants);
  for (const line of stale) print(`STALE ${line}`);
  if (stale.length > 0) return false;
  await using chain = await startChain();
  await using copies = new MutatedCopies();
  const known = await tryOriginal(mutants, { chain, copies }, print);
  if (known === undefined) return false;
  let caught = 0;
  const tryAll = async (waiting: Mutant[]): Promise<void> => {
    for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
      const { isCaught, told } = await tell(mutant, { chain, known, copies });
      if (isCaught) caught += 1;
      print(told);
    }
  };
  // All of them wait for most of their time.
  const ofCases = mutants.filter(({ topics }) => topics !== undefined);
  const ofTests = mutants.filter(({ topics }) => topics === undefined);
  await Promise.all([tryAll(ofCases), tryAll(ofTests), tryAll(ofTests)]);
  const threats = new Set(mutants.map(({ cites }) => cites)).size;
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  print(`${mutants.length} mutants of ${threats} threats, ${caught} caught in ${seconds} s`);
  return caught === mutants.length;
}

/** Mutants that do not apply, and why. */
export async function findStale(mutants: readonly Mutant[]): Promise<readonly string[]> {
  const stale: string[] = [];
  for (const mutant of mutants) {
    for (const edit of editsOf(mutant)) {
      const why = await staleness(edit);
      if (why !== undefined) stale.push(`${mutant.name}: ${why}`);
    }
  }
  return stale;
}

function editsOf(mutant: Mutant): readonly Edit[] {
  return mutant.also === undefined ? [mutant] : [mutant, mutant.also];
}

/** What the cases find on the original; undefined where its tests fail, which then tell nothing. */
async function tryOriginal(
  mutants: readonly Mutant[],
  { chain, copies }: Omit<Ground, "known">,
  print: Print,
): Promise<ReadonlySet<string> | undefined> {
  const units = [...new Set(mutants.flatMap(({ unit }) => unit ?? []))];
  const failed = units.length > 0 && (await copies.take([], (folder) => failsIn(folder, units)));
  if (failed) {
    print(`the original fails in ${units.join(", ")}`);
    return undefined;
  }
  const topics = new Set(mutants.flatMap((mutant) => mutant.topics ?? []));
  const { findings } = await runBattery({ chain, select: ({ topic }) => topics.has(topic) });
  const known = new Set(findings.map(keyOf));
  print(`the original: ${known.size} findings${known.size > 0 ? ", which catch nobody" : ""}`);
  return known;
}

interface Ground {
  readonly chain: Chain;
  readonly copies: MutatedCopies;
  /** What is found on the original. */
  readonly known: ReadonlySet<string>;
}

async function tell(
  mutant: Mutant,
  ground: Ground,
): Promise<{ readonly isCaught: boolean; readonly told: string }> {
  const name = `${mutant.cites}: ${mutant.name}`;
  try {
    const found = await ground.copies.take(editsOf(mutant), async (folder) => {
      return (await byCases(folder, mutant, ground)) ?? (await byOthers(folder, mutant));
    });
    if (found === undefined) return { isCaught: false, told: `SURVIVED ${name}` };
    return { isCaught: true, told: `caught ${name}: ${found.slice(0, MOST_SHOWN)}` };
  } catch (cause) {
    return { isCaught: false, told: `DOES NOT RUN ${name}: ${String(cause)}` };
  }
}

/** The first finding of its topics' cases, or undefined. @throws where the mutant does not start. */
async function byCases(
  folder: string,
  { topics = [], cites }: Mutant,
  { chain, known }: Ground,
): Promise<string | undefined> {
  if (topics.length === 0) return undefined;
  const { findings } = await runBattery({
    chain,
    main: join(folder, "src/main.ts"),
    select: ({ topic }) => topics.includes(topic),
    isKnown: (finding) => known.has(keyOf(finding)),
    isFirstOnly: true,
    firstCites: cites,
  });
  const [first] = findings;
  if (first === undefined) return undefined;
  return `${first.kind}: ${first.topic}: ${first.name} (${first.gateway}): ${first.detail}`;
}

async function byOthers(folder: string, { isFuzzed, unit }: Mutant): Promise<string | undefined> {
  if (isFuzzed === true) return byProperties(folder);
  if (unit === undefined) return undefined;
  return (await failsIn(folder, [unit])) ? `the tests of ${unit}` : undefined;
}

async function byProperties(folder: string): Promise<string | undefined> {
  const { code, said } = await runIn(folder, [join(folder, "test/attack/attack.ts"), ...FUZZ]);
  if (code === 0) return undefined;
  const first = said.split("\n").find((line) => line.startsWith("FOUND "));
  // A mutant that does not even run says nothing about the properties.
  if (first === undefined) throw new Error(said);
  return first.slice("FOUND ".length);
}
