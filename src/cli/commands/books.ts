/** `coinslot books` on the command line. */
import type { Command } from "commander";
import { InvalidArgumentError, Option } from "commander";
import { GROUPINGS, type Grouping } from "../../admin/trial-balance.ts";
import { readDay } from "../arguments.ts";
import type { BooksOptions } from "../books/books.ts";

const HELP = `
A trial balance of what the ledger knows: each sale debits the payees and credits sales, each refund that was
noted the other way round; gas is debited at what it cost in the network's own currency, and in dollars where
nativePrice was set when it was burnt. A sale counts on the day on which it was paid, gas on the day on which its
transaction was signed. What was swept from the ledger (store.keep) stays in the sums.

What buyers have prepaid (credits) stands below, since ever and whatever the days: what was bought is what was used and what is
left in balances. In the accounts it is in a unit of its own, the token on its family of networks: what is bought goes from
sales to credits, and back when it is used.

--verify asks the configured RPC endpoints for the logs of each payment's transaction and for what each transaction of
ours has cost; a node that has forgotten a transaction leaves it unchecked.

Exit codes: 0 done, 1 failed, or something is not as its chain has it or could not be checked, 2 wrong usage.`;

interface Options extends BooksOptions {
  readonly json?: boolean;
}

export function addBooks(program: Command, done: (code: number) => void): void {
  program
    .command("books")
    .description("show what was sold, paid back and burnt as gas, as a trial balance")
    .argument("<file>", "the configuration file (YAML)")
    .option("--from <day>", "first day, UTC: 2026-11-01; default: the first of this month", readDay)
    .option("--to <day>", "last day, UTC; default: today", readDay)
    .addOption(
      new Option("--by <groups>", `what lines are told apart by: ${GROUPINGS.join(", ")}`)
        .argParser(readGroupings)
        .default(["route"], "route"),
    )
    .addOption(
      new Option("--format <format>", "how it is told")
        .choices(["table", "csv", "json"])
        .default("table"),
    )
    .option("--verify", "hold each payment and each cost against its chain, and list what differs")
    .option("--json", "as --format json")
    .addHelpText("after", HELP)
    .action(async (file: string, { json, ...options }: Options, command: Command) => {
      const { from, to } = options;
      if (from !== undefined && to !== undefined && from > to) {
        command.error(`error: --from ${from} comes after --to ${to}`);
      }
      const { books } = await import("../books/books.ts");
      done(await books(file, json === true ? { ...options, format: "json" } : options));
    });
}

function readGroupings(text: string): readonly Grouping[] {
  return text.split(",").map((word) => {
    const found = GROUPINGS.find((each) => each === word.trim());
    if (found !== undefined) return found;
    throw new InvalidArgumentError(`Lines are told apart by ${GROUPINGS.join(", ")}.`);
  });
}
