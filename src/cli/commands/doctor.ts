/** `coinslot doctor` on the command line. */
import { Option, type Command } from "commander";
import { readTimeout } from "../arguments.ts";
import type { DoctorOptions } from "../doctor/doctor.ts";

/** Longest that one check may take unless told otherwise. */
const DEFAULT_TIMEOUT_MS = 10_000;

const HELP = `
Checks what a running gateway would meet: its chains, accounts, tokens and payees; facilitators
elsewhere; upstreams; certificates; its store; its public URL; and what official clients do with each
price. Nothing is paid and nothing is changed.

Exit codes: 0 nothing failed, 1 something did (with --strict: or a warning) or the file is refused,
2 wrong usage.`;

export function addDoctor(program: Command, done: (code: number) => void): void {
  program
    .command("doctor")
    .description("check everything that the configuration depends on, and say what to do")
    .argument("<file>", "the configuration file (YAML)")
    .addOption(
      new Option("--timeout <duration>", "how long one check may take: 10s, 1m")
        .argParser(readTimeout)
        .default(DEFAULT_TIMEOUT_MS, "10s"),
    )
    .option("--strict", "warnings count as failures")
    .option("--json", "as one JSON document")
    .addHelpText("after", HELP)
    .action(async (file: string, options: DoctorOptions) => {
      const { doctor } = await import("../doctor/doctor.ts");
      done(await doctor(file, options));
    });
}
