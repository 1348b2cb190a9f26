/** What a store does beside the sales. */
import type { Forgetting } from "./forgetting.ts";
import type { Sweeping } from "./sweep.ts";

export interface Upkeep extends Sweeping, Forgetting {
  /**
   * Carries out what operators asked for beside this process, where they cannot write to the store themselves.
   * Resolves with how many there were.
   */
  resolveAsked(): Promise<number>;
  /**
   * Frees what dead lives left: claims without a signature are dropped, or offered where a transaction has
   * shown them to everybody; broken deliveries may be tried again; what they had leased of pots is in those again. Also
   * forgets kept answers whose time is over.
   * Resolves with the number of payments freed.
   */
  reap(): Promise<number>;
}
