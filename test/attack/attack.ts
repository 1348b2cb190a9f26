/**
 * The battery's command line:
 *
 *     npm run attack
 *     npm run attack -- --topics framing,chunks --case "chunks on a GET"
 *     npm run attack -- --seeds 1..10 --runs 60000
 *     npm run attack -- --provoke 5000 --seeds 1..4
 *     npm run attack -- --sidecar nginx --topics path-spellings
 *     npm run attack -- --mutants
 *     npm run attack -- --mutants --case H6
 *
 * Ends with 1 when there is any finding, or when a mutant survives.
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { parseArgs } from "node:util";
import {
  describeFinding,
  describeFuzz,
  describeTallies,
  describeVersions,
  describeWaiting,
} from "./attack-report.ts";
import type { AttackCase } from "./attack-case.ts";
import { runBattery } from "./battery.ts";
import { fuzzSeed, fuzzUntilFailure } from "./canonical-path.ts";
import { runMutants } from "./mutants.ts";
import { OWN_PROXIES } from "../support/own-proxy.ts";
import { provoke } from "./provocation.ts";
import { runSidecarBattery } from "./sidecar-battery.ts";

const { values } = parseArgs({
  options: {
    topics: { type: "string" },
    /** Part of the name of a case, or of a mutant. */
    case: { type: "string", default: "" },
    /** Before this proxy, which asks the gateway as its sidecar: nginx, haproxy or caddy. */
    sidecar: { type: "string" },
    /** Stop at the first finding. */
    first: { type: "boolean", default: false },
    mutants: { type: "boolean", default: false },
    /** How many of the cases' requests are changed at random, with each seed. */
    provoke: { type: "string" },
    /** Of the properties of the canonical path. */
    seeds: { type: "string", default: "1..10" },
    runs: { type: "string", default: "60000" },
    "no-fuzz": { type: "boolean", default: false },
    /** In this process: what the others are started with. */
    "fuzz-here": { type: "boolean", default: false },
  },
});

/** Processes that run the properties beside each other. */
const FUZZERS = 2;

const say = (line: string): void => void process.stdout.write(`${line}\n`);

if (values["fuzz-here"]) process.exitCode = fuzzHere();
else if (values.provoke !== undefined) process.exitCode = await provokeAll(Number(values.provoke));
else if (values.sidecar !== undefined) process.exitCode = await attackSidecar(values.sidecar);
else if (values.mutants) process.exitCode = (await runMutants(values.case, say)) ? 0 : 1;
else process.exitCode = await attack();

async function provokeAll(count: number): Promise<number> {
  let found = 0;
  for (const seed of seedsOf(values.seeds)) {
    const findings = await provoke(seed, count);
    for (const finding of findings) for (const line of describeFinding(finding)) say(line);
    say(`seed ${seed}: ${count} provocations before three gateways, ${findings.length} findings`);
    found += findings.length;
  }
  return found === 0 ? 0 : 1;
}

async function attack(): Promise<number> {
  say(describeVersions());
  const topics = values.topics?.split(",");
  const report = await runBattery({
    select: ({ topic, name }) =>
      (topics === undefined || topics.includes(topic)) && name.includes(values.case),
    isFirstOnly: values.first,
    withWaiting: !values.first,
  });
  for (const finding of report.findings) for (const line of describeFinding(finding)) say(line);
  for (const line of describeTallies(report)) say(line);
  for (const line of describeWaiting(report)) say(line);
  say(`${report.findings.length} findings in ${report.seconds.toFixed(0)} s`);
  const isFuzzed = values["no-fuzz"] || topics !== undefined || values.case !== "";
  const fuzzed = isFuzzed ? 0 : await fuzz();
  return report.findings.length + fuzzed === 0 ? 0 : 1;
}

async function attackSidecar(name: string): Promise<number> {
  const proxy = OWN_PROXIES.find((each) => each === name);
  if (proxy === undefined) throw new Error(`--sidecar is one of ${OWN_PROXIES.join(", ")}`);
  const topics = values.topics?.split(",");
  const select = ({ topic, name: named }: AttackCase): boolean =>
    (topics === undefined || topics.includes(topic)) && named.includes(values.case);
  const report = await runSidecarBattery({ proxy, select });
  for (const finding of report.findings) for (const line of describeFinding(finding)) say(line);
  for (const line of describeTallies(report)) say(line);
  say(`${proxy}: ${report.findings.length} findings in ${report.seconds.toFixed(0)} s`);
  return report.findings.length === 0 ? 0 : 1;
}

function seedsOf(range: string): number[] {
  const [from = 1, to = from] = range.split("..").map(Number);
  return Array.from({ length: to - from + 1 }, (_, index) => from + index);
}

/** Every seed in one of two processes; how many of these found something. */
async function fuzz(): Promise<number> {
  const started = performance.now();
  const waiting = seedsOf(values.seeds);
  const count = waiting.length;
  let failed = 0;
  const work = async (): Promise<void> => {
    for (let seed = waiting.shift(); seed !== undefined; seed = waiting.shift()) {
      const flags = ["--fuzz-here", "--seeds", String(seed), "--runs", values.runs];
      const [code] = await once(fork(import.meta.filename, flags), "exit");
      if (code !== 0) failed += 1;
    }
  };
  await Promise.all(Array.from({ length: FUZZERS }, work));
  const seconds = ((performance.now() - started) / 1000).toFixed(0);
  say(`${count} seeds of ${values.runs} runs a property, ${failed} with findings, in ${seconds} s`);
  return failed;
}

function fuzzHere(): number {
  const seeds = seedsOf(values.seeds);
  const runs = Number(values.runs);
  const first = values.first ? fuzzUntilFailure(seeds, runs) : undefined;
  const failures = values.first
    ? [first].filter((failure) => failure !== undefined)
    : seeds.flatMap((seed) => fuzzSeed(seed, runs));
  for (const failure of failures) say(describeFuzz(failure));
  return failures.length === 0 ? 0 : 1;
}
