import { expect, test, vi } from "vitest";
import { startReaping } from "../../../src/app/recoveries.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import { SteppedTime } from "./stepped-time.ts";

test("what dead processes left is freed at once and again and again, whatever goes wrong", async () => {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const logger = createLogger({ level: "info", format: "json", destination });
  const telemetry = { logger, metrics: new Metrics("test") };
  const time = new SteppedTime();
  const answers = [3, new Error("no database"), 0, 2];
  let rounds = 0;
  const reap = async (): Promise<number> => {
    const answer = answers[rounds] ?? 0;
    rounds += 1;
    if (answer instanceof Error) throw answer;
    return answer;
  };
  const reaping = startReaping({ ledger: { reap }, telemetry, time });
  for (let round = 1; round <= answers.length; round += 1) {
    await vi.waitFor(() => expect(time.pauses).toEqual([5_000]));
    expect(rounds).toBe(round);
    time.wakeAll();
  }
  await reaping.stop();

  expect(lines.map((line) => Object(JSON.parse(line)).freed)).toEqual([3, undefined, 2]);
  expect(lines[1]).toContain("no database");
  const after = rounds;
  time.wakeAll();
  await new Promise(setImmediate);
  expect(rounds).toBe(after);
});
