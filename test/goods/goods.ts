/**
 * Downloads of 64 KiB to 100 MiB that are cut at a random byte, by each client: complete, and charged once. Ends with 1
 * where one is not.
 *
 *     npm run prove:goods [-- --cuts 200 --seed 1]
 */
import { parseArgs } from "node:util";
import { startChain } from "../support/chain.ts";
import { CutStage, DOWNLOAD_CLIENTS, randomCut, type CutResult } from "./cuts.ts";

const MAX_BYTES = 100 * 1024 ** 2;
/** Downloads at a time. */
const AT_ONCE = 4;

const { values } = parseArgs({
  options: {
    cuts: { type: "string", default: "200" },
    seed: { type: "string", default: "1" },
  },
});
const cuts = Number(values.cuts);
const firstSeed = Number(values.seed);

const chain = await startChain();
try {
  await using stage = await CutStage.open(chain);
  for (const client of Object.keys(DOWNLOAD_CLIENTS)) {
    const results: CutResult[] = [];
    const seeds = Array.from({ length: cuts }, (_, index) => firstSeed + index).values();
    const work = async (): Promise<void> => {
      for (const seed of seeds) results.push(await stage.cut(randomCut(client, seed, MAX_BYTES)));
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    const complete = results.filter(({ isComplete }) => isComplete).length;
    const once = results.filter(({ charges }) => charges === 1).length;
    console.log(`${client}: ${complete} of ${cuts} complete, ${once} charged once`);
    for (const { bytes, at, charges, isComplete } of results) {
      if (isComplete && charges === 1) continue;
      process.exitCode = 1;
      console.log(
        `  ${bytes} bytes cut at ${at}: ${isComplete ? "complete" : "NOT complete"}, ${charges} charges`,
      );
    }
  }
} finally {
  await chain.stop();
}
