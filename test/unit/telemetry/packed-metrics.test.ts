import { deserialize, serialize } from "node:v8";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { expose, type Family } from "../../../src/telemetry/exposition.ts";
import { Metrics } from "../../../src/telemetry/metrics.ts";
import {
  MetricsPacker,
  MetricsUnpacker,
  type PackedMetrics,
} from "../../../src/telemetry/packed-metrics.ts";

/** As it arrives in another process. */
function sent(packed: PackedMetrics): PackedMetrics {
  return deserialize(serialize(packed)) as PackedMetrics;
}

function meet(metrics: Metrics, route: string): void {
  const exemplar = `trace_id="0af7651916cd43dd8448eb211c80319c"`;
  metrics.route(route).finished(200, "paid", 0.3, 0.1, exemplar);
  metrics.route(route).finished(402, "challenged", 0.0001, 0);
}

describe("metrics that cross to another process", () => {
  test("are there what they were here, exemplars among them", async () => {
    const metrics = new Metrics("test");
    meet(metrics, "GET /a");
    const snapshot = await metrics.registry.snapshot();
    const arrived = new MetricsUnpacker().unpack(sent(new MetricsPacker().pack(snapshot, 0)));
    for (const format of ["text", "openmetrics"] as const) {
      expect(expose(arrived ?? [], format)).toBe(expose(snapshot, format));
    }
    expect(expose(arrived ?? [], "openmetrics")).toContain("# {trace_id=");
  });

  test("name their rows once, and again when one is new", async () => {
    const metrics = new Metrics("test");
    const packer = new MetricsPacker();
    const unpacker = new MetricsUnpacker();
    const cross = async (): Promise<PackedMetrics> => {
      const packed = sent(packer.pack(await metrics.registry.snapshot(), unpacker.revision));
      unpacker.unpack(packed);
      return packed;
    };
    meet(metrics, "GET /a");
    expect((await cross()).shapes).not.toBeNull();
    meet(metrics, "GET /a");
    expect((await cross()).shapes).toBeNull();
    meet(metrics, "GET /b");
    expect((await cross()).shapes).not.toBeNull();
    const snapshot = await metrics.registry.snapshot();
    const packed = sent(packer.pack(snapshot, unpacker.revision));
    expect(packed.shapes).toBeNull();
    expect(expose(unpacker.unpack(packed) ?? [])).toBe(expose(snapshot));
  });

  test("are not guessed where their names are unknown", async () => {
    const packer = new MetricsPacker();
    const snapshot = await new Metrics("test").registry.snapshot();
    const { revision } = packer.pack(snapshot, 0);
    const unpacker = new MetricsUnpacker();
    expect(unpacker.unpack(sent(packer.pack(snapshot, revision)))).toBeUndefined();
    const asked = packer.pack(snapshot, unpacker.revision);
    expect(expose(unpacker.unpack(sent(asked)) ?? [])).toBe(expose(snapshot));
  });

  test("keep any values and any order, however the rows change between two scrapes", () => {
    const row = fc.record({
      labels: fc.constantFrom("", 'a="1"', 'a="2"', 'b="x"'),
      values: fc.tuple(fc.integer(), fc.double(), fc.integer(), fc.double()),
    });
    const rows = fc.uniqueArray(row, { selector: ({ labels }) => labels });
    const family = fc.record({ name: fc.constantFrom("one", "two", "three"), rows });
    const families = fc.uniqueArray(family, { selector: ({ name }) => name });
    fc.assert(
      fc.property(fc.array(families, { minLength: 1, maxLength: 4 }), (scrapes) => {
        const packer = new MetricsPacker();
        const unpacker = new MetricsUnpacker();
        for (const scrape of scrapes) {
          const snapshot = scrape.map((each): Family => ({
            ...each,
            help: each.name,
            type: "histogram",
            merge: "sum",
            bounds: [0.5, 1],
          }));
          const arrived = unpacker.unpack(sent(packer.pack(snapshot, unpacker.revision))) ?? [];
          expect(expose(arrived)).toBe(expose(snapshot));
        }
      }),
    );
  });
});
