/** What is forgotten of a payer, in whichever process may write the ledger: beside a running gateway or without one. */
import type { Config } from "../config/config.ts";
import type { Forgotten, ForgetStep } from "../ledger/forgetting.ts";
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
  const step = (asked: ForgetStep): Promise<Forgotten> =>
    writeLedger(
      config,
      (ledger) => ledger.forget(asked),
      (beside) => forgetBeside(beside, asked),
    );
  const looked = await step({ payer, isTried: true });
  if (isTried || looked.unfinished > 0) return looked;
  for (let sum: Forgotten | undefined; ;) {
    const gone = await step({ payer, isTried: false });
    sum = {
      ...gone,
      payments: (sum?.payments ?? 0) + gone.payments,
      buried: (sum?.buried ?? 0) + gone.buried,
      submissions: (sum?.submissions ?? 0) + gone.submissions,
      usedElsewhere: (sum?.usedElsewhere ?? 0) + gone.usedElsewhere,
    };
    if (!gone.isMore) return sum;
  }
}
