import { describe, expect, test } from "vitest";
import { aggregateMetrics, EndedMetrics } from "../../../src/telemetry/aggregate-metrics.ts";
import { expose } from "../../../src/telemetry/exposition.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import type { TargetReading } from "../../../src/telemetry/target-meter.ts";
import { valuesIn } from "./scrape.ts";

function idle(): TargetReading {
  return { isUp: true, active: 0 };
}

function metricsWith(reading: TargetReading): Metrics {
  const metrics = new Metrics("test");
  const a = metrics.targets.target("api", "10.0.0.1:80", () => reading);
  a.count("answered");
  a.count("answered");
  a.count("broken");
  a.checked(false);
  a.left("down");
  metrics.targets.target("api", "10.0.0.2:80", () => ({ isUp: true, active: 0 })).checked(true);
  metrics.targets.retried("api", "503");
  return metrics;
}

describe("the targets of an upstream", () => {
  test("are told apart, and asked at each scrape", async () => {
    const reading = { isUp: true, active: 0 };
    const metrics = metricsWith(reading);
    const values = async (name: string) => valuesIn(await metrics.registry.metrics(), name);
    expect(await values("coinslot_upstream_target_up")).toEqual({
      "target=10.0.0.1:80 upstream=api": 1,
      "target=10.0.0.2:80 upstream=api": 1,
    });
    Object.assign(reading, { isUp: false, active: 3 });
    expect(await values("coinslot_upstream_target_up")).toEqual({
      "target=10.0.0.1:80 upstream=api": 0,
      "target=10.0.0.2:80 upstream=api": 1,
    });
    expect(await values("coinslot_upstream_target_requests_in_flight")).toEqual({
      "target=10.0.0.1:80 upstream=api": 3,
      "target=10.0.0.2:80 upstream=api": 0,
    });
    for (let scrape = 0; scrape < 2; scrape += 1) {
      expect(await values("coinslot_upstream_target_requests_total")).toEqual({
        "result=answered target=10.0.0.1:80 upstream=api": 2,
        "result=broken target=10.0.0.1:80 upstream=api": 1,
      });
    }
    expect(await values("coinslot_upstream_target_checks_total")).toEqual({
      "result=bad target=10.0.0.1:80 upstream=api": 1,
      "result=good target=10.0.0.2:80 upstream=api": 1,
    });
    expect(await values("coinslot_upstream_target_departures_total")).toEqual({
      "state=down target=10.0.0.1:80 upstream=api": 1,
    });
    expect(await values("coinslot_upstream_retries_total")).toEqual({
      "reason=503 upstream=api": 1,
    });
  });

  test("keep their counts when a configuration is read again", async () => {
    const metrics = metricsWith({ isUp: true, active: 0 });
    metrics.targets
      .target("api", "10.0.0.1:80", () => ({ isUp: false, active: 0 }))
      .count("answered");
    const text = await metrics.registry.metrics();
    expect(valuesIn(text, "coinslot_upstream_target_requests_total")).toMatchObject({
      "result=answered target=10.0.0.1:80 upstream=api": 3,
    });
    expect(valuesIn(text, "coinslot_upstream_target_up")).toMatchObject({
      "target=10.0.0.1:80 upstream=api": 0,
    });
  });

  test("are gone when nobody reads them any more", async () => {
    const metrics = new Metrics("test");
    const [first, second] = [idle, () => idle()].map((each) =>
      metrics.targets.target("api", "10.0.0.1:80", each),
    );
    const up = async () =>
      valuesIn(await metrics.registry.metrics(), "coinslot_upstream_target_up");
    first?.retire();
    expect(await up()).toEqual({ "target=10.0.0.1:80 upstream=api": 1 });
    second?.retire();
    expect(await up()).toEqual({});
  });

  test("are down for several processes together where one of them says so", async () => {
    const all = [metricsWith({ isUp: true, active: 2 }), metricsWith({ isUp: false, active: 3 })];
    const told = await Promise.all(
      all.map(async ({ registry }, index) => {
        return { worker: String(index), metrics: await registry.snapshot(), isLeaving: false };
      }),
    );
    const text = expose(aggregateMetrics(told, new EndedMetrics()));
    expect(valuesIn(text, "coinslot_upstream_target_up")).toMatchObject({
      "target=10.0.0.1:80 upstream=api": 0,
    });
    expect(valuesIn(text, "coinslot_upstream_target_requests_in_flight")).toMatchObject({
      "target=10.0.0.1:80 upstream=api": 5,
    });
  });
});
