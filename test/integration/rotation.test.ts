/** The short form of `npm run prove:rotation`, and what it goes through. */
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { NEEDS_RESTART } from "../../src/config/config.ts";
import { baseFile, KEY_CHANGES, LEFT_OUT } from "../rotation/keys.ts";
import { RotationStage } from "../rotation/stage.ts";
import { changeEveryKey, offerWrongFiles } from "../rotation/work.ts";
import { Random } from "../simulation/random.ts";
import { startChain, type Chain } from "../support/chain.ts";
import { configKeys } from "../support/config-paper.ts";

// Some hundred reloads, each of which opens and closes what it changes.
vi.setConfig({ testTimeout: 240_000, hookTimeout: 60_000 });

let chain: Chain;
let stage: RotationStage;

beforeAll(async () => {
  chain = await startChain();
  stage = await RotationStage.open(chain, baseFile);
});

afterAll(async () => {
  await stage[Symbol.asyncDispose]();
  await chain.stop();
});

test("every key is changed by a reload, or on the list of what wants a restart", () => {
  const changed = new Set(KEY_CHANGES.map(({ key }) => key));
  const isFixed = (key: string): boolean =>
    NEEDS_RESTART.some(
      (each) =>
        each.key === key || key.startsWith(`${each.key}.`) || key.startsWith(`${each.key}[`),
    );
  const untouched = configKeys().filter((key) => !changed.has(key) && !isFixed(key));
  // `facilitator.basePath` is told with the listener that has it.
  expect(untouched.toSorted()).toEqual([...LEFT_OUT, "facilitator.basePath"].toSorted());
});

test("each is changed and back while buyers pay: none fails, none pays twice or another price", async () => {
  const outcome = await stage.underLoad(2, async () => {
    expect(await changeEveryKey(stage, 1)).toEqual([]);
  });
  expect(outcome.faults).toEqual([]);
  expect(outcome.paid).toBeGreaterThan(0);
});

test("files that are cut anywhere, or wrong, never go live", async () => {
  expect(await offerWrongFiles(stage, 40, new Random(1))).toEqual([]);
});
