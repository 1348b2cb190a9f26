/** `coinslot check` on the command line. */
import { Option, type Command } from "commander";
import { restartKeys } from "../../config/restart-keys.ts";
import type { CheckOptions } from "../check/check.ts";

const FORMATS = ["text", "json", "github", "sarif"] as const;

const HELP = `
text: problems go to stderr, the verdicts to stdout. Other formats: one document on stdout, nothing else.
json: { version: 1, ok, strict, errors, warnings, notes, files: [{ file, accepted, errors, warnings, notes,
problems: [{ severity, code, message, suggestion, line, column, endColumn, path, source }] }] }

One payee, one ledger: of several files those are warned of that are paid to one address, or settle with one Solana
key, and have a store each.

Placeholders, keys and certificates are looked up where check runs, as serve would. With --no-secrets those that are
not here are no fault; values that need them are left out, and everything else is judged.

Whatever changes in a file is taken up by a reload while the gateway runs (\`coinslot reload --dry-run\` says what), but
for these keys, which want a restart:
${restartKeys()
  .map((line) => `  ${line}`)
  .join("\n")}

As text, the fifty most severe problems of a file are printed; the other formats have all of them.

Exit codes: 0 every file is accepted, 1 one is refused, 2 wrong usage.`;

/** Adds the command; `done` is told its exit code. */
export function addCheck(program: Command, version: string, done: (code: number) => void): void {
  program
    .command("check")
    .description("read configuration files and report every problem in them at once")
    .argument("<files...>", "configuration files (YAML); - is the standard input")
    .addOption(
      new Option("--format <format>", "sarif is SARIF 2.1.0, github are workflow commands")
        .choices(FORMATS)
        .default("text"),
    )
    .option("--json", "the same as --format json")
    .option(
      "--no-secrets",
      "judge what does not depend on variables, keys and certificates that are not here, as in CI",
    )
    .option("--strict", "refuse files with warnings, too; notes never refuse one")
    .addHelpText("after", HELP)
    .action(async (files: readonly string[], options: CheckOptions) => {
      const { check } = await import("../check/check.ts");
      done(await check(files, version, options));
    });
}
