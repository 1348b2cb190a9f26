import { describe, expect, test } from "vitest";
import { inContext } from "../../../src/telemetry/request-context.ts";
import { timed, Timeline, type TimelineHead } from "../../../src/telemetry/timeline.ts";

const presented = { version: 1, scheme: "exact", network: "base", payer: "0x1", members: [] };

function headOf(path: string, payment: TimelineHead["presented"]): TimelineHead {
  const place = { method: "GET", path, route: "GET /*", connection: null, target: path };
  return { ...place, presented: payment, asked: [] };
}

function within<Value>(requestId: string, work: () => Value): Value {
  return inContext({ facts: { requestId, payment: "key" }, trace: null }, work);
}

describe("a timeline", () => {
  test("tells what changed since it was asked last", () => {
    const timeline = new Timeline(() => 7);
    const first = timeline.begin("a", headOf("/1", presented));
    const { version, records } = timeline.read(0);
    expect(records).toMatchObject([{ id: "a", atMs: 7, end: null, steps: [] }]);
    expect(timeline.read(version).records).toEqual([]);

    timeline.end(first, { status: 200, outcome: "paid", ms: 5 }, "key");
    expect(timeline.read(version).records).toMatchObject([
      { id: "a", key: "key", end: { status: 200, outcome: "paid", ms: 5 } },
    ]);
  });

  test("is not changed by what happens after it was read", () => {
    const timeline = new Timeline(() => 7);
    timeline.begin("a", headOf("/1", presented));
    const { records } = timeline.read(0);
    within("a", () => timeline.beginStep("verification"));
    expect(records[0]?.steps).toEqual([]);
  });

  test("remembers the newest 100 questions, and 400 payments that no question pushes out", () => {
    const timeline = new Timeline(() => 7);
    for (let count = 0; count < 401; count += 1) {
      timeline.begin(`p${count}`, headOf(`/p${count}`, presented));
    }
    for (let count = 0; count < 1_000; count += 1) {
      timeline.begin(`q${count}`, headOf(`/q${count}`, null));
    }
    const ids = new Set(timeline.read(0).records.map(({ id }) => id));
    expect(ids.size).toBe(500);
    expect([ids.has("p0"), ids.has("p1"), ids.has("q899"), ids.has("q900")]).toEqual([
      false,
      true,
      false,
      true,
    ]);
  });

  test("keeps the steps of a request that another process serves, and twelve of them at most", () => {
    const timeline = new Timeline(() => 7);
    for (let count = 0; count < 20; count += 1) {
      within("elsewhere", () => timeline.beginStep("settlement")?.end(true, `${count}`));
    }
    const [record] = timeline.read(0).records;
    expect(record).toMatchObject({ id: "elsewhere", head: null, key: "key" });
    expect(record?.steps.map(({ note }) => note)).toEqual(
      Array.from({ length: 12 }, (_, index) => String(index)),
    );
  });

  test("takes no step of what belongs to no request", () => {
    expect(new Timeline(() => 7).beginStep("settlement")).toBeUndefined();
  });

  test("tells that a step failed, and nothing of the fault, which may name what is secret", async () => {
    const timeline = new Timeline(() => 7);
    timeline.begin("a", headOf("/1", presented));
    const step = within("a", () => timeline.beginStep("verification"));
    const fault = new Error("https://user:secret@rpc.example.com does not answer");
    const failing = timed(
      step,
      () => Promise.reject(fault),
      () => ({ isGood: true, note: "" }),
    );
    await expect(failing).rejects.toBe(fault);
    const { records } = timeline.read(0);
    expect(records[0]?.steps).toMatchObject([{ name: "verification", isGood: false }]);
    expect(JSON.stringify(records)).not.toContain("secret");
  });
});
