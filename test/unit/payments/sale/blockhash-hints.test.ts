import { describe, expect, test } from "vitest";
import { BlockhashHints } from "../../../../src/payments/sale/blockhash-hints.ts";
import type { BlockhashHint } from "../../../../src/x402/version-2.ts";
import { ManualTime } from "../../../support/manual-time.ts";

const NETWORK = "solana-devnet";

/** A chain that is asked for blockhashes, and answers when it is told to. */
class Source {
  readonly networks = new Set([NETWORK]);
  readonly asked: PromiseWithResolvers<BlockhashHint>[] = [];

  blockhash(): Promise<BlockhashHint> {
    const answer = Promise.withResolvers<BlockhashHint>();
    this.asked.push(answer);
    return answer.promise;
  }
}

function open() {
  const time = new ManualTime();
  const source = new Source();
  return { time, source, blockhashes: new BlockhashHints(source, time) };
}

const hint = (recentBlockhash: string): BlockhashHint => ({ recentBlockhash });

describe("blockhashes for quotes", () => {
  test("are read once for all who ask within a few seconds, and hold nobody up", async () => {
    const { time, source, blockhashes } = open();
    expect(blockhashes.of(NETWORK)).toBeUndefined();
    expect(blockhashes.of(NETWORK)).toBeUndefined();
    expect(source.asked).toHaveLength(1);
    source.asked[0]?.resolve(hint("one"));
    await time.advance(3_999);
    const one = blockhashes.of(NETWORK);
    expect(one).toEqual(hint("one"));
    expect(source.asked).toHaveLength(1);
    await time.advance(1);
    expect(blockhashes.of(NETWORK)).toBe(one);
    expect(source.asked).toHaveLength(2);
    // The same once more is no other quote.
    source.asked[1]?.resolve(hint("one"));
    await time.advance(4_000);
    expect(blockhashes.of(NETWORK)).toBe(one);
    source.asked[2]?.resolve(hint("two"));
    await time.advance(1);
    expect(blockhashes.of(NETWORK)).toEqual(hint("two"));
  });

  test("are not read while nobody asks, nor where the chain cannot be asked", async () => {
    const { time, source, blockhashes } = open();
    await time.advance(60_000);
    expect(source.asked).toHaveLength(0);
    expect(blockhashes.of("solana")).toBeUndefined();
    expect(source.asked).toHaveLength(0);
  });

  test("are left out when they are old, whatever becomes of the next ones", async () => {
    const { time, source, blockhashes } = open();
    blockhashes.of(NETWORK);
    await time.advance(2_000);
    // Its age counts from the question.
    source.asked[0]?.resolve(hint("one"));
    await time.advance(10_000);
    expect(blockhashes.of(NETWORK)).toEqual(hint("one"));
    source.asked[1]?.reject(new Error("the chain is silent"));
    await time.advance(3_999);
    expect(blockhashes.of(NETWORK)).toEqual(hint("one"));
    await time.advance(1);
    expect(blockhashes.of(NETWORK)).toBeUndefined();
    expect(source.asked).toHaveLength(3);
    source.asked[2]?.resolve(hint("two"));
    await time.advance(1);
    expect(blockhashes.of(NETWORK)).toEqual(hint("two"));
  });

  test("of an earlier question do not take the place of a later one's", async () => {
    const { time, source, blockhashes } = open();
    blockhashes.of(NETWORK);
    await time.advance(4_000);
    blockhashes.of(NETWORK);
    source.asked[1]?.resolve(hint("two"));
    await time.advance(1);
    source.asked[0]?.resolve(hint("one"));
    await time.advance(1);
    expect(blockhashes.of(NETWORK)).toEqual(hint("two"));
  });
});
