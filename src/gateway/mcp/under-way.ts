/**
 * Ids of what is asked in a session and not answered yet. Servers find the stream of an answer by its id alone: of two
 * messages that share one, the later stream gets what the earlier one has paid for, and its own has nothing.
 */
import type { RpcId } from "./message.ts";

/** A message that wants an answer. */
export interface AskedMessage {
  /** Of its client, as the backend knows it; "": of none, where each request is for itself. */
  readonly session: string;
  readonly id: RpcId;
  /** What it asks for: the same again under the same id is a client that tries again. "": nothing that is sold. */
  readonly asked: string;
}

interface Held {
  readonly asked: string;
  count: number;
}

export class UnderWay {
  /** No more than there are exchanges. */
  readonly #held = new Map<string, Held>();

  get size(): number {
    return this.#held.size;
  }

  /** What ends it, once it is answered; null: its id stands for something else by now. */
  begin({ session, id, asked }: AskedMessage): (() => void) | null {
    if (session === "") return () => {};
    // As the loosest reader takes it: digits for a number, half a character for another one.
    const key = `${session.toLowerCase()}\n${String(id).toWellFormed()}`;
    const held = this.#held.get(key) ?? { asked, count: 0 };
    if (held.asked !== asked) return null;
    held.count += 1;
    this.#held.set(key, held);
    return () => {
      held.count -= 1;
      if (held.count === 0) this.#held.delete(key);
    };
  }
}
