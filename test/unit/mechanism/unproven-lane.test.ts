import { describe, expect, test } from "vitest";
import {
  MAX_UNPROVEN_CALLS,
  MAX_UNPROVEN_WAITING,
  UnprovenLane,
} from "../../../src/mechanism/unproven-lane.ts";

const never = new AbortController().signal;
const PLACES = MAX_UNPROVEN_CALLS + MAX_UNPROVEN_WAITING;

/** A lane whose work ends when the test says so. */
class Stage {
  readonly lane = new UnprovenLane();
  /** Clients whose work has begun, in order. */
  readonly begun: string[] = [];
  readonly outcomes: Promise<string>[] = [];
  readonly #running: (() => void)[] = [];

  enter(client: string, signal = never): Promise<string> {
    const work = (): Promise<string> => {
      this.begun.push(client);
      return new Promise((resolve) => {
        this.#running.push(() => resolve("done"));
      });
    };
    const outcome = this.lane
      .run(client, work, signal)
      .catch((cause: unknown) => String(Object(cause).code));
    this.outcomes.push(outcome);
    return outcome;
  }

  enterTimes(times: number, client: (index: number) => string): void {
    for (let index = 0; index < times; index += 1) void this.enter(client(index));
  }

  /** Ends the work that began first. */
  async end(): Promise<void> {
    this.#running.shift()?.();
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
  }

  /** Ends everything, and counts the outcomes. */
  async finish(): Promise<Record<string, number>> {
    while (this.#running.length > 0) await this.end();
    const counts: Record<string, number> = {};
    for (const outcome of await Promise.all(this.outcomes)) {
      counts[outcome] = (counts[outcome] ?? 0) + 1;
    }
    return counts;
  }
}

describe("payments of which nothing is proven", () => {
  test("ask the chain a few at a time, and the others in their turn", async () => {
    const stage = new Stage();
    stage.enterTimes(20, (index) => `client ${index}`);
    expect(stage.begun).toHaveLength(MAX_UNPROVEN_CALLS);
    await stage.end();
    expect(stage.begun).toHaveLength(MAX_UNPROVEN_CALLS + 1);
    expect(await stage.finish()).toEqual({ done: 20 });
    expect(stage.begun).toEqual(Array.from({ length: 20 }, (_, index) => `client ${index}`));
    expect(stage.lane.isEmpty).toBe(true);
  });

  test("of one client have half of the places, and there is one for the next", async () => {
    const stage = new Stage();
    stage.enterTimes(1_200, () => "junk");
    void stage.enter("buyer");
    expect(await stage.finish()).toEqual({ done: PLACES / 2 + 1, CHAIN_BUSY: 1_200 - PLACES / 2 });
    expect(stage.lane.isEmpty).toBe(true);
  });

  test("are refused at once where all places are taken", async () => {
    const stage = new Stage();
    stage.enterTimes(1_200, (index) => `client ${index}`);
    expect(await stage.enter("buyer")).toBe("CHAIN_BUSY");
    expect(await stage.finish()).toEqual({ done: PLACES, CHAIN_BUSY: 1_201 - PLACES });
    void stage.enter("buyer");
    expect((await stage.finish())["done"]).toBe(PLACES + 1);
  });

  test("do not wait behind all of another client's", async () => {
    const stage = new Stage();
    stage.enterTimes(PLACES / 2, () => "junk");
    void stage.enter("buyer");
    await stage.end();
    expect(stage.begun.at(-1)).toBe("buyer");
    await stage.finish();
  });

  test("give their places back when their time is up, and when their work fails", async () => {
    const stage = new Stage();
    stage.enterTimes(MAX_UNPROVEN_CALLS, (index) => `client ${index}`);
    const patience = new AbortController();
    const waiting = stage.enter("buyer", patience.signal);
    patience.abort();
    expect(await waiting).toBe("CHAIN_TIMEOUT");
    expect(await stage.enter("buyer", patience.signal)).toBe("CHAIN_TIMEOUT");
    await stage.finish();
    expect(stage.lane.isEmpty).toBe(true);
    const failure = stage.lane.run("buyer", () => Promise.reject(new Error("no node")), never);
    await expect(failure).rejects.toThrow("no node");
    expect(stage.lane.isEmpty).toBe(true);
  });
});
