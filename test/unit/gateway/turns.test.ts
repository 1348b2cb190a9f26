/** In which order connections begin that come at once. */
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { PER_TURN, Turns } from "../../../src/gateway/turns.ts";

const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

describe("connections that come at once", () => {
  test("begin at once where they are few", async () => {
    const turns = new Turns();
    for (let round = 0; round < 3; round += 1) {
      let begun = 0;
      for (let index = 0; index < PER_TURN; index += 1) turns.take(index, () => (begun += 1));
      expect(begun).toBe(PER_TURN);
      await nextTurn();
    }
  });

  test("begin a few in each turn", async () => {
    const turns = new Turns();
    let begun = 0;
    for (let index = 0; index < 3 * PER_TURN; index += 1) turns.take(0, () => (begun += 1));
    for (const turn of [1, 2, 3]) {
      expect([begun, turns.waiting]).toEqual([turn * PER_TURN, (3 - turn) * PER_TURN]);
      await nextTurn();
    }
  });

  test("begin in the end, however many come who have fewer", async () => {
    const turns = new Turns();
    const begun: string[] = [];
    for (let index = 0; index < PER_TURN; index += 1) turns.take(0, () => undefined);
    turns.take(1, () => begun.push("the second of somebody"));
    for (let turn = 0; turn < 3; turn += 1) {
      for (let index = 0; index < 2 * PER_TURN; index += 1) turns.take(0, () => undefined);
      await nextTurn();
    }
    expect(begun).toEqual(["the second of somebody"]);
  });

  test("begin with those of addresses that have fewest, and of these with the oldest", async () => {
    const turns = new Turns();
    const begun: string[] = [];
    const come = (others: number, name: string): void => {
      turns.take(others, () => begun.push(name));
    };
    for (let others = 0; others < 3 * PER_TURN; others += 1) come(others, `stranger ${others}`);
    come(0, "buyer");
    come(1, "buyer's second");
    come(0, "another");
    begun.length = 0;
    await nextTurn();
    expect(begun.slice(0, 3)).toEqual(["buyer", "another", "buyer's second"]);
    expect(begun[3]).toBe(`stranger ${PER_TURN}`);
  });

  test("begin after those that wait, where they have more", async () => {
    const turns = new Turns();
    const begun: number[] = [];
    for (const others of Array.from({ length: PER_TURN + 40 }, (_, index) => 1_000 - index)) {
      turns.take(others, () => begun.push(others));
    }
    while (turns.waiting > 0) await nextTurn();
    // Above a certain number all are alike, so that of these, too, the oldest is first.
    expect(begun).toEqual(Array.from({ length: PER_TURN + 40 }, (_, index) => 1_000 - index));
  });
});

describe("those who come one in each turn", () => {
  const GATHER_MS = 10;

  /** Gathers by a clock of the test. */
  function gathering() {
    const turns = new Turns(GATHER_MS);
    const clock = vi.spyOn(performance, "now").mockReturnValue(0);
    onTestFinished(() => clock.mockRestore());
    const begun: string[] = [];
    const come = (others: number, name: string): void => {
      turns.take(others, () => begun.push(name));
    };
    return { come, begun, clock };
  }

  test("begin once no more come, those of addresses that have fewest first", async () => {
    const { come, begun } = gathering();
    for (let others = 1; others <= 2 * PER_TURN; others += 1) {
      come(others, "stranger");
      await nextTurn();
    }
    come(0, "buyer");
    await nextTurn();
    expect(begun).toEqual([]);
    await nextTurn();
    expect(begun).toHaveLength(PER_TURN);
    expect(begun[0]).toBe("buyer");
  });

  test("are not gathered for longer, though more come, and then anew", async () => {
    const { come, begun, clock } = gathering();
    for (let index = 0; index < 3 * PER_TURN; index += 1) come(index, "stranger");
    await nextTurn();
    for (const times of [1, 2]) {
      clock.mockReturnValue(times * GATHER_MS - 1);
      come(0, "another");
      await nextTurn();
      expect(begun).toHaveLength((times - 1) * PER_TURN);
      clock.mockReturnValue(times * GATHER_MS);
      come(0, "another");
      await nextTurn();
      expect(begun).toHaveLength(times * PER_TURN);
    }
  });
});
