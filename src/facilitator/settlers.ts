/** What changes of the router while payments are under way. */
import type { RemoteFacilitator } from "./remote.ts";

/** Who settles what from now on. */
export interface Settlers {
  /** Networks that are settled in this process. */
  readonly here: readonly string[];
  /**
   * Networks on Solana that are settled here and elsewhere for a while: a payment goes to whoever has the account that it
   * names, whichever of the two its buyer was told.
   */
  readonly shared: readonly string[];
  /** In the order in which they are asked; those that are leaving behind the others. */
  readonly remotes: readonly {
    readonly remote: RemoteFacilitator;
    readonly isLeaving: boolean;
  }[];
}
