/** `coinslot try` on the command line. */
import type { Command } from "commander";
import type { TryOptions } from "../try.ts";

const HELP = `
A local chain that stands in for Base Sepolia, with Circle's USDC contract, a facilitator and a buyer with 5 USDC: no
account, no faucet, no money. Everything at the URL's host is sold for the price, or the routes that are named; the URL
itself is bought once, and the command to buy more is told. It stays up until Ctrl-C, and leaves nothing behind.

The chain is anvil, which is a program of its own: it comes with the sources (npm ci), and beside an installed coinslot it
has to be on the PATH, or named in ANVIL (https://getfoundry.sh).

Exit codes: 0 done, 1 failed, 2 wrong usage.`;

export function addTry(program: Command, done: (code: number) => void): void {
  program
    .command("try")
    .description(
      "sell what your backend answers on a local chain, and buy it once: no money, no accounts",
    )
    .argument("<url>", "what to sell: http://localhost:3000/weather?city=Oslo")
    .option("--route <key>", "sell only this route: 'GET /weather'; may be repeated", collect)
    .option("--price <price>", "of every route", "$0.01")
    .option("--once", "buy once, and end")
    .option("--json", "what was bought, and where it is all to be found, as one JSON document")
    .addHelpText("after", HELP)
    .action(async (url: string, options: TryOptions) => {
      const { tryOut } = await import("../try.ts");
      done(await tryOut(url, options));
    });
}

function collect(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}
