/**
 * Payments that were signed by an account whose key is not configured any more: nobody here can look after
 * them, and whoever paid waits. Another replica may have the key, so only those are told that stay unresolved.
 */
import type { Books } from "../ledger/books.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Recovery } from "../facilitator/recovery.ts";
import type { Facilitation, Ground } from "./facilitation.ts";

/** Unresolved payments that are looked at; the counts know of all. */
const MAX_LOOKED_AT = 1_000;
/** Pause between two looks, milliseconds. */
const PAUSE_MS = 300_000;
/** So old is no payment that somebody looks after, milliseconds. */
const ABANDONED_MS = 300_000;

/** Looks at once and every few minutes. */
export function startStrangerWatch(
  facilitation: Pick<Facilitation, "mechanisms">,
  { ledger, telemetry, time }: Ground,
): Recovery {
  const stopping = new AbortController();
  const { signal } = stopping;
  const watching = (async () => {
    while (!signal.aborted) {
      try {
        await warnOfStrangers(ledger.books, facilitation, telemetry, time.now());
      } catch (cause) {
        telemetry.logger.warn({ err: cause }, "unresolved payments could not be read");
      }
      await time.sleep(PAUSE_MS, signal);
    }
  })();
  return {
    async stop() {
      stopping.abort();
      await watching;
    },
  };
}

/** Logs each such account once, with how many payments wait for it. Throws what the ledger throws. */
export async function warnOfStrangers(
  books: Books,
  { mechanisms }: Pick<Facilitation, "mechanisms">,
  { logger }: Pick<Telemetry, "logger">,
  nowMs: number,
): Promise<void> {
  const ours = new Set(mechanisms.flatMap(({ accounts }) => accounts.map(nameOf)));
  const all = await books.list({ states: ["SIGNED"], held: false, limit: MAX_LOOKED_AT });
  const signed = all.filter(({ claimedMs }) => nowMs - claimedMs > ABANDONED_MS);
  const waiting = new Map<string, { readonly network: string; payments: number }>();
  for (const { key, network } of signed) {
    const account = (await books.show(key))?.submission?.account;
    if (account === undefined || ours.has(nameOf(account))) continue;
    const counted = waiting.get(account) ?? { network, payments: 0 };
    counted.payments += 1;
    waiting.set(account, counted);
  }
  for (const [account, { network, payments }] of waiting) {
    const said =
      "payments were signed by an account whose key is not in this configuration: " +
      "nobody looks after them until the key is back (coinslot recover tells what became of them)";
    logger.error({ network, account, payments }, said);
  }
}

/** EVM addresses are one whatever their letter case; a Solana address in lower case is nobody's. */
function nameOf(account: string): string {
  return account.toLowerCase();
}
