/**
 * The command line. Exit codes: 0 done; 1 the file has errors, the process could not start or failed, or
 * something is left to do; 2 the command line itself is wrong; 78 from `serve`, whose file is refused.
 */
import { Command, CommanderError, Option } from "commander";
import {
  readLimit,
  readNetworkName,
  readPayer,
  readSince,
  readStates,
  readTimeout,
} from "./arguments.ts";
import { addBackup } from "./commands/backup.ts";
import { addBooks } from "./commands/books.ts";
import { addCheck } from "./commands/check.ts";
import { addCompletion } from "./commands/completion.ts";
import { addForecast } from "./commands/forecast.ts";
import { addInit } from "./commands/init.ts";
import { addListing } from "./commands/listing.ts";
import { addKeygen } from "./commands/keygen.ts";
import { addMcp } from "./commands/mcp.ts";
import { addPay } from "./commands/pay.ts";
import { addPause } from "./commands/pause.ts";
import { addReload } from "./commands/reload.ts";
import { addDoctor } from "./commands/doctor.ts";
import type { PaymentsOptions } from "./payments/payments.ts";
import { addRoutes } from "./commands/routes.ts";
import { addSchema } from "./commands/schema.ts";
import { addWebhooks } from "./commands/webhooks.ts";
import { addTry } from "./commands/try.ts";

const EXIT = { ok: 0, failed: 1, usage: 2 } as const;
const SERVE_HELP = `
It reads the file again when that changes, and on SIGHUP; one that is refused changes nothing.

Exit codes: 0 stopped, 1 it could not start or gave up, 2 wrong usage, 78 the file is refused: nothing was started,
and to start it again is of use only once the file is another.`;
const FILE = ["<file>", "the configuration file (YAML)"] as const;
/** Payments of a list, and how long `recover` goes on, unless told otherwise. */
const DEFAULT_LIMIT = 50;
const DEFAULT_TIMEOUT_MS = 60_000;

/**
 * Runs one command line (without `node` and the script) and resolves with the exit code. A command is
 * loaded when it is asked for: `check` need not wait for what only `serve` uses.
 */
export async function run(words: readonly string[], version: string): Promise<number> {
  let code: number = EXIT.ok;
  const program = new Command("coinslot")
    .description("Put a price on any HTTP backend: an x402 payment gateway.")
    .version(version)
    .exitOverride()
    .showHelpAfterError()
    .addHelpText("after", "\nExit codes: 0 done, 1 failed, 2 wrong usage.");
  program
    .command("serve")
    .description("run what a configuration file describes, until SIGTERM or SIGINT")
    .argument(...FILE)
    .addHelpText("after", SERVE_HELP)
    .action(async (file: string) => {
      const { serve } = await import("./serve.ts");
      code = await serve(file, version);
    });
  program
    .command("worker", { hidden: true })
    .description("one of the workers of a running gateway, which starts it")
    .action(async () => {
      const { runWorker } = await import("../app/worker.ts");
      code = await runWorker();
    });
  program
    .command("read-config", { hidden: true })
    .description("reads a configuration in a thread of a running gateway, which starts it")
    .action(async () => {
      const { readConfig } = await import("../app/read-config.ts");
      code = await readConfig();
    });
  program
    .command("read-accounts", { hidden: true })
    .description("reads the books in a thread of a running gateway, which starts it")
    .action(async () => {
      const { readAccounts } = await import("../app/read-accounts.ts");
      code = await readAccounts();
    });
  addCheck(program, version, (result) => (code = result));
  addSchema(program, (result) => (code = result));
  addRoutes(program, (result) => (code = result));
  addDoctor(program, (result) => (code = result));
  addListing(program, (result) => (code = result));
  addBackup(program, (result) => (code = result));
  addBooks(program, (result) => (code = result));
  addForecast(program, (result) => (code = result));
  addPayments(program, (result) => (code = result));
  addPay(program, (result) => (code = result));
  addMcp(program, (result) => (code = result));
  addKeygen(program, (result) => (code = result));
  addInit(program, (result) => (code = result));
  addTry(program, (result) => (code = result));
  addReload(program, (result) => (code = result));
  addPause(program, (result) => (code = result));
  addWebhooks(program, (result) => (code = result));
  addCompletion(program);
  program
    .command("recover")
    .description("find the outcome of every unresolved settlement now, without serving")
    .argument(...FILE)
    .addOption(
      new Option("--timeout <duration>", "how long to try: 90s, 5m")
        .argParser(readTimeout)
        .default(DEFAULT_TIMEOUT_MS, "60s"),
    )
    .option("--json", "as one JSON document")
    .addHelpText(
      "after",
      "\nExit codes: 0 nothing is left, 1 something is, or failed, 2 wrong usage.",
    )
    .action(async (file: string, { timeout, json }: { timeout: number; json?: boolean }) => {
      const { recover } = await import("./payments/recover.ts");
      code = await recover(file, { version, timeoutMs: timeout, json });
    });
  try {
    await program.parseAsync([...words], { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    throw error;
  }
}

function addPayments(program: Command, done: (code: number) => void): void {
  const filters = [
    "csv",
    "state",
    "undelivered",
    "held",
    "unrefunded",
    "network",
    "payer",
    "since",
    "until",
    "after",
  ];
  const command = program
    .command("payments")
    .description("list what was claimed, paid and delivered, newest first, or show one payment")
    .argument(...FILE)
    .addOption(
      new Option(
        "--show <name>",
        "one payment with its history and what to do about it; by key, transaction or nonce",
      ).conflicts(filters),
    )
    .addOption(
      new Option(
        "--used-elsewhere",
        "those whose nonce the chain knew as used, and the ledger did not: their payers may have been charged",
      ).conflicts([...filters, "show", "export"]),
    )
    .addOption(
      new Option(
        "--export <path>",
        "add payments that are over to a file, oldest first, as JSON lines; goes on where it ended",
      ).conflicts([...filters, "show", "json"]),
    )
    .option("--before <time>", "with --export: only those that ended before: 90d", readSince)
    .addOption(
      new Option("--state <states>", "only these: SIGNED or SETTLED,DELIVERING").argParser(
        readStates,
      ),
    )
    .option("--undelivered", "only those paid for and not delivered")
    .option("--held", "only those paid in a transaction that is not ours, which wait for you")
    .option("--unrefunded", "only those whose refund has failed, which wait for you");
  addDecisions(command, filters);
  command
    .addOption(
      new Option(
        "--forget <address>",
        "erase what the ledger knows of this payer and needs no more; nothing where something of his is not over",
      )
        .argParser(readPayer)
        .conflicts([...filters, "show", "resolve", "refundCredits", "export", "usedElsewhere"]),
    )
    .option("--dry-run", "with --forget: tell what would go, and erase nothing")
    .option("--network <network>", "only those on this network", readNetworkName)
    .option("--payer <address>", "only those of this payer", readPayer)
    .option("--since <time>", "only those claimed since: 24h, 7d, 2026-08-01", readSince)
    .option("--until <time>", "only those claimed before that time", readSince)
    .option("--limit <number>", "how many at most", readLimit, DEFAULT_LIMIT)
    .option("--after <key>", "continue behind this payment")
    .addOption(new Option("--json", "as one JSON document").conflicts("csv"))
    .option("--csv", "as CSV (RFC 4180) with a line of names")
    .addHelpText("after", "\nExit codes: 0 done, 1 failed or not found, 2 wrong usage.")
    .action(async (file: string, options: PaymentsOptions, command: Command) => {
      requireWhole(options, command);
      const { payments } = await import("./payments/payments.ts");
      done(await payments(file, options));
    });
}

/** What becomes of payments, or of what is prepaid. */
function addDecisions(command: Command, filters: readonly string[]): void {
  command
    .addOption(
      new Option("--resolve <key>", "say what becomes of one payment").conflicts([
        ...filters,
        "show",
      ]),
    )
    .addOption(
      new Option(
        "--deliver",
        "with --resolve: a held payment counts as paid; one whose attempts are used up gets new ones",
      ).conflicts(["refund", "goods"]),
    )
    .addOption(
      new Option(
        "--goods",
        "with --resolve: what the backend answered was what is sold, such as a 404; it counts as delivered",
      ).conflicts("refund"),
    )
    .option(
      "--refund",
      "with --resolve: it is paid back from the key of `refunds`, where there is one for its network; else you have " +
        "paid it back. Nothing is delivered",
    )
    .addOption(
      new Option(
        "--refund-credits <address>",
        "pay back what this payer has prepaid and not used, the newest payments first; with --network only what was " +
          "bought there",
      )
        .argParser(readPayer)
        .conflicts([
          ...filters.filter((each) => each !== "network"),
          "show",
          "resolve",
          "export",
          "usedElsewhere",
        ]),
    )
    .option("--amount <dollars>", "with --refund-credits: no more than that: $1.50")
    .option(
      "--by-hand",
      "with --refund or --refund-credits: you have paid it back yourself, and nothing is sent",
    )
    .option("--note <text>", "with --resolve or --refund-credits: for the payment's history");
}

/** Ends with wrong usage where an option lacks the one that it goes with. */
function requireWhole(options: PaymentsOptions, command: Command): void {
  // `--resolve` says which payment, the others what becomes of it.
  const { resolve, deliver, goods, refund, refundCredits, amount, byHand, note } = options;
  const isNoted = note !== undefined && refundCredits === undefined;
  const isDecided = [deliver, goods, refund].includes(true) || isNoted;
  if (resolve === undefined && isDecided) {
    command.error(
      "error: --deliver, --goods, --refund and --note say what becomes of --resolve <key>",
    );
  }
  if (resolve !== undefined && !isDecided) {
    command.error("error: --resolve <key> needs --deliver, --goods, --refund or --note <text>");
  }
  if (options.dryRun === true && options.forget === undefined) {
    command.error("error: --dry-run goes with --forget <address>");
  }
  if (amount !== undefined && refundCredits === undefined) {
    command.error("error: --amount goes with --refund-credits <address>");
  }
  if (byHand === true && refund !== true && refundCredits === undefined) {
    command.error("error: --by-hand goes with --refund or --refund-credits <address>");
  }
}
