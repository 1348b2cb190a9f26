/**
 * The command line. Exit codes: 0 done; 1 the file has errors, or the process could not start or failed;
 * 2 the command line itself is wrong.
 */
import { Command, CommanderError } from "commander";

const EXIT = { ok: 0, failed: 1, usage: 2 } as const;

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
    .argument("<file>", "the configuration file (YAML)")
    .action(async (file: string) => {
      const { serve } = await import("./serve.ts");
      code = await serve(file, version);
    });
  program
    .command("check")
    .description("read a configuration file and report every problem in it at once")
    .argument("<file>", "the configuration file (YAML)")
    .action(async (file: string) => {
      const { check } = await import("./check.ts");
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
