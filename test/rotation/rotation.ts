/**
 * Every key of the configuration that a reload changes, to another value and back, while buyers pay: none is refused or
 * charged twice, and each pays what he was told. Then files that are cut or wrong: none goes live. Ends with 1 where it
 * is otherwise.
 *
 *     npm run prove:rotation [-- --times 20 --files 200 --buyers 6 --seed 1]
 */
import { parseArgs } from "node:util";
import { Random } from "../simulation/random.ts";
import { startChain } from "../support/chain.ts";

import { baseFile, KEY_CHANGES } from "./keys.ts";
import { RotationStage } from "./stage.ts";
import { changeEveryKey, offerWrongFiles } from "./work.ts";

const { values } = parseArgs({
  options: {
    times: { type: "string", default: "20" },
    files: { type: "string", default: "200" },
    buyers: { type: "string", default: "6" },
    seed: { type: "string", default: "1" },
  },
});
const [times, files, buyers] = [values.times, values.files, values.buyers].map(Number);

const chain = await startChain();
try {
  await using stage = await RotationStage.open(chain, baseFile);
  const faults: string[] = [];
  const outcome = await stage.underLoad(buyers ?? 1, async () => {
    faults.push(...(await changeEveryKey(stage, times ?? 1)));
    faults.push(...(await offerWrongFiles(stage, files ?? 1, new Random(Number(values.seed)))));
  });
  const all = [...faults, ...outcome.faults];
  const changes = KEY_CHANGES.length * (times ?? 1);
  console.log(`${changes} changes of ${KEY_CHANGES.length} keys and back, ${files} wrong files`);
  console.log(`${outcome.paid} purchases, ${all.length} faults`);
  for (const fault of all) console.log(fault);
  if (all.length > 0) process.exitCode = 1;
} finally {
  await chain.stop();
}
