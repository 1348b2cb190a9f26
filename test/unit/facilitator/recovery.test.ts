import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { startRecovery } from "../../../src/facilitator/recovery.ts";
import { LedgerUnavailable } from "../../../src/ledger/ledger.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";

const ROUND_MS = 5_000;

beforeEach(() => vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] }));
afterEach(() => vi.useRealTimers());

/** A facilitator whose rounds end when the test says so. */
function stage() {
  const rounds: PromiseWithResolvers<number>[] = [];
  const recover = (): Promise<number> => {
    const round = Promise.withResolvers<number>();
    rounds.push(round);
    return round.promise;
  };
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const logger = createLogger({ level: "info", format: "json", destination });
  const metrics = new Metrics("test");
  const unresolved = async (): Promise<number | undefined> => {
    const gauge = metrics.registry.getSingleMetric("coinslot_settlements_unresolved");
    return (await gauge?.get())?.values[0]?.value;
  };
  return { recovery: startRecovery({ recover }, { logger, metrics }), rounds, lines, unresolved };
}

describe("recovery", () => {
  test("begins its first round at once and the next five seconds after each", async () => {
    const { recovery, rounds, unresolved } = stage();
    expect(rounds.length).toBe(1);
    rounds[0]?.resolve(3);
    await vi.advanceTimersByTimeAsync(ROUND_MS - 1);
    expect([rounds.length, await unresolved()]).toEqual([1, 3]);
    await vi.advanceTimersByTimeAsync(1);
    expect(rounds.length).toBe(2);
    rounds[1]?.resolve(0);
    await recovery.stop();
    expect(await unresolved()).toBe(0);
  });

  test("never runs two rounds at once", async () => {
    const { recovery, rounds } = stage();
    await vi.advanceTimersByTimeAsync(10 * ROUND_MS);
    expect(rounds.length).toBe(1);
    rounds[0]?.resolve(0);
    await recovery.stop();
  });

  test("goes on after a round that the ledger failed, and says so", async () => {
    const { recovery, rounds, lines } = stage();
    rounds[0]?.reject(new LedgerUnavailable("disk full"));
    await vi.advanceTimersByTimeAsync(ROUND_MS);
    expect(rounds.length).toBe(2);
    expect(lines.map((line): unknown => JSON.parse(line))).toMatchObject([
      { level: "error", err: { message: "disk full" } },
    ]);
    rounds[1]?.resolve(0);
    await recovery.stop();
  });

  test("ends after the round that is running, and begins no other", async () => {
    const { recovery, rounds } = stage();
    const stopping = recovery.stop();
    await vi.advanceTimersByTimeAsync(ROUND_MS);
    expect(await Promise.race([stopping, Promise.resolve("still running")])).toBe("still running");
    rounds[0]?.resolve(1);
    await stopping;
    await vi.advanceTimersByTimeAsync(10 * ROUND_MS);
    expect(rounds.length).toBe(1);
  });

  test("ends between two rounds without another", async () => {
    const { recovery, rounds } = stage();
    rounds[0]?.resolve(0);
    await vi.advanceTimersByTimeAsync(1);
    await recovery.stop();
    await vi.advanceTimersByTimeAsync(10 * ROUND_MS);
    expect(rounds.length).toBe(1);
  });
});
