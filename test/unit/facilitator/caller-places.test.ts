import { describe, expect, test } from "vitest";
import {
  CallerPlaces,
  MAX_HANDED_OVER,
  MAX_CALLS,
  NoTurn,
} from "../../../src/facilitator/caller-places.ts";
import type { SettleResponse } from "../../../src/x402/x402.ts";

const never = new AbortController().signal;

const SETTLED: SettleResponse = {
  success: true,
  transaction: "0x01",
  network: "base-sepolia",
  payer: "0x02",
};

/** Calls whose questions end when the test says so. */
class Stage {
  readonly places = new CallerPlaces();
  /** Callers that have begun to ask, in order. */
  readonly begun: string[] = [];
  readonly #answers: (() => void)[] = [];
  readonly #calls: Promise<unknown>[] = [];
  refused = 0;

  call(caller: string, signal = never): Promise<unknown> {
    const place = this.places.enter(caller);
    if (place === undefined) {
      this.refused += 1;
      return Promise.resolve();
    }
    const question = (): Promise<SettleResponse> => {
      this.begun.push(caller);
      return new Promise((resolve) => this.#answers.push(() => resolve(SETTLED)));
    };
    const asked = place.inTurn(question, signal).catch((cause: unknown) => cause);
    const over = asked.finally(() => place.leave());
    this.#calls.push(over);
    return over;
  }

  callTimes(times: number, callerOf: (index: number) => string): void {
    for (let index = 0; index < times; index += 1) void this.call(callerOf(index));
  }

  /** Answers the oldest question. */
  async answer(): Promise<void> {
    this.#answers.shift()?.();
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
  }

  async finish(): Promise<void> {
    while (this.#answers.length > 0) await this.answer();
    await Promise.all(this.#calls);
  }
}

describe("calls under way", () => {
  test("of one caller are half of all, and there is a place for the next", async () => {
    const stage = new Stage();
    stage.callTimes(1_200, () => "junk");
    expect(stage.refused).toBe(1_200 - MAX_CALLS / 2);
    stage.callTimes(1, () => "buyer");
    expect(stage.refused).toBe(1_200 - MAX_CALLS / 2);
    await stage.finish();
    expect(stage.places.isEmpty).toBe(true);
  });

  test("are so many and no more, and all places come back", async () => {
    const stage = new Stage();
    stage.callTimes(1_200, (index) => `caller ${index}`);
    expect(stage.refused).toBe(1_200 - MAX_CALLS);
    await stage.finish();
    expect(stage.places.isEmpty).toBe(true);
    await Promise.all([stage.call("buyer"), stage.finish()]);
    expect(stage.begun).toHaveLength(MAX_CALLS + 1);
  });
});

describe("settlements that are handed over", () => {
  test("are few at a time, and the rest go in their turn", async () => {
    const stage = new Stage();
    const count = MAX_HANDED_OVER + 10;
    stage.callTimes(count, (index) => `caller ${index}`);
    expect(stage.begun).toHaveLength(MAX_HANDED_OVER);
    await stage.answer();
    expect(stage.begun).toHaveLength(MAX_HANDED_OVER + 1);
    await stage.finish();
    expect(stage.begun).toEqual(Array.from({ length: count }, (_, index) => `caller ${index}`));
    expect(stage.places.isEmpty).toBe(true);
  });

  test("of who has none under way go before another's next", async () => {
    const stage = new Stage();
    stage.callTimes(MAX_CALLS / 2, () => "junk");
    stage.callTimes(1, () => "buyer");
    await stage.answer();
    expect(stage.begun.at(-1)).toBe("buyer");
    await stage.finish();
  });

  test("do not go when their time is up, and keep nobody's turn", async () => {
    const stage = new Stage();
    stage.callTimes(MAX_HANDED_OVER, () => "junk");
    const patience = new AbortController();
    const waiting = stage.call("hasty", patience.signal);
    const late = stage.call("late", AbortSignal.abort());
    patience.abort();
    expect(await Promise.all([waiting, late])).toEqual([expect.any(NoTurn), expect.any(NoTurn)]);
    await stage.finish();
    expect(stage.begun).not.toContain("hasty");
    expect(stage.places.isEmpty).toBe(true);
  });

  test("that fail give their turn to the next", async () => {
    const places = new CallerPlaces();
    const place = places.enter("caller");
    const fail = () => Promise.reject(new Error("down"));
    await expect(place?.inTurn(fail, never)).rejects.toThrow("down");
    place?.leave();
    expect(places.isEmpty).toBe(true);
  });
});
