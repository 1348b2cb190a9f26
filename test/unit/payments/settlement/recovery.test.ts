import { describe, expect, test } from "vitest";
import { startRecovery } from "../../../../src/payments/settlement/recovery.ts";
import { LedgerUnavailable } from "../../../../src/ledger/ledger.ts";
import { createLogger } from "../../../../src/telemetry/logger.ts";
import { ManualTime } from "../../../support/manual-time.ts";

const ROUND_MS = 2_000;

/** A facilitator whose rounds end when the test says so. */
function stage() {
  const time = new ManualTime();
  const rounds: PromiseWithResolvers<number>[] = [];
  const recover = (): Promise<number> => {
    const round = Promise.withResolvers<number>();
    rounds.push(round);
    return round.promise;
  };
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const logger = createLogger({ level: "info", format: "json", destination });
  return { recovery: startRecovery({ recover }, { logger }, time), rounds, lines, time };
}

describe("recovery", () => {
  test("begins its first round at once and the next two seconds after each", async () => {
    const { recovery, rounds, time } = stage();
    expect(rounds.length).toBe(1);
    rounds[0]?.resolve(3);
    await time.advance(ROUND_MS - 1);
    expect(rounds.length).toBe(1);
    await time.advance(1);
    expect(rounds.length).toBe(2);
    rounds[1]?.resolve(0);
    await recovery.stop();
  });

  test("never runs two rounds at once", async () => {
    const { recovery, rounds, time } = stage();
    await time.advance(10 * ROUND_MS);
    expect(rounds.length).toBe(1);
    rounds[0]?.resolve(0);
    await recovery.stop();
  });

  test("goes on after a round that the ledger failed, and says so", async () => {
    const { recovery, rounds, lines, time } = stage();
    rounds[0]?.reject(new LedgerUnavailable("disk full"));
    await time.advance(ROUND_MS);
    expect(rounds.length).toBe(2);
    expect(lines.map((line): unknown => JSON.parse(line))).toMatchObject([
      { level: "error", err: { message: "disk full" } },
    ]);
    rounds[1]?.resolve(0);
    await recovery.stop();
  });

  test("ends after the round that is running, and begins no other", async () => {
    const { recovery, rounds, time } = stage();
    const stopping = recovery.stop();
    await time.advance(ROUND_MS);
    expect(await Promise.race([stopping, Promise.resolve("still running")])).toBe("still running");
    rounds[0]?.resolve(1);
    await stopping;
    await time.advance(10 * ROUND_MS);
    expect(rounds.length).toBe(1);
  });

  test("ends between two rounds without another", async () => {
    const { recovery, rounds, time } = stage();
    rounds[0]?.resolve(0);
    await time.advance(1);
    await recovery.stop();
    await time.advance(10 * ROUND_MS);
    expect(rounds.length).toBe(1);
  });
});
