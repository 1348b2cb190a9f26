/** `coinslot routes` on the command line. */
import { InvalidArgumentError, Option, type Command } from "commander";
import { isEvmAddress } from "../../x402/address.ts";
import { isSolanaAddress } from "../../x402/solana-address.ts";
import type { RoutesOptions } from "../routes/routes.ts";

const HELP = `
Without METHOD and URL: every rule, the first one that matches a request wins.
With them: how the URL is read, which rule wins over which and why, where the request goes, and the
answer as the gateway gives it. Nothing is asked of any other process.

  coinslot routes gateway.yaml GET /weather?city=Oslo
  coinslot routes gateway.yaml POST https://api.example.com/summarize --preflight
  coinslot routes gateway.yaml GET /weather --payer 0x857b06519E91e3A54538791bDbb0E22373e36b66
  coinslot routes gateway.yaml POST /summarize -H 'X-Tier: fast' --body request.json

Exit codes: 0 done, 1 the file is refused or has no routes, 2 wrong usage.`;

export function addRoutes(program: Command, done: (code: number) => void): void {
  program
    .command("routes")
    .description("show which rule answers which request, and what it costs")
    .argument("<file>", "the configuration file (YAML)")
    .argument("[method]", "explain this request: GET, POST, OPTIONS…", readMethod)
    .argument("[url]", "its URL, or path and query", readUrl)
    .addOption(
      new Option("-H, --header <line>", "a header of that request: 'Origin: https://shop.example'")
        .argParser(readHeader)
        .default([], "none"),
    )
    .option("--body <file>", "its body, where the price is computed from that")
    .addOption(
      new Option(
        "--payer <address>",
        "say what it costs this account, by the lists and groups of the file",
      ).argParser(readAccount),
    )
    .option("--preflight", "explain what a browser asks before that request from another origin")
    .option("--json", "as one JSON document")
    .addHelpText("after", HELP)
    .action(async (...given: unknown[]) => {
      const [file, method, url, options, command] = given as [
        string,
        string | undefined,
        string | undefined,
        RoutesOptions,
        Command,
      ];
      if (method !== undefined && url === undefined) command.error("error: missing argument 'url'");
      if (options.body !== undefined && method === undefined) {
        command.error("error: --body goes with the method and the URL of a request");
      }
      if (options.payer !== undefined && (method === undefined || options.preflight)) {
        command.error("error: --payer goes with the method and the URL of a request");
      }
      if (options.preflight && (method === undefined || method === "OPTIONS")) {
        command.error(
          "error: --preflight goes with the method that the page wants to use: GET, POST",
        );
      }
      const { routes } = await import("../routes/routes.ts");
      done(await routes(file, { method, url }, options));
    });
}

function readAccount(text: string): string {
  if (isEvmAddress(text) || isSolanaAddress(text)) return text;
  throw new InvalidArgumentError("An account is 0x and 40 hex digits, or an address of Solana.");
}

function readMethod(text: string): string {
  const method = text.toUpperCase();
  if (/^[A-Z][A-Z-]{0,31}$/.test(method)) return method;
  throw new InvalidArgumentError("A method is a word such as GET.");
}

function readUrl(text: string): string {
  if (/^(?:https?:\/\/|\/|\*$)/i.test(text)) return text;
  throw new InvalidArgumentError("Write https://… or a path that begins with /.");
}

/** Collected as raw `name, value` pairs. */
function readHeader(line: string, before: readonly string[]): readonly string[] {
  const [, name, value] =
    /^([\w!#$%&'*+.^`|~-]{1,64}):[ \t]*([\x20-\x7e]{0,8192})$/.exec(line) ?? [];
  if (name === undefined || value === undefined) {
    throw new InvalidArgumentError("Write NAME: VALUE in ASCII.");
  }
  return [...before, name, value];
}
