/** `webhooks` on the command line: its arguments, options and exit codes. */
import { Option, type Command } from "commander";
import { EVENT_TYPES } from "../../x402/event-type.ts";
import { readLimit, readSince } from "../arguments.ts";
import type { WebhooksWish } from "../webhooks.ts";

const HELP = `
Without --replay and --test: what waits or was given up is listed, with what became of the last attempt; --all lists
what was delivered, too. Messages are kept for 14 days.

--replay sends again, in their order, those that are chosen by --id, --since, --event, --receiver or --failed, those that
were delivered too. The running gateway sends them, at once.
--test posts a message of type coinslot.test to the receivers now, or to that of --receiver, and says what they answered.

Exit codes: 0 done, 1 failed, or a receiver did not take the test, 2 wrong usage.`;

export function addWebhooks(program: Command, done: (code: number) => void): void {
  program
    .command("webhooks")
    .description("show what receivers of webhooks are still to be told, tell it again, or try them")
    .argument("<file>", "the configuration file (YAML)")
    .addOption(new Option("--replay", "send again what the options below choose").conflicts("test"))
    .option("--test", "post a message that tells of nothing")
    .option("--id <id>", "the message of that webhook-id")
    .option("--since <time>", "what happened from then on: 2h, 7d, 2026-11-01", readSince)
    .addOption(new Option("--event <type>", "what is told").choices(EVENT_TYPES))
    .option("--receiver <name>", "what one receiver is told")
    .option("--failed", "what was given up")
    .addOption(new Option("--all", "what was delivered, too").conflicts(["replay", "test"]))
    .option("--limit <number>", "list at most so many", readLimit, 100)
    .option("--json", "as one JSON document")
    .addHelpText("after", HELP)
    .action(async (file: string, options: WebhooksWish, command: Command) => {
      const { id, since, event, receiver, failed } = options;
      const isChosen = [id, since, event, receiver, failed].some((each) => each !== undefined);
      if (options.replay === true && !isChosen) {
        command.error("error: --replay needs --id, --since, --event, --receiver or --failed", {
          exitCode: 2,
        });
      }
      const { webhooks } = await import("../webhooks.ts");
      done(await webhooks(file, options));
    });
}
