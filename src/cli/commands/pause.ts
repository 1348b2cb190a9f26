/** `pause` and `resume` on the command line: their arguments, options and exit codes. */
import type { Command } from "commander";
import { readPauseTime } from "../arguments.ts";
import type { PauseOptions } from "../pause.ts";

const HELP = `
WHAT is all, a network (base), or the key of a priced route ("GET /quotes"). Without it nothing changes, and what is
paused is shown.

Pauses are in the ledger: all gateways on it see them within a second, those that start later too. Buyers are told 503
with Retry-After, and charged nothing; free routes go on, and so does what is paid or being paid already. Of a network
only the payments on it stop: routes are paid on the others.

Exit codes: 0 done, 1 failed (nothing was changed), 2 wrong usage.`;

export function addPause(program: Command, done: (code: number) => void): void {
  program
    .command("pause")
    .description("stop selling for a while: everything, one route, or what is paid on one network")
    .argument("<file>", "the configuration file (YAML)")
    .argument("[what]", "all, a network, or the key of a priced route")
    .option("--for <time>", "how long: 30m, 2h, 7d; default: until it is resumed", readPauseTime)
    .option("--reason <text>", "for whoever looks: it is shown at /readyz and in the log")
    .option("--json", "what is paused, as one JSON document")
    .addHelpText("after", HELP)
    .action(async (file: string, what: string | undefined, options: PauseOptions) => {
      const { pause } = await import("../pause.ts");
      done(await pause(file, what, options));
    });
  program
    .command("resume")
    .description("sell again what is paused")
    .argument("<file>", "the configuration file (YAML)")
    .argument("[what]", "as it was paused; default: everything that is")
    .option("--json", "what is still paused, as one JSON document")
    .addHelpText("after", "\nExit codes: 0 done, 1 failed or not paused, 2 wrong usage.")
    .action(async (file: string, what: string | undefined, options: PauseOptions) => {
      const { resume } = await import("../pause.ts");
      done(await resume(file, what, options));
    });
}
