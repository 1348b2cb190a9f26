/** Places in the air, of a payer whom nobody knows. */
import { expect, test } from "vitest";
import { FailureBudget, MAX_FAILURES } from "../../../../src/payments/settlement/failure-budget.ts";
import { Places } from "../../../../src/payments/settlement/places.ts";
import { RevertedGas } from "../../../../src/payments/settlement/reverted-gas.ts";
import { createLogger } from "../../../../src/telemetry/logger.ts";
import { Metrics } from "../../../../src/telemetry/metrics.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import { keyOf, payment, range } from "./engine-stage.ts";

test("a payment that is handed out twice has one place, and gives back one", () => {
  const time = new ManualTime();
  const places = new Places({
    network: "base-sepolia",
    rules: { isOrdered: true, maxOpen: 64 },
    budget: new FailureBudget(time),
    revertedGas: new RevertedGas(time),
    telemetry: {
      logger: createLogger({ level: "silent", format: "json" }),
      metrics: new Metrics("test"),
    },
    time,
  });
  const [twice, ...others] = range(1, MAX_FAILURES + 1).map((number) => ({
    key: keyOf(payment(number)),
    checked: { payer: "the payer", runsCode: false },
  }));
  if (twice === undefined) throw new Error("there is none");
  places.take([twice]);
  places.take([twice]);
  places.release([twice.key]);
  for (const other of others) {
    expect(places.admits(other)).toBe(true);
    places.take([other]);
  }
  expect(places.admits(twice)).toBe(false);
});
