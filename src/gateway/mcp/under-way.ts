/** Calls that are under way, by what their clients call them: whoever gives one up names it so, and its backend knows it by another id. */
import type { RpcId } from "./message.ts";

/** What a client calls it. */
export interface CalledSo {
  /** As the backend knows it; "": of none, where a call is given up by leaving. */
  readonly session: string;
  readonly id: RpcId;
}

export class UnderWay {
  /** No more than there are exchanges. */
  readonly #wires = new Map<string, string>();

  get size(): number {
    return this.#wires.size;
  }

  /** @returns what ends it, once it is answered */
  begin(called: CalledSo, wire: string): () => void {
    if (called.session === "") return () => {};
    const key = keyOf(called);
    this.#wires.set(key, wire);
    return () => {
      // One of the same id may have begun since.
      if (this.#wires.get(key) === wire) this.#wires.delete(key);
    };
  }

  /** Under which id its backend has it. Undefined: nothing of that name is under way in this process. */
  find(called: CalledSo): string | undefined {
    return this.#wires.get(keyOf(called));
  }
}

function keyOf({ session, id }: CalledSo): string {
  return `${session}\n${JSON.stringify(id)}`;
}
