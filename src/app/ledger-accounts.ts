/**
 * The accounts of the ledger, for a process that serves: SQLite reads in the thread that asks, so for it that is a thread
 * of its own, with the file opened beside its writer.
 */
import { once } from "node:events";
import { Worker, parentPort } from "node:worker_threads";
import type { Config } from "../config/config.ts";
import type { Days, Entry } from "../ledger/accounts.ts";
import type { Books } from "../ledger/books.ts";
import { openSqliteBooks } from "../ledger/sqlite/sqlite-books.ts";

type Accounts = (days: Days) => Promise<readonly Entry[]>;

/** @param script the program's main file, which has the command `read-accounts` */
export function accountsOf(
  { store }: Pick<Config, "store">,
  books: Books,
  script: string,
): Accounts {
  if (store.kind !== "sqlite") return (days) => books.accounts(days);
  return async ({ from, to }) => {
    const argv = ["read-accounts", store.path, from, to];
    const thread = new Worker(script, { argv, stdout: false });
    const failed = once(thread, "exit").then(() => {
      throw new Error("the thread that reads the books has ended");
    });
    failed.catch(() => undefined);
    const told = once(thread, "message");
    // A process that has closed everything else does not wait for it, nor for what it has to say.
    thread.unref();
    try {
      const [entries] = await Promise.race([told, failed]);
      return entries as readonly Entry[];
    } finally {
      await thread.terminate();
    }
  };
}

/** The main function of that thread. */
export async function tellAccounts(path: string, days: Days): Promise<number> {
  const port = parentPort;
  if (port === null) {
    process.stderr.write("coinslot read-accounts: this is a thread of `coinslot serve`\n");
    return 1;
  }
  const books = await openSqliteBooks({ path });
  try {
    port.postMessage(await books.accounts(days), []);
  } finally {
    await books.close();
  }
  return 0;
}
