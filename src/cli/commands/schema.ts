/** `coinslot schema` on the command line. */
import type { Command } from "commander";

const HELP = `
An editor with the YAML language server uses it where a file begins with
# yaml-language-server: $schema=gateway.schema.json

Exit codes: 0 done, 2 wrong usage.`;

/** Adds the command; `done` is told its exit code. */
export function addSchema(program: Command, done: (code: number) => void): void {
  program
    .command("schema")
    .description("print the JSON Schema of configuration files, for editors")
    .option("--json", "changes nothing: a schema is JSON")
    .addHelpText("after", HELP)
    .action(async () => {
      const { schema } = await import("../schema.ts");
      done(schema());
    });
}
