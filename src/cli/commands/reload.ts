/** `reload` on the command line: its arguments, options and exit codes. */
import type { Command } from "commander";
import type { ReloadOptions } from "../reload.ts";

const HELP = `
The address is that of admin: in FILE, or --admin. The gateway reads its own file, which need not be this one: FILE
is only asked where the gateway listens for its operator.

What changed is said: keys, routes, prices before and after. A file that seems to end in the middle, or by which a
priced route would cost nothing, is refused, by itself and here, until --allow-free says that it is meant.

Exit codes: 0 reloaded (or, with --dry-run, would be), 1 refused (the running configuration stays) or not reached, 2 wrong usage.`;

/** Adds the command; `done` is told its exit code. */
export function addReload(program: Command, done: (code: number) => void): void {
  program
    .command("reload")
    .description("have a running gateway read its configuration again, and say what came of it")
    .argument("[file]", "the configuration file that names the admin listener")
    .option("--admin <url>", "the admin listener itself: http://127.0.0.1:9402")
    .option("--dry-run", "only say what would change, as the gateway that runs judges it")
    .option("--allow-free", "what costs something may be free from now on")
    .option("--json", "the verdict as JSON")
    .addHelpText("after", HELP)
    .action(async (file: string | undefined, options: ReloadOptions) => {
      const { reload } = await import("../reload.ts");
      done(await reload(file, options));
    });
}
