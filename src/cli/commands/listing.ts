/** `coinslot listing` on the command line. */
import type { Command } from "commander";
import { Option } from "commander";
import { readTimeout } from "../arguments.ts";
import type { ListingOptions } from "../doctor/listing.ts";

/** Longest that one page of a listing may take unless told otherwise. */
const DEFAULT_TIMEOUT_MS = 10_000;

const HELP = `
Reads the listing of the gateway itself, at publicUrl, and that of every facilitator elsewhere that the
file names, and compares them with the file: for every priced route whether it is listed, where, and if
not why. Sales are read from the store, beside a running gateway or without one; what facilitators said
of listing, with their answers to payments, is asked of the running gateway at admin. Nothing is changed.

Exit codes:
  0  every priced route that may be listed is listed somewhere, and nowhere with other terms
  1  some route is not, or is listed with other terms; or the file is refused or has no priced routes
  2  wrong usage
  3  as 0 as far as can be seen, but a listing could not be read`;

export function addListing(program: Command, done: (code: number) => void): void {
  program
    .command("listing")
    .description("show where each priced route is listed for buyers, and if not, why")
    .argument("<file>", "the configuration file (YAML)")
    .addOption(
      new Option("--timeout <duration>", "how long one page of a listing may take: 10s, 1m")
        .argParser(readTimeout)
        .default(DEFAULT_TIMEOUT_MS, "10s"),
    )
    .option("--json", "as one JSON document")
    .addHelpText("after", HELP)
    .action(async (file: string, options: ListingOptions) => {
      const { listing } = await import("../doctor/listing.ts");
      done(await listing(file, options));
    });
}
