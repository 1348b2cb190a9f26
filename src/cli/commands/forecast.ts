/** `coinslot forecast` on the command line. */
import type { Command } from "commander";

const HELP = `
LOG is an access log of this gateway (logging.access, JSON or combined), or one in the Combined Log Format of any web
server: of nginx, Apache or Caddy before there is a gateway. "-" is standard input. Each request that was answered well is
held against the routes of the file as it is now: change its prices and look again. "If all had paid" is an upper bound;
who showed a payment (mode: shadow lets him pass) is the lower one. Requests without a payment are told by how their
clients call themselves: those would have been turned away, or have paid.

Exit codes: 0 done, 1 failed, 2 wrong usage.`;

interface Options {
  readonly host?: string;
  readonly json?: boolean;
}

export function addForecast(program: Command, done: (code: number) => void): void {
  program
    .command("forecast")
    .description("what the file's prices would have earned by requests of the past")
    .argument("<file>", "the configuration file (YAML)")
    .argument("<logs...>", "access logs")
    .option(
      "--host <name>",
      "one of the file's hosts, for logs whose lines do not say whom they are for",
    )
    .option("--json", "as one JSON document")
    .addHelpText("after", HELP)
    .action(async (file: string, logs: readonly string[], options: Options) => {
      const { forecast } = await import("../forecast/forecast.ts");
      done(await forecast(file, logs, options));
    });
}
