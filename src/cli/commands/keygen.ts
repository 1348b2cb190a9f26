/** `keygen` on the command line: its arguments, options and exit codes. */
import { Argument, Option, type Command } from "commander";
import type { KeygenOptions } from "../keygen.ts";

const HELP = `
stdout gets the address, and with --print the key instead of it; never both. FILE gets mode 0600 and is never
overwritten. A configuration names it as file:FILE (signers), pay as --key file:FILE.

An EVM key is 0x and 64 hex digits, for every EVM network. A Solana key is the JSON array of 64 numbers that
solana-keygen writes. Nothing else than the file has the key: without a copy of it the money is lost with it.

Exit codes: 0 done, 1 failed, 2 wrong usage.`;

/** Adds the command; `done` is told its exit code. */
export function addKeygen(program: Command, done: (code: number) => void): void {
  program
    .command("keygen")
    .description("make a key: one that pays, or one that settles payments")
    .addArgument(new Argument("<family>", "for which networks").choices(["evm", "solana"]))
    .addOption(
      new Option(
        "-o, --out <file>",
        "write the key to this new file (default: coinslot-FAMILY.key)",
      ),
    )
    .addOption(new Option("--print", "write the key to stdout, and to no file").conflicts("out"))
    .addOption(new Option("--json", "the address and the file as JSON").conflicts("print"))
    .addHelpText("after", HELP)
    .action(async (family: "evm" | "solana", options: KeygenOptions) => {
      const { keygen } = await import("../keygen.ts");
      done(await keygen(family, options));
    });
}
