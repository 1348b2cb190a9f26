import { describe, expect, it } from "vitest";
import { UpstreamHealth } from "../../../../src/gateway/upstream/upstream-health.ts";

/** A backend's health, and its time in milliseconds. */
function health(): { readonly of: UpstreamHealth; readonly time: { ms: number } } {
  const time = { ms: 5 };
  return { of: new UpstreamHealth(() => time.ms), time };
}

function fail(of: UpstreamHealth, times: number): void {
  for (let count = 0; count < times; count += 1) of.failed();
}

describe("a backend", () => {
  it("is down after three connections in a row have failed", () => {
    const { of } = health();
    fail(of, 2);
    expect(of.mayTry()).toBe(true);
    of.succeeded();
    fail(of, 2);
    expect(of.mayTry()).toBe(true);
    of.failed();
    expect(of.mayTry()).toBe(false);
  });

  it("is not down for failures that are far apart", () => {
    const { of, time } = health();
    for (let count = 0; count < 10; count += 1) {
      of.failed();
      time.ms += 10_001;
    }
    expect(of.mayTry()).toBe(true);
  });

  it("that is down gets one try in each pause, until one succeeds", () => {
    const { of, time } = health();
    fail(of, 3);
    time.ms += 1_999;
    expect(of.mayTry()).toBe(false);
    time.ms += 1;
    expect([of.mayTry(), of.mayTry()]).toEqual([true, false]);
    of.failed();
    time.ms += 1_999;
    expect(of.mayTry()).toBe(false);
    // The try came to nothing: its payment was refused, say.
    time.ms += 60_000;
    expect([of.mayTry(), of.mayTry()]).toEqual([true, false]);
    of.succeeded();
    expect([of.mayTry(), of.mayTry()]).toEqual([true, true]);
  });

  it("that is down stays down when a try fails after a long time", () => {
    const { of, time } = health();
    fail(of, 3);
    time.ms += 60_000;
    expect(of.mayTry()).toBe(true);
    of.failed();
    expect(of.mayTry()).toBe(false);
  });

  it("that others stand in for is tried after pauses that grow to 30 s", () => {
    const { of, time } = health();
    fail(of, 3);
    const pauses: number[] = [];
    for (let round = 0; round < 6; round += 1) {
      const since = time.ms;
      while (!of.mayReturn(0)) time.ms += 100;
      pauses.push(time.ms - since);
      of.failed();
    }
    expect(pauses).toEqual([2_000, 4_000, 8_000, 16_000, 30_000, 30_000]);
    // It is the only one now.
    time.ms += 2_000;
    expect(of.mayTry()).toBe(true);
    of.succeeded();
    fail(of, 3);
    time.ms += 2_000;
    expect(of.mayReturn(0)).toBe(true);
  });

  it("is tried no later for what fails beside a try", () => {
    const { of, time } = health();
    fail(of, 300);
    time.ms += 2_000;
    expect(of.mayReturn(0)).toBe(true);
    fail(of, 300);
    time.ms += 4_000;
    expect(of.mayReturn(0)).toBe(true);
  });

  it("is tried later by who should not be the one to find out", () => {
    const { of, time } = health();
    fail(of, 3);
    time.ms += 6_999;
    expect(of.mayReturn(5_000)).toBe(false);
    time.ms += 1;
    expect(of.mayReturn(5_000)).toBe(true);
  });

  it("tells whenever it goes down or comes up, once", () => {
    const { of } = health();
    const states: boolean[] = [];
    of.watch(() => states.push(of.isDown));
    fail(of, 5);
    of.succeeded();
    of.succeeded();
    fail(of, 2);
    of.succeeded();
    expect(states).toEqual([true, false]);
  });
});
