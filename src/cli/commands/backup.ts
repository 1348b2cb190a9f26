/** `coinslot backup` on the command line. */
import type { Command } from "commander";

const HELP = `
The copy is the ledger of one moment, made beside a running gateway; it is read back before it gets its name, and
replaces nothing. It holds signed payments: it is made for its owner alone. To go back to it, stop the gateway, put it
where store says (without -wal and -shm files of another), and start again: what was sold since is on the chain and
not in the ledger (deploy/LEDGER.md).

Exit codes: 0 done, 1 failed, 2 wrong usage.`;

export function addBackup(program: Command, done: (code: number) => void): void {
  program
    .command("backup")
    .description("copy a SQLite ledger beside a running gateway, and read the copy back")
    .argument("<file>", "the configuration file (YAML)")
    .argument("<to>", "the file to make")
    .option("--json", "as one JSON document")
    .addHelpText("after", HELP)
    .action(async (file: string, to: string, options: { readonly json?: boolean }) => {
      const { backup } = await import("../backup.ts");
      done(await backup(file, to, options));
    });
}
