/** What is paused, as an operator opens it: beside a running gateway or without one. */
import type { Config } from "../config/config.ts";
import type { Pauses, PauseScope } from "../ledger/pauses.ts";
import { openSqlitePauses } from "../ledger/sqlite/sqlite-pauses.ts";
import { systemTime } from "../time/time.ts";
import { pricedIn } from "./sale-rules.ts";

export type { Pause, PauseScope } from "../ledger/pauses.ts";

/** Throws `LedgerUnavailable` where there is no ledger, or none that can be written. */
export async function openPauses({
  store,
}: Pick<Config, "store">): Promise<Pauses & { close(): Promise<void> }> {
  if (store.kind === "sqlite") return openSqlitePauses({ path: store.path, time: systemTime });
  // Its driver is loaded by those who need it.
  const { openPostgresPauses } = await import("../ledger/postgres/postgres.ts");
  return openPostgresPauses({ url: store.url.reveal(), time: systemTime });
}

/** What an operator means by a word: `all`, a network, or the key of a priced route; undefined: nothing that is sold. */
export function readScope(
  { routes, facilitator }: Pick<Config, "routes" | "facilitator">,
  word: string,
): PauseScope | undefined {
  if (word === "all") return "all";
  const priced = pricedIn(routes);
  if (priced.some(({ key }) => key === word)) return `route ${word}`;
  const used = [...facilitator.embedded, ...priced.flatMap(({ offers }) => offers)];
  const found = used.find(({ network }) => network === word);
  return found && `network ${found.network}`;
}
