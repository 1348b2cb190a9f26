/**
 * Long work in the one thread that serves, written as steps: between two of them others may work. All of it at once is
 * for whoever has nobody to wait for him as yet.
 */
import { setImmediate as turn } from "node:timers/promises";

/** Longest that it goes on without letting others work, milliseconds. */
const HELD_MS = 5;

/** Each value that is yielded is a place where the work may pause. */
export type Steps<Value> = Generator<unknown, Value, undefined>;

export function atOnce<Value>(steps: Steps<Value>): Value {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** With as many pauses as it takes that nobody waits for it. */
export async function inTurns<Value>(steps: Steps<Value>): Promise<Value> {
  let sinceMs = Number.NEGATIVE_INFINITY;
  for (;;) {
    // Before the first step, too: whatever came before it was work as well.
    if (performance.now() - sinceMs >= HELD_MS) {
      await turn();
      sinceMs = performance.now();
    }
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}
