/**
 * The command line. Exit codes: 0 done; 1 the file has errors, or the process could not start or failed;
 * 2 the command line itself is wrong.
 */
import { Command, CommanderError } from "commander";
import { VERSION } from "../app.ts";
import { check } from "./check.ts";
import { serve } from "./serve.ts";

export const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

/** Runs one command line (without `node` and the script) and resolves with the exit code. */
export async function run(words: readonly string[]): Promise<number> {
  let code: number = EXIT.ok;
  const program = new Command("coinslot")
    .description("Put a price on any HTTP backend: an x402 payment gateway.")
    .version(VERSION)
    .exitOverride()
    .showHelpAfterError()
    .addHelpText("after", "\nExit codes: 0 done, 1 failed, 2 wrong usage.");
  program
    .command("serve")
    .description("run what a configuration file describes, until SIGTERM or SIGINT")
    .argument("<file>", "the configuration file (YAML)")
    .action(async (file: string) => {
      code = await serve(file);
    });
  program
    .command("check")
    .description("read a configuration file and report every problem in it at once")
    .argument("<file>", "the configuration file (YAML)")
    .action(async (file: string) => {
      code = await check(file);
    });
  try {
    await program.parseAsync([...words], { from: "user" });
    return code;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    throw error;
  }
}
