/**
 * Answers that a proxy fetches in a second step, each once: nginx learns from its check only that a request is
 * refused. The request is not looked at again, so that nothing is charged or counted twice.
 */
import { randomBytes } from "node:crypto";

/** Longest that an answer waits to be fetched, milliseconds: the proxy does that next. */
const HELD_MS = 10_000;
/** Answers that wait at most; the oldest is forgotten first. */
const MAX_HELD = 4096;
const ID_BYTES = 16;

export interface FullAnswer {
  readonly status: number;
  /** Raw `name, value` pairs. */
  readonly lines: readonly string[];
  /** Null: none. */
  readonly body: string | null;
  /** What is sent of it, where that is compressed. */
  readonly bytes?: Uint8Array;
}

export class HeldAnswers {
  readonly #held = new Map<string, { readonly answer: FullAnswer; readonly untilMs: number }>();

  /** Returns an unguessable name for it. */
  hold(answer: FullAnswer): string {
    const now = performance.now();
    for (const [id, { untilMs }] of this.#held) {
      if (untilMs > now && this.#held.size < MAX_HELD) break;
      this.#held.delete(id);
    }
    const id = randomBytes(ID_BYTES).toString("hex");
    this.#held.set(id, { answer, untilMs: now + HELD_MS });
    return id;
  }

  /** Undefined where there is none of that name, or none any more. */
  take(id: string): FullAnswer | undefined {
    const held = this.#held.get(id);
    this.#held.delete(id);
    return held?.answer;
  }
}
