/** The ledger's books as an operator opens them: beside a running gateway or without one, reading only. */
import type { Config } from "../config/config.ts";
import type { Books } from "../ledger/books.ts";
import { openSqliteBooks } from "../ledger/sqlite/sqlite-books.ts";

export { backUpSqlite, partOf } from "../ledger/sqlite/sqlite-backup.ts";
export type { Books, PaymentDetail, PaymentFilter, PaymentSummary } from "../ledger/books.ts";
export type { Days, Entry } from "../ledger/accounts.ts";
export { isBalanced, isOfCredits, type CreditsSum } from "../ledger/credit-entries.ts";
export type { UsedElsewhere } from "../ledger/used-elsewhere.ts";
export type { PaymentState } from "../ledger/ledger.ts";

/** Throws `LedgerUnavailable` where there is no ledger, or none that can be read. */
export async function openBooks({
  store,
}: Pick<Config, "store">): Promise<Books & { close(): Promise<void> }> {
  if (store.kind === "sqlite") return openSqliteBooks({ path: store.path });
  // Its driver is loaded by those who need it.
  const { openPostgresBooks } = await import("../ledger/postgres/postgres.ts");
  return openPostgresBooks({ url: store.url.reveal() });
}
