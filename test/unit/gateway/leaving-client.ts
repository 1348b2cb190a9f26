/** A client that may leave while it waits for a place, or be ended on the one that it has. */
import type { Comer } from "../../../src/gateway/room.ts";

export class LeavingClient implements Comer {
  stalledMs: number;
  isEvicted = false;
  /** Also where nobody was told. */
  isAway = false;
  #leave = (): void => undefined;

  constructor(stalledMs = 0) {
    this.stalledMs = stalledMs;
  }

  evict(): void {
    this.isEvicted = true;
  }

  isGone(): boolean {
    return this.isAway;
  }

  onGone(listener: () => void): () => void {
    this.#leave = listener;
    return () => (this.#leave = () => undefined);
  }

  leave(): void {
    this.isAway = true;
    this.#leave();
  }
}
