import { describe, expect, test } from "vitest";
import {
  Circuit,
  FAILURES_TO_OPEN,
  FIRST_COOL_DOWN_MS,
  MAX_COOL_DOWN_MS,
  TRIAL_MS,
  WELL_FOR_MS,
  type Send,
} from "../../../src/facilitator/circuit.ts";
import { FacilitatorFault, RequestRefused } from "../../../src/payments/facilitator.ts";

const never = new AbortController().signal;

const broken = (send: Send) => send(() => Promise.reject(new Error("ledger")), never);

function stage() {
  const time = { nowMs: 0, now: () => time.nowMs };
  const changes: boolean[] = [];
  const circuit = new Circuit({ time, onChange: (isHealthy) => void changes.push(isHealthy) });
  const required = (): Send => {
    const send = circuit.enter();
    if (send === undefined) throw new Error("it lets nothing through");
    return send;
  };
  const succeed = (send = required()) => send(async () => "answer", never);
  const fail = async (send = required(), signal = never, tookMs = 0): Promise<void> => {
    const sent = send(async () => {
      time.nowMs += tookMs;
      throw new FacilitatorFault("unknown", "unexpected_settle_error", "no answer");
    }, signal);
    await expect(sent).rejects.toThrow("no answer");
  };
  const refuse = async (): Promise<void> => {
    const odd = new RequestRefused("unavailable", "unexpected_verify_error", "status 400");
    await expect(circuit.send(() => Promise.reject(odd), never)).rejects.toThrow("status 400");
  };
  const open = async (): Promise<void> => {
    for (let count = 0; count < FAILURES_TO_OPEN; count += 1) await fail(circuit.send);
  };
  return { circuit, time, changes, succeed, fail, refuse, open, required };
}

describe("a circuit", () => {
  test("opens at the third failure in a row, and not before", async () => {
    const { circuit, changes, succeed, fail } = stage();
    for (const outcome of [fail, fail, succeed, fail, fail]) await outcome();
    expect([circuit.isOpen, changes]).toEqual([false, []]);
    await fail();
    expect([circuit.isOpen, changes]).toEqual([true, [false]]);
    expect(circuit.enter()).toBeUndefined();
  });

  test("lets one request through after its cool-down, and the rest after its success", async () => {
    const { circuit, time, changes, succeed, open, required } = stage();
    await open();
    time.nowMs = FIRST_COOL_DOWN_MS - 1;
    expect(circuit.enter()).toBeUndefined();
    time.nowMs += 1;
    const trial = required();
    expect(circuit.enter()).toBeUndefined();
    expect(await succeed(trial)).toBe("answer");
    expect([circuit.isOpen, changes]).toEqual([false, [false, true]]);
    await succeed();
  });

  test("lets the next one through where its trial was never sent", async () => {
    const { circuit, time, succeed, open, required } = stage();
    await open();
    time.nowMs = FIRST_COOL_DOWN_MS;
    required();
    time.nowMs += TRIAL_MS - 1;
    expect(circuit.enter()).toBeUndefined();
    time.nowMs += 1;
    await succeed();
    expect(circuit.isOpen).toBe(false);
  });

  test("cools down twice as long after each trial that failed, up to a minute", async () => {
    const { circuit, time, fail, open } = stage();
    await open();
    const coolDowns: number[] = [];
    for (let trial = 0; trial < 9; trial += 1) {
      const since = time.nowMs;
      let send = circuit.enter();
      for (; send === undefined && time.nowMs - since < 120_000; send = circuit.enter()) {
        time.nowMs += 500;
      }
      coolDowns.push(time.nowMs - since);
      await fail(send);
    }
    expect(coolDowns.slice(0, 4)).toEqual([1000, 2000, 4000, 8000]);
    expect(coolDowns.slice(-2)).toEqual([MAX_COOL_DOWN_MS, MAX_COOL_DOWN_MS]);
  });

  test("begins with the first cool-down again after a success", async () => {
    const { circuit, time, succeed, fail, open, required } = stage();
    await open();
    time.nowMs += FIRST_COOL_DOWN_MS;
    await fail(required());
    time.nowMs += 2 * FIRST_COOL_DOWN_MS;
    await succeed(required());
    await open();
    time.nowMs += FIRST_COOL_DOWN_MS;
    expect(circuit.enter()).toBeDefined();
  });

  test("counts failures that were under way when it opened once", async () => {
    const { circuit, time, fail, open } = stage();
    await open();
    for (let count = 0; count < 20; count += 1) await fail(circuit.send);
    time.nowMs += FIRST_COOL_DOWN_MS;
    expect(circuit.enter()).toBeDefined();
  });

  test("does not blame a facilitator for a caller in a hurry, and does for one who waited", async () => {
    const { circuit, fail } = stage();
    for (let count = 0; count < 10; count += 1) {
      await fail(circuit.send, AbortSignal.abort(), 2_999);
    }
    expect(circuit.isOpen).toBe(false);
    for (let count = 0; count < FAILURES_TO_OPEN; count += 1) {
      await fail(circuit.send, AbortSignal.abort(), 3_000);
    }
    expect(circuit.isOpen).toBe(true);
  });

  test("counts nobody else's failure, and gives the trial to the next one", async () => {
    const { circuit, time, open, required } = stage();
    for (let count = 0; count < FAILURES_TO_OPEN; count += 1) {
      await expect(broken(circuit.send)).rejects.toThrow("ledger");
    }
    expect(circuit.isOpen).toBe(false);
    await open();
    time.nowMs += FIRST_COOL_DOWN_MS;
    await expect(broken(required())).rejects.toThrow("ledger");
    expect(circuit.enter()).toBeDefined();
  });

  test("closes on a look from the side, and opens at the next failure for longer", async () => {
    const { circuit, time, changes, fail, open } = stage();
    await open();
    circuit.looksWell();
    expect([circuit.isOpen, changes]).toEqual([false, [false, true]]);
    await fail();
    expect(circuit.isOpen).toBe(true);
    time.nowMs += FIRST_COOL_DOWN_MS;
    expect(circuit.enter()).toBeUndefined();
    time.nowMs += FIRST_COOL_DOWN_MS;
    expect(circuit.enter()).toBeDefined();
  });
});

describe("requests that are not taken", () => {
  test("say nothing of who has taken another a moment ago", async () => {
    const { circuit, time, succeed, refuse } = stage();
    await succeed();
    time.nowMs += WELL_FOR_MS - 1;
    for (let count = 0; count < 10 * FAILURES_TO_OPEN; count += 1) await refuse();
    expect(circuit.isOpen).toBe(false);
  });

  test("are failures of who has taken none for a while, or ever", async () => {
    for (const answersAtFirst of [true, false]) {
      const { circuit, time, succeed, refuse } = stage();
      if (answersAtFirst) await succeed();
      time.nowMs += WELL_FOR_MS;
      for (let count = 0; count < FAILURES_TO_OPEN; count += 1) await refuse();
      expect(circuit.isOpen).toBe(true);
    }
  });
});
