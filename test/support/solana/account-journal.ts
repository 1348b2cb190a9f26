/**
 * What accounts held in earlier slots, so that a read at `confirmed` or `finalized` sees the state of that
 * slot and not the newest. Accounts set up by hand have no history: they are the same in every slot.
 */
import type { StoredAccount } from "./runtime.ts";

interface Version {
  readonly slot: number;
  readonly account: StoredAccount | null;
}

export class AccountJournal {
  readonly #versions = new Map<string, Version[]>();

  /**
   * Notes that a transaction in `slot` left the account so. What lies before `horizon` is forgotten: no
   * reader asks for it.
   */
  record(
    address: string,
    change: {
      readonly slot: number;
      readonly horizon: number;
      readonly before: StoredAccount | null;
      readonly after: StoredAccount | null;
    },
  ): void {
    const { slot, horizon, before, after } = change;
    const versions = this.#versions.get(address) ?? [{ slot: -1, account: before }];
    if (versions.at(-1)?.slot === slot) versions.pop();
    versions.push({ slot, account: after });
    while ((versions[1]?.slot ?? Number.POSITIVE_INFINITY) <= horizon) versions.shift();
    this.#versions.set(address, versions);
  }

  /** The account as of that slot; undefined when it never changed since it was set up. */
  at(address: string, slot: number): StoredAccount | null | undefined {
    const versions = this.#versions.get(address);
    if (versions === undefined) return undefined;
    return (versions.findLast((version) => version.slot <= slot) ?? versions[0])?.account;
  }

  forget(address: string): void {
    this.#versions.delete(address);
  }
}
