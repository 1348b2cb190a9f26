import { describe, expect, test } from "vitest";
import {
  check,
  CheckedState,
  type HealthFinding,
  type Probe,
} from "../../../../../src/gateway/upstream/backend/health-check.ts";
import { ManualTime } from "../../../../support/manual-time.ts";

describe("the state that checks tell", () => {
  test("changes after so many in a row, and not before", () => {
    const state = new CheckedState({ up: 2, down: 3 });
    const notes = (...goods: boolean[]): boolean[] => goods.map((isGood) => state.note(isGood));
    expect(notes(false, false, true, false, false)).toEqual([false, false, false, false, false]);
    expect(state.isDown).toBe(false);
    expect(notes(false)).toEqual([true]);
    expect(state.isDown).toBe(true);
    expect(notes(true, false, true, true, true)).toEqual([false, false, false, true, false]);
    expect(state.isDown).toBe(false);
  });
});

const options = { path: "/", intervalMs: 10_000, timeoutMs: 2_000, up: 2, down: 3 };

function staged(probe: Probe, random = 0.5) {
  const time = new ManualTime();
  const ending = new AbortController();
  const reports: HealthFinding[] = [];
  const report = (finding: HealthFinding): void => void reports.push(finding);
  const { signal } = ending;
  const ended = check({ options, probe, report, time, random: () => random, signal });
  return { time, ending, reports, ended };
}

describe("checks", () => {
  test("come at once, and then an interval apart, one at a time", async () => {
    let running = 0;
    let most = 0;
    const { time, reports, ending, ended } = staged(async () => {
      running += 1;
      most = Math.max(most, running);
      await time.sleep(500);
      running -= 1;
      return null;
    });
    await time.advance(1_100);
    expect(reports).toEqual([null]);
    await time.advance(10_400);
    expect(reports).toEqual([null, null]);
    await time.advance(105_000);
    expect(reports).toHaveLength(12);
    expect(most).toBe(1);
    ending.abort();
    await ended;
  });

  test.each([
    [0, 9_000],
    [0.5, 10_000],
    [0.999_999, 10_999],
  ])("are jittered: at %d, %d ms lie between two", async (random, pauseMs) => {
    const times: number[] = [];
    const { time, ending, ended } = staged(() => {
      times.push(time.now());
      return Promise.resolve(null);
    }, random);
    await time.advance(60_000);
    const [first = 0, second = 0] = times;
    expect(Math.floor(second - first)).toBe(pauseMs);
    ending.abort();
    await ended;
  });

  test("have a deadline", async () => {
    const { time, reports, ending, ended } = staged(
      (signal) =>
        new Promise((resolve) => {
          signal.addEventListener("abort", () => resolve("was cut off"));
        }),
    );
    await time.advance(2_400);
    expect(reports).toEqual([]);
    await time.advance(200);
    expect(reports).toEqual(["did not answer within 2000 ms"]);
    ending.abort();
    await ended;
  });

  test("end at once, and one that is under way then says nothing", async () => {
    const { time, reports, ending, ended } = staged(
      (signal) =>
        new Promise((resolve) => {
          signal.addEventListener("abort", () => resolve("was cut off"));
        }),
    );
    await time.advance(1_000);
    ending.abort();
    await ended;
    expect(reports).toEqual([]);
  });
});
