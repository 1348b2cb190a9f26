/** `pay` on the command line: its arguments, options and exit codes. */
import { InvalidArgumentError, Option, type Command } from "commander";
import { readHeaderLine } from "../../buyer/header-line.ts";
import { NETWORK_NAMES } from "../../x402/network.ts";
import { isVersion, X402_VERSION, X402_VERSION_2 } from "../../x402/x402.ts";
import { readMax, readNetworkChoice, readTimeout } from "../arguments.ts";
import type { PayOptions } from "../pay/pay.ts";

/** What a client of version 1 of the protocol pays unless it is told otherwise. */
const DEFAULT_MAX = "$0.10";
/** Longest silence of the server by default, milliseconds: a settlement may take half a minute. */
const DEFAULT_TIMEOUT_MS = 120_000;

const HELP = `
The price is asked first, without a payment. It goes to stderr, with everything else that is said;
stdout has the body of the answer and nothing else. The signed payment is sent again, unchanged, when an
answer is lost. If that does not help it is kept in a file, to be tried again with --payment FILE.

The key is env:NAME or file:PATH: 0x and 64 hex digits pay on EVM networks, the 64 numbers that
solana-keygen writes (or base58) on Solana. coinslot keygen makes one. It needs the token, and no gas;
what is free needs no key.

--balance and --credits sign a text that names the place you asked, which costs nothing and is good there alone. A
request that is paid so is sent once: where its answer is lost, --balance tells whether it was paid.

-L follows five redirects: with your headers and the payment within the place that you asked, without them
elsewhere, and nothing is paid there.

Exit codes:
  0  done: the answer is below 400 and no redirect, whether or not it had to be paid for; or --dry-run
  1  failed before anything was signed: no answer, an unusable 402, an answer of 400 or more
  2  wrong usage
  3  not paid: you said no or nobody could be asked, there is no key, it is over --max, or no offer fits
  4  paid, or perhaps paid, and not served: the payment is kept in a file
  5  the payment was refused: nothing was settled, as far as the seller tells
  6  a redirect that was not followed, be it paid for or not: where it leads is told`;

/** Adds the command; `done` is told its exit code. */
export function addPay(program: Command, done: (code: number) => void): void {
  const allButPayment = [
    "key",
    "network",
    "protocol",
    "allowAsset",
    "rpc",
    "yes",
    "dryRun",
    "balance",
    "credits",
  ];
  program
    .command("pay")
    .description("ask for a URL, pay what it costs, and print what it answers: a paying curl")
    .argument("<url>", "what to ask for: http:// or https://")
    .option("-X, --request <method>", "the method (default: GET, and POST with --data)", readMethod)
    .option("-H, --header <line>", "a header, 'Name: value'; may be repeated", readHeader)
    .option("-d, --data <body>", "the body: a text, @FILE, or - for stdin")
    .option("--key <reference>", "who pays: env:NAME or file:PATH (default: env:COINSLOT_KEY)")
    .addOption(
      new Option("--network <name>", "only on this network (or its CAIP-2); may be repeated")
        .choices(NETWORK_NAMES)
        .argParser(readNetworkChoice),
    )
    .addOption(
      new Option("--protocol <version>", "the version to pay in (default: the seller's newest)")
        .choices([X402_VERSION, X402_VERSION_2].map(String))
        .argParser(readProtocol),
    )
    .addOption(
      new Option("--max <price>", "the most that is paid: '$0.05', 0.05usd, 50000units")
        .argParser(readMax)
        .default(readMax(DEFAULT_MAX), DEFAULT_MAX),
    )
    .option("--allow-asset <address>", "also pay in this token; may be repeated", collect)
    .option("--rpc <url>", "Solana: the node that is asked for a blockhash (default: a public one)")
    .option("-y, --yes", "do not ask")
    .option("--dry-run", "show what it costs and sign nothing")
    .addOption(
      new Option(
        "--credits",
        "pay from what the key has prepaid there, and from nothing else: signs in, and signs no payment",
      ).conflicts(["location", "dryRun"]),
    )
    .addOption(
      new Option(
        "--balance",
        "sign in, print what the key has prepaid there in dollars, and ask for nothing else",
      ).conflicts(["credits", "dryRun", "yes", "location", "output", "include", "data", "request"]),
    )
    .option("-L, --location", "follow redirects, with a payment within the same place only")
    .option("-o, --output <file>", "write the body to this file")
    .option("-i, --include", "print the head of the answer before its body")
    .option("--json", "what was paid, as JSON on stdout; needs --output, --dry-run or --balance")
    .option("--keep <folder>", "where a payment is kept that stays unresolved", ".")
    .addOption(
      new Option("--payment <file>", "send a kept payment again instead of signing one").conflicts(
        allButPayment,
      ),
    )
    .addOption(
      new Option("--timeout <duration>", "longest silence of the server: 30s, 5m")
        .argParser(readTimeout)
        .default(DEFAULT_TIMEOUT_MS, "2m"),
    )
    .addHelpText("after", HELP)
    .action(async (url: string, options: PayOptions) => {
      const { pay } = await import("../pay/pay.ts");
      done(await pay(url, options));
    });
}

function readMethod(text: string): string {
  if (/^[A-Za-z]{1,20}$/.test(text)) return text.toUpperCase();
  throw new InvalidArgumentError("A method is a word such as POST.");
}

type HeaderLine = readonly [name: string, value: string];

function readHeader(text: string, before: readonly HeaderLine[] = []): readonly HeaderLine[] {
  const [, name = "", value = ""] = /^([^:]*):[ \t]*(.*?)[ \t]*$/s.exec(text) ?? [];
  const line = readHeaderLine(name, value);
  if (!line.ok) throw new InvalidArgumentError(line.error);
  return [...before, line.value];
}

function readProtocol(text: string): PayOptions["protocol"] {
  const version = Number(text);
  if (isVersion(version)) return version;
  throw new InvalidArgumentError("The versions of x402 are 1 and 2.");
}

function collect(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}
