import { expect, test } from "vitest";
import { clientOptions } from "../../../src/app/client-options.ts";
import { GATEWAY, parse, ROUTES } from "../config/fixture.ts";

const config = parse(`${GATEWAY}${ROUTES}
trustedProxies: [10.0.0.0/8]
limits: { unpaidPerIp: 50/s, bodyIdle: 7s, bodyTimeout: 70s, bodyRate: 700B/s, answerIdle: 8s, answerRate: 800B/s }
`);

test("what is configured of clients is what the gateway gets", () => {
  const { trustedProxies, unpaidRates, bodyLimits, answerLimits } = clientOptions(config, 1);
  expect([trustedProxies.has("10.1.2.3"), trustedProxies.has("11.1.2.3")]).toEqual([true, false]);
  const rate = { requests: 50, perMs: 1_000 };
  expect(unpaidRates).toEqual({ asked: rate, refused: rate, unproven: rate });
  expect(bodyLimits).toEqual({ idleMs: 7_000, totalMs: 70_000, bytesPerSecond: 700 });
  expect(answerLimits).toEqual({ graceMs: 8_000, bytesPerSecond: 800 });
});

test("several fronts share the rate of unpaid requests, and none of them its burst", () => {
  const rate = { requests: 50, perMs: 4_000 };
  const { unpaidRates } = clientOptions(config, 4);
  expect(unpaidRates).toEqual({ asked: rate, refused: rate, unproven: rate });
});

test("unproven payments have a limit where none is configured, and others have not", () => {
  const unproven = { requests: 120, perMs: 240_000 };
  const { unpaidRates } = clientOptions(parse(GATEWAY + ROUTES), 4);
  expect(unpaidRates).toEqual({ asked: null, refused: null, unproven });
});
