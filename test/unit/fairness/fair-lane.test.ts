import { describe, expect, test } from "vitest";
import { anyClient, FairLane, knownClient } from "../../../src/fairness/fair-lane.ts";

const never = new AbortController().signal;
const CALLS = 8;
const PLACES = 32;

/** A lane whose work ends when the test says so. */
class Stage {
  readonly lane = new FairLane({
    calls: CALLS,
    waiting: PLACES - CALLS,
    fault: (reason) => new Error(reason),
  });
  /** Clients whose work has begun, in order. */
  readonly begun: string[] = [];
  readonly outcomes: Promise<string>[] = [];
  readonly #running: (() => void)[] = [];

  /** Its payment is found good where the client is a buyer. */
  enter(client: string, signal = never): Promise<string> {
    const work = (): Promise<string> => {
      this.begun.push(client);
      return new Promise((resolve) => {
        this.#running.push(() => resolve("done"));
      });
    };
    const outcome = this.lane
      .run({ client, work, isGood: () => client.includes("buyer") }, signal)
      .catch((cause: unknown) => String(Object(cause).message));
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

describe("payments that are to be judged", () => {
  test("ask the chain a few at a time, and the others in their turn", async () => {
    const stage = new Stage();
    stage.enterTimes(20, (index) => `client ${index}`);
    expect(stage.begun).toHaveLength(CALLS);
    await stage.end();
    expect(stage.begun).toHaveLength(CALLS + 1);
    expect(await stage.finish()).toEqual({ done: 20 });
    expect(stage.begun).toEqual(Array.from({ length: 20 }, (_, index) => `client ${index}`));
    expect(stage.lane.isEmpty).toBe(true);
  });

  test("of one client have half of the places, and there is one for the next", async () => {
    const stage = new Stage();
    stage.enterTimes(1_200, () => "junk");
    void stage.enter("buyer");
    expect(await stage.finish()).toEqual({ done: PLACES / 2 + 1, crowded: 1_200 - PLACES / 2 });
    expect(stage.lane.isEmpty).toBe(true);
  });

  test("are refused at once where all places are taken", async () => {
    const stage = new Stage();
    stage.enterTimes(1_200, (index) => `client ${index}`);
    expect(await stage.enter("buyer")).toBe("crowded");
    expect(await stage.finish()).toEqual({ done: PLACES, crowded: 1_201 - PLACES });
    void stage.enter("buyer");
    expect((await stage.finish())["done"]).toBe(PLACES + 1);
  });

  test("do not wait behind all of another client's", async () => {
    const stage = new Stage();
    stage.enterTimes(CALLS - 1, () => "buyer of many");
    stage.enterTimes(2, () => "buyer");
    void stage.enter("buyer of many");
    await stage.end();
    // Its last turn is the latest, and it has fewer under way.
    expect(stage.begun.at(-1)).toBe("buyer");
    await stage.finish();
  });

  test("wait behind those of clients of whom none was refused", async () => {
    const stage = new Stage();
    for (const client of ["junk", "more junk"]) {
      void stage.enter(client);
      await stage.end();
    }
    stage.enterTimes(CALLS, (index) => `client ${index}`);
    for (const client of ["junk", "more junk", "buyer"]) void stage.enter(client);
    await stage.end();
    expect(stage.begun.at(-1)).toBe("buyer");
    await stage.finish();
  });

  test("of who only asks for judgements, too, wait behind those of whom none was refused", async () => {
    const stage = new Stage();
    const [junk, buyer] = [anyClient("junk"), anyClient("buyer")];
    for (const client of [junk, buyer]) {
      void stage.enter(client);
      await stage.end();
    }
    stage.enterTimes(CALLS, (index) => `client ${index}`);
    for (const client of [junk, buyer]) void stage.enter(client);
    await stage.end();
    // The other's last turn is longer ago.
    expect(stage.begun.at(-1)).toBe(buyer);
    await stage.finish();
  });

  test("are judged as any other's behind a good one", async () => {
    const stage = new Stage();
    for (const client of ["buyer or not", "junk"]) void stage.enter(client);
    await stage.end();
    stage.enterTimes(CALLS - 1, (index) => `client ${index}`);
    for (const client of ["junk", "buyer or not"]) void stage.enter(client);
    await stage.end();
    expect(stage.begun.at(-1)).toBe("buyer or not");
    await stage.finish();
  });

  test("of clients that come again and again wait behind those who have not been there", async () => {
    const stage = new Stage();
    const client = (index: number): string => anyClient(`buyer ${index}`);
    stage.enterTimes(CALLS, client);
    stage.enterTimes(CALLS, client);
    void stage.enter(anyClient("buyer in a hurry"));
    for (let index = 0; index < CALLS; index += 1) await stage.end();
    // The first that ends is behind none of its own, and has had its turn: the newcomer goes before it.
    expect(stage.begun[CALLS]).toBe(anyClient("buyer in a hurry"));
    expect(stage.begun[CALLS + 1]).toBe(client(0));
    await stage.finish();
  });

  test("of who has bought here come before those of thousands who have never been here", async () => {
    const stage = new Stage();
    for (const client of ["buyer", anyClient("buyer"), "buyer, then junk"])
      void stage.enter(client);
    for (let index = 0; index < 3; index += 1) await stage.end();
    // As many as are remembered, and none of them has bought anything.
    for (let index = 0; index < 5_000; index += 1) {
      void stage.enter(`client ${index}`);
      await stage.end();
    }
    const turn = { work: () => Promise.resolve(), isGood: () => false };
    await stage.lane.run({ client: "buyer, then junk", ...turn }, never);
    stage.enterTimes(CALLS, (index) => `busy ${index}`);
    const coming = ["buyer, then junk", anyClient("buyer"), "stranger", "buyer"];
    for (const client of coming) void stage.enter(client);
    const before = stage.begun.length;
    for (let index = 0; index < 3; index += 1) await stage.end();
    expect(stage.begun.slice(before)).toEqual(["buyer", "stranger", anyClient("buyer")]);
    await stage.finish();
  });

  test("that could not be judged put their client behind as well", async () => {
    const stage = new Stage();
    const down = () => Promise.reject(new Error("no node"));
    const turn = { client: "buyer of trouble", work: down, isGood: () => true };
    await expect(stage.lane.run(turn, never)).rejects.toThrow("no node");
    void stage.enter("buyer");
    await stage.end();
    stage.enterTimes(CALLS, (index) => `client ${index}`);
    for (const client of ["buyer of trouble", "buyer"]) void stage.enter(client);
    await stage.end();
    expect(stage.begun.at(-1)).toBe("buyer");
    await stage.finish();
  });

  test("are first those of clients with a token, then of who buys here, then of whoever asks", async () => {
    const stage = new Stage();
    const [known, anybody] = [knownClient("shop"), anyClient("192.0.2.1")];
    void stage.enter(known);
    await stage.end();
    stage.enterTimes(CALLS, (index) => `client ${index}`);
    for (const client of [anybody, "stranger", known, known]) void stage.enter(client);
    for (let index = 0; index < 4; index += 1) await stage.end();
    const order = stage.begun.slice(1 + CALLS);
    expect(order.toSorted()).toEqual([anybody, known, known, "stranger"].toSorted());
    expect(order.indexOf("stranger")).toBeLessThan(order.indexOf(anybody));
    expect(order.lastIndexOf(known)).toBeLessThan(order.indexOf(anybody));
    await stage.finish();
  });

  test("are no further behind for being many", async () => {
    const stage = new Stage();
    for (let index = 0; index < 20; index += 1) {
      void stage.enter("junk");
      await stage.end();
    }
    for (let index = 0; index < 5; index += 1) {
      void stage.enter("more junk");
      await stage.end();
    }
    stage.enterTimes(CALLS, (index) => `client ${index}`);
    for (const client of ["more junk", "junk"]) void stage.enter(client);
    await stage.end();
    // Equally far behind, and its last turn is longer ago.
    expect(stage.begun.at(-1)).toBe("junk");
    await stage.finish();
  });

  test("give their places back when their time is up, and when their work fails", async () => {
    const stage = new Stage();
    stage.enterTimes(CALLS, (index) => `client ${index}`);
    const patience = new AbortController();
    const waiting = stage.enter("buyer", patience.signal);
    patience.abort();
    expect(await waiting).toBe("late");
    expect(await stage.enter("buyer", patience.signal)).toBe("late");
    await stage.finish();
    expect(stage.lane.isEmpty).toBe(true);
    const failure = stage.lane.run(
      { client: "buyer", work: () => Promise.reject(new Error("no node")), isGood: () => true },
      never,
    );
    await expect(failure).rejects.toThrow("no node");
    expect(stage.lane.isEmpty).toBe(true);
  });
});
