/** What is forgotten of a payer, in whichever process may write the ledger: beside a running gateway or without one. */
import type { Config } from "../config/config.ts";
import { forgetAll, type Forgotten } from "../ledger/forgetting.ts";
import { forgetBeside } from "../ledger/sqlite/sqlite-resolutions.ts";
import { writeLedger } from "./resolutions.ts";

export type { Forgotten } from "../ledger/forgetting.ts";

/**
 * All of it, or nothing: looks first, and where something of him is not over only tells that. `isTried`: looks only.
 * Throws `LedgerUnavailable`.
 */
export async function forgetPayer(
  config: Pick<Config, "store" | "webhooks">,
  payer: string,
  isTried: boolean,
): Promise<Forgotten> {
  const all = (isLook: boolean): Promise<Forgotten> => {
    const asked = { payer, isTried: isLook };
    return writeLedger(
      config,
      (ledger) => forgetAll((step) => ledger.upkeep.forget(step), asked),
      (beside) => forgetAll((step) => forgetBeside(beside, step), asked),
    );
  };
  const looked = await all(true);
  return isTried || looked.unfinished > 0 ? looked : all(false);
}
