/** When certificates are asked for. */
import { describe, expect, test } from "vitest";
import { FAILURES_AN_HOUR, pauseMs, renewalMs } from "../../../src/certificates/schedule.ts";
import { FIRST, SECOND } from "../../support/listener-tls.ts";

const HOUR_MS = 3_600_000;

describe("a certificate is renewed", () => {
  test("with a third of its life left, sooner for nobody and later for each by its own part", () => {
    const [from, to] = [Date.UTC(2020, 0, 1), Date.UTC(2125, 0, 1)];
    const parts = [FIRST, SECOND].map(({ cert }) => (renewalMs(cert) - from) / (to - from));
    for (const part of parts) {
      expect(part).toBeGreaterThanOrEqual(2 / 3);
      expect(part).toBeLessThan(0.7);
    }
    expect(new Set(parts).size).toBe(2);
    expect(renewalMs(FIRST.cert)).toBe(renewalMs(FIRST.cert));
  });
});

describe("after a failure nothing is asked", () => {
  test("for longer each time, so that no hour has more of them than an authority bears", () => {
    const times: number[] = [];
    let nowMs = 0;
    for (let failures = 1; nowMs < 48 * HOUR_MS; failures += 1) {
      times.push(nowMs);
      nowMs += pauseMs({ failures, isOutage: false }, 0);
    }
    const most = Math.max(
      ...times.map((fromMs) => times.filter((ms) => ms >= fromMs && ms < fromMs + HOUR_MS).length),
    );
    expect(most).toBe(FAILURES_AN_HOUR);
    expect(nowMs - (times.at(-1) ?? 0)).toBe(6 * HOUR_MS);
  });

  test("for ten minutes at most where the authority was not there", () => {
    expect(pauseMs({ failures: 1_000, isOutage: true }, 0)).toBe(600_000);
  });

  test("for as long as the authority says, up to a day", () => {
    expect(pauseMs({ failures: 1, isOutage: true, askedMs: 5 * HOUR_MS }, 0)).toBe(5 * HOUR_MS);
    expect(pauseMs({ failures: 1, isOutage: false, askedMs: 1e12 }, 0)).toBe(24 * HOUR_MS);
    expect(pauseMs({ failures: 1, isOutage: false, askedMs: 0 }, 1)).toBe(132_000);
  });
});
