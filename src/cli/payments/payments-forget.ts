/** `coinslot payments FILE --forget PAYER`: erases what is known of him and needed no more, and says what stays. */
import { forgetPayer, type Forgotten } from "../../app/forgetting.ts";
import type { Config } from "../../config/config.ts";
import { toJson } from "./payment-text.ts";

const STAYS = `
What stays, and why:
  the digest of each payment's key and its transaction, so that none is ever taken twice;
  what was paid, in the sums of its day (coinslot books), which name no payer;
  what is on the chain, where every transfer has his address for ever;
  what is not in the ledger: archives (store.archive), exports, backups, logs, and the newest requests of a running
  gateway, which has them until others have come (deploy/LEDGER.md).
`;

/** Resolves with the exit code: 1 where not all was erased because something is not over. */
export async function forget(
  config: Config,
  payer: string,
  { dryRun = false, json = false }: { readonly dryRun?: boolean; readonly json?: boolean },
): Promise<number> {
  const forgotten = await forgetPayer(config, payer, dryRun);
  const { unfinished, named } = forgotten;
  if (json) process.stdout.write(toJson({ isTried: dryRun, ...forgotten }));
  else if (unfinished === 0) process.stdout.write(goneText(forgotten, dryRun) + STAYS);
  else {
    const lines = named.map(({ key, state, fromMs }) => {
      const from = fromMs === null ? "--show tells more" : `from ${new Date(fromMs).toISOString()}`;
      return `  ${key}  ${state}  ${from}\n`;
    });
    const more = unfinished > named.length ? `  and ${unfinished - named.length} more\n` : "";
    // He may buy while it is done.
    const { payments } = forgotten;
    const gone =
      payments > 0 ? `${payments} payments are erased, and no more` : "nothing is erased";
    process.stderr.write(
      `${gone}: ${unfinished} payments of this payer are not over (owed, held, prepaid and not used, under way, not final, or ` +
        `changed within a day)\n${lines.join("")}${more}`,
    );
  }
  return unfinished === 0 ? 0 : 1;
}

function goneText(forgotten: Forgotten, dryRun: boolean): string {
  const { payments, buried, submissions, usedElsewhere } = forgotten;
  const transactions = dryRun ? "" : `, ${submissions} signed transactions`;
  return (
    `${dryRun ? "would be erased" : "erased"}: ${payments} payments with their requests, clients, histories and kept ` +
    `answers (of ${buried} a digest stays)${transactions}, ${usedElsewhere} notes of payments used elsewhere\n`
  );
}
