/** What nodes say of a blockhash, and when that means that it has expired. */
import { describe, expect, test } from "vitest";
import {
  BELIEVED_MS,
  Blockhashes,
  UNKNOWN_VALIDITY_SLOTS,
  type Validity,
} from "../../../../src/mechanism/solana/blockhashes.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import { inContext, startScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import { never } from "./tracking.ts";

const BLOCKHASH = "EkSnNWid2cvwEVnVx9aBqawnmiCNiDgp3gUdkDPTKN1N";

/** Nodes whose next answers a test sets, and the memory of what they said. */
interface Stage extends ScriptedCluster {
  readonly time: ManualTime;
  readonly blockhashes: Blockhashes;
  /** What a node says of the blockhash, at that slot. */
  says(isValid: boolean, slot: number, node?: number): Promise<Validity>;
}

async function startStage(count = 1): Promise<Stage> {
  const next: { isValid: boolean; slot: number }[] = [];
  const scripts = Array.from({ length: count }, (_, node) => () => {
    const { isValid = true, slot = 0 } = next[node] ?? {};
    return inContext(slot, isValid);
  });
  const cluster = await startScriptedCluster(scripts);
  const time = new ManualTime();
  const blockhashes = new Blockhashes({ time, closing: never });
  return {
    ...cluster,
    time,
    blockhashes,
    async says(isValid, slot, node = 0) {
      next[node] = { isValid, slot };
      const rpc = cluster.rpcs[node];
      if (rpc === undefined) throw new Error("no such node");
      await time.advance(1);
      return blockhashes.ask(rpc, BLOCKHASH, 0, never);
    },
  };
}

describe("not valid", () => {
  test("means expired at a slot past one at which it was valid", async () => {
    await using stage = await startStage();
    stage.blockhashes.notedValid(BLOCKHASH, 100);
    expect(await stage.says(false, 101)).toEqual({ isValid: false, slot: 101, hasExpired: true });
  });

  test.each([100, 99, 1])(
    "means that the node is behind at slot %d, before that one",
    async (slot) => {
      await using stage = await startStage();
      stage.blockhashes.notedValid(BLOCKHASH, 100);
      expect(await stage.says(false, slot)).toMatchObject({ hasExpired: false });
    },
  );

  test("counts from the highest slot at which it was valid, whoever said so", async () => {
    await using stage = await startStage(2);
    stage.blockhashes.notedValid(BLOCKHASH, 100);
    stage.blockhashes.notedValid(BLOCKHASH, 50);
    expect(await stage.says(false, 90)).toMatchObject({ hasExpired: false });
    expect(await stage.says(true, 150, 1)).toMatchObject({ isValid: true, hasExpired: false });
    expect(await stage.says(false, 150)).toMatchObject({ hasExpired: false });
    expect(await stage.says(false, 151)).toMatchObject({ hasExpired: true });
    expect(stage.blockhashes.validSlot(BLOCKHASH)).toBe(150);
  });

  test("means expired when it was said over 32 slots, where nothing else is known", async () => {
    await using stage = await startStage();
    expect(await stage.says(false, 1_000)).toMatchObject({ hasExpired: false });
    const last = 1_000 + UNKNOWN_VALIDITY_SLOTS;
    expect(await stage.says(false, last - 1)).toMatchObject({ hasExpired: false });
    expect(await stage.says(false, last)).toMatchObject({ hasExpired: true });
  });

  test("said by a node that is behind is forgotten when another one says that it is valid", async () => {
    await using stage = await startStage(2);
    await stage.says(false, 1_000);
    await stage.says(true, 1_020, 1);
    expect(await stage.says(false, 1_020)).toMatchObject({ hasExpired: false });
    expect(await stage.says(false, 1_021)).toMatchObject({ hasExpired: true });
  });

  test("says nothing of other blockhashes", async () => {
    await using stage = await startStage();
    stage.blockhashes.notedValid("11111111111111111111111111111111", 100);
    expect(await stage.says(false, 101)).toMatchObject({ hasExpired: false });
  });
});

describe("a slot at which it was said to be valid", () => {
  /** A slot that the chain does not come to for a long time. */
  const WRONG = 1_000_000;

  test("and that the chain does not come to is forgotten in the end", async () => {
    await using stage = await startStage();
    const { time, blockhashes } = stage;
    blockhashes.notedValid(BLOCKHASH, WRONG);
    expect(await stage.says(false, 1_000)).toMatchObject({ hasExpired: false });
    await time.advance(BELIEVED_MS - 10);
    expect(await stage.says(false, 1_450)).toMatchObject({ hasExpired: false });
    await time.advance(10);
    // What was said before that does not count, nor does one answer alone.
    expect(await stage.says(false, 1_451)).toMatchObject({ hasExpired: false });
    expect(blockhashes.validSlot(BLOCKHASH)).toBeUndefined();
    expect(await stage.says(false, 1_482)).toMatchObject({ hasExpired: false });
    expect(await stage.says(false, 1_483)).toMatchObject({ hasExpired: true });
  });

  test("counts from when it was last said, by whomever, and at whichever slot", async () => {
    await using stage = await startStage(2);
    const { time, blockhashes } = stage;
    blockhashes.notedValid(BLOCKHASH, WRONG);
    await time.advance(BELIEVED_MS);
    expect(await stage.says(true, 900, 1)).toMatchObject({ isValid: true });
    await time.advance(BELIEVED_MS - 10);
    await stage.says(false, 1_000);
    expect(blockhashes.validSlot(BLOCKHASH)).toBe(WRONG);
  });
});

describe("a question", () => {
  test("is asked at confirmed, and its answer kept for a time by its own node", async () => {
    await using stage = await startStage(2);
    const { time, blockhashes, rpcs } = stage;
    const [first, second] = rpcs;
    if (first === undefined || second === undefined) throw new Error("there are two");
    await Promise.all([1, 2, 3].map(() => blockhashes.ask(first, BLOCKHASH, 2_000, never)));
    await time.advance(1_999);
    await blockhashes.ask(first, BLOCKHASH, 2_000, never);
    expect(stage.questions(0)).toMatchObject([
      { method: "isBlockhashValid", params: [BLOCKHASH, { commitment: "confirmed" }] },
    ]);
    await blockhashes.ask(second, BLOCKHASH, 2_000, never);
    expect(stage.questions(1)).toHaveLength(1);
    await time.advance(2);
    await blockhashes.ask(first, BLOCKHASH, 2_000, never);
    expect(stage.questions(0)).toHaveLength(2);
  });

  test.each<[string, unknown]>([
    ["no context", { value: true }],
    ["no word", { context: { slot: 1 }, value: null }],
    ["a number", 1],
  ])("that is not answered is asked again at once: %s", async (_title, result) => {
    let answered = 0;
    await using cluster = await startScriptedCluster([
      () => {
        answered += 1;
        return answered === 1 ? { result } : inContext(5, true);
      },
    ]);
    const blockhashes = new Blockhashes({ time: new ManualTime(), closing: never });
    const [rpc] = cluster.rpcs;
    if (rpc === undefined) throw new Error("there is one");
    const asked = blockhashes.ask(rpc, BLOCKHASH, 2_000, never);
    await expect(asked).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
    expect(await blockhashes.ask(rpc, BLOCKHASH, 2_000, never)).toMatchObject({ isValid: true });
  });
});
