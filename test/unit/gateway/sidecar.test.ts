import { describe, expect, test, vi } from "vitest";
import { HeldAnswers } from "../../../src/gateway/sidecar/held-answers.ts";
import { Passes } from "../../../src/gateway/sidecar/passes.ts";

const answer = (body: string) => ({ status: 402, lines: [], body });

describe("an answer that a proxy fetches", () => {
  test("is given out once, under its own name only", () => {
    const held = new HeldAnswers();
    const first = held.hold(answer("first"));
    const second = held.hold(answer("second"));

    expect(first).not.toBe(second);
    expect(held.take("another name")).toBeUndefined();
    expect(held.take(second)?.body).toBe("second");
    expect(held.take(first)?.body).toBe("first");
    expect(held.take(first)).toBeUndefined();
  });

  test("is forgotten before the newer ones when too many wait", () => {
    const held = new HeldAnswers();
    const names = Array.from({ length: 5_000 }, (_, index) => held.hold(answer(String(index))));
    const found = names.map((name) => held.take(name)?.body).filter((body) => body !== undefined);

    expect(found).toHaveLength(4_096);
    expect(found.at(-1)).toBe("4999");
  });
});

describe("a pass that is reported about", () => {
  test("ends with the first status, and with no other", async () => {
    const passes = new Passes(60_000, () => undefined);
    const { id, status } = passes.open();

    expect(passes.report(id, 502)).toBe(true);
    expect(passes.report(id, 200)).toBe(false);
    await expect(status).resolves.toBe(502);
  });

  test("counts as served where no report comes in time, and when none can come any more", async () => {
    const onUnreported = vi.fn<() => void>();
    const late = new Passes(1, onUnreported).open();
    const passes = new Passes(60_000, onUnreported);
    const open = passes.open();
    passes.close();

    await expect(late.status).resolves.toBe(200);
    await expect(open.status).resolves.toBe(200);
    expect(onUnreported).toHaveBeenCalledTimes(1);
  });
});
