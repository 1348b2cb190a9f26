/**
 * Downloads of 64 KiB to 100 MiB that are cut at a random byte, and files behind redirects, by each client: complete, and
 * charged once. Ends with 1 where one is not. With `--workers 2` the gateway is a process with so many workers.
 *
 *     npm run prove:goods [-- --times 200 --seed 1 --client curl --workers 2]
 */
import { parseArgs } from "node:util";
import { startChain } from "../support/chain.ts";
import { GoodsStage, randomCut, REDIRECTS, type Outcome } from "./cuts.ts";
import { missing } from "../proxy/upload-clients.ts";
import { DOWNLOAD_CLIENTS, type DownloadClient } from "./download-clients.ts";

const MAX_BYTES = 100 * 1024 ** 2;
/** Downloads at a time. */
const AT_ONCE = 4;

const { values } = parseArgs({
  options: {
    times: { type: "string", default: "200" },
    seed: { type: "string", default: "1" },
    client: { type: "string", default: "" },
    workers: { type: "string", default: "1" },
  },
});
const times = Number(values.times);
const firstSeed = Number(values.seed);

/** Of each seed what is told of it: null where all is well. */
async function prove(
  what: string,
  attempt: (seed: number) => Promise<Outcome & { readonly isCut?: boolean }>,
): Promise<void> {
  const started = performance.now();
  const outcomes: (Outcome & { readonly isCut?: boolean })[] = [];
  const seeds = Array.from({ length: times }, (_, index) => firstSeed + index).values();
  const faults: string[] = [];
  const work = async (): Promise<void> => {
    for (const seed of seeds) {
      const outcome = await attempt(seed);
      outcomes.push(outcome);
      const { isComplete, charges, isCut = true } = outcome;
      if (!isComplete || charges !== 1 || !isCut)
        faults.push(`  seed ${seed}: ${JSON.stringify(outcome)}`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  const complete = outcomes.filter(({ isComplete }) => isComplete).length;
  const once = outcomes.filter(({ charges }) => charges === 1).length;
  const seconds = ((performance.now() - started) / 1_000).toFixed(0);
  console.log(`${what}: ${complete} of ${times} complete, ${once} charged once, ${seconds} s`);
  for (const fault of faults) console.log(fault);
  if (faults.length > 0) process.exitCode = 1;
}

async function proveAll(stage: GoodsStage, client: DownloadClient): Promise<void> {
  const lacks = await missing(client);
  if (lacks !== null) {
    console.log(`${client.name}: skipped, ${lacks}`);
    return;
  }
  for (const kind of REDIRECTS) {
    await prove(`${client.name}, led to ${kind}`, (seed) => stage.redirected(client, kind, seed));
  }
  await prove(`${client.name}, cut`, (seed) => stage.cut(client, randomCut(seed, MAX_BYTES)));
}

const chain = await startChain();
try {
  await using stage = await GoodsStage.open(chain, Number(values.workers));
  const chosen = DOWNLOAD_CLIENTS.filter(({ name }) => name.includes(values.client));
  for (const client of chosen) await proveAll(stage, client);
} finally {
  await chain.stop();
}
