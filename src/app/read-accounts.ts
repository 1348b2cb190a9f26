/**
 * What the overview tells of the books, for a process that serves: they are read and summed up in a thread of its own, with
 * the ledger opened beside its writer. Entries of thirty days are as many as routes times days.
 */
import { openBooks } from "../admin/books.ts";
import { lastDays, moneyOf } from "../admin/overview-money.ts";
import { Tokens } from "../admin/payment-view.ts";
import type { Config } from "../config/config.ts";
import type { MoneyView } from "../web/overview-view.ts";
import { answerHere, OwnThread } from "./own-thread.ts";

const COMMAND = "read-accounts";

interface Asked extends Pick<Config, "store"> {
  readonly tokens: Tokens["known"];
  /** Milliseconds since the epoch. */
  readonly nowMs: number;
}

/** Rejects where they cannot be read. @param script the program's main file, which has the command `read-accounts` */
export async function moneyInThread(script: string, asked: Asked): Promise<MoneyView> {
  using thread = new OwnThread({ script, command: COMMAND, isAwaited: false });
  return (await thread.ask(asked)) as MoneyView;
}

/** The main function of that thread. */
export function readAccounts(): Promise<number> {
  return answerHere(COMMAND, async (question) => {
    const { store, tokens, nowMs } = question as Asked;
    const books = await openBooks({ store });
    try {
      const days = lastDays(nowMs);
      const entries = await books.accounts({ from: days[0] ?? "", to: days.at(-1) ?? "" });
      return moneyOf(entries, days, new Tokens(tokens), nowMs);
    } finally {
      await books.close();
    }
  });
}
