import type { ReadableSpan, SpanExporter } from "@opentelemetry/sdk-trace";
import { describe, expect, test } from "vitest";
import { SpanQueue } from "../../../src/telemetry/span-queue.ts";

type Outcome = "taken" | "refused" | "silent";

/** A collector that answers as it is told, and spans without content. */
function stage(outcome: (batch: number) => Outcome, limits = { maxQueued: 4, maxBatch: 2 }) {
  const batches: number[] = [];
  const counts: Record<string, number> = {};
  let isShut = false;
  const exporter: SpanExporter = {
    export(spans, done) {
      batches.push(spans.length);
      const said = outcome(batches.length);
      if (said === "taken") setImmediate(() => done({ code: 0 }));
      else if (said === "refused") setImmediate(() => done({ code: 1, error: new Error("no") }));
    },
    async shutdown() {
      isShut = true;
    },
  };
  const meter = {
    count: (result: string, spans: number) => {
      if (spans > 0) counts[result] = (counts[result] ?? 0) + spans;
    },
  };
  const queue = new SpanQueue({ exporter, meter, ...limits, delayMs: 3_600_000, timeoutMs: 50 });
  const end = (times: number, traceFlags = 1) => {
    for (let count = 0; count < times; count += 1) queue.onEnd(spanWith(traceFlags));
  };
  return { queue, end, batches, counts, isShut: () => isShut };
}

function spanWith(traceFlags: number): ReadableSpan {
  const spanContext = () => ({ traceId: "a", spanId: "b", traceFlags });
  return { spanContext } as Partial<ReadableSpan> as ReadableSpan;
}

describe("ended spans", () => {
  test("are sent in batches, and the rest at the end", async () => {
    const { queue, end, batches, counts, isShut } = stage(() => "taken", {
      maxQueued: 10,
      maxBatch: 2,
    });
    end(5);
    await queue.shutdown();
    expect(batches).toEqual([2, 2, 1]);
    expect(counts).toEqual({ exported: 5 });
    expect(isShut()).toBe(true);
  });

  test("are dropped and counted when more of them wait than may", async () => {
    const { queue, end, counts } = stage(() => "taken");
    // Two are under way at once, four may wait.
    end(9);
    expect(counts).toEqual({ dropped: 3 });
    await queue.shutdown();
    expect(counts).toEqual({ dropped: 3, exported: 6 });
  });

  test("that are not sampled are nobody's", async () => {
    const { queue, end, batches, counts } = stage(() => "taken");
    end(3, 0);
    await queue.shutdown();
    expect([batches, counts]).toEqual([[], {}]);
  });

  test("are counted as failed where the collector does not take them, and later ones are tried", async () => {
    const { queue, end, counts } = stage((batch) => (batch === 1 ? "refused" : "taken"));
    end(4);
    await queue.forceFlush();
    expect(counts).toEqual({ failed: 2, exported: 2 });
    await queue.shutdown();
  });

  test("hold up no shutdown when the collector says nothing", async () => {
    const { queue, end, counts, isShut } = stage(() => "silent");
    end(6);
    await queue.shutdown();
    end(1);
    expect(isShut()).toBe(true);
    // All of them are accounted for, once.
    const { failed = 0, dropped = 0, exported = 0 } = counts;
    expect(exported).toBe(0);
    expect(failed + dropped).toBeGreaterThanOrEqual(5);
  });
});
