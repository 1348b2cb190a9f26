/** `mcp` on the command line: its options, and what they allow an agent. */
import { homedir } from "node:os";
import { join } from "node:path";
import { InvalidArgumentError, Option, type Command } from "commander";
import { readSeller, type AllowedSeller } from "../../buyer/agent/allowance.ts";
import { readUrl } from "../../buyer/place.ts";
import { NETWORK_NAMES } from "../../x402/network.ts";
import { readMax, readNetworkChoice, readTimeout } from "../arguments.ts";
import type { McpOptions } from "../mcp/mcp.ts";

/** What an agent may spend unless its owner says otherwise. */
const DEFAULTS = { maxCall: "$0.10", maxDay: "$1" } as const;
/** Longest silence of a seller by default, milliseconds: a settlement may take half a minute. */
const DEFAULT_TIMEOUT_MS = 120_000;
/** Most sellers, and most listings. */
const MAX_NAMED = 256;

const HELP = `
An agent's program starts it and speaks MCP to it over stdin and stdout, of the revisions 2025-11-25 and 2026-07-28:

  { "mcpServers": { "coinslot": { "command": "coinslot",
      "args": ["mcp", "--key", "file:/home/me/agent.key", "--seller", "api.example.com"] } } }

Its tools are search, quote, buy, balance and history. What may be spent, and with whom, is said here and nowhere else:
no tool takes a key, a budget or a seller, and what sellers and listings write is told as what they write.

--seller is a host (https, on this machine http too), an origin (http://10.0.0.7:8402), *.example.com, or * for every public
host by https. Each may have a budget of its own: --seller 'api.example.com=$0.50'. A day is one of UTC. A payment whose
outcome is not known counts until it is; one that was refused counts for its day, as its seller could still settle it.

Each purchase is in the --state file before anything is sent. The same call again within 15 minutes gets the same answer,
later one is bought anew; an "occasion" of the agent's tells purchases of one call apart. Where the answer was lost, the same
call presents the same payment: nothing is charged twice. One process at a time has the file, which has mode 0600.

What costs more than --confirm-above is asked of the person before the client (elicitation); where the client cannot ask, it
is refused.

Exit codes: 0 the client is gone, 1 failed, 2 wrong usage.`;

/** Adds the command; `done` is told its exit code. */
export function addMcp(program: Command, done: (code: number) => void): void {
  program
    .command("mcp")
    .description("an MCP server over stdio that finds and buys for an agent, within your budgets")
    .option("--key <reference>", "who pays: env:NAME or file:PATH (default: env:COINSLOT_KEY)")
    .option("--seller <host>", "whom it may ask; may be repeated, HOST=$PRICE: its budget", seller)
    .option("--listing <url>", "where it may search besides; may be repeated", listing)
    .addOption(price("--max-call", "the most that one call may cost", DEFAULTS.maxCall))
    .addOption(price("--max-day", "the most that a day may cost", DEFAULTS.maxDay))
    .addOption(price("--max-seller", "the most that a day may cost with each seller"))
    .addOption(price("--confirm-above", "what costs more is asked of a person"))
    .addOption(
      new Option("--network <name>", "only on this network (or its CAIP-2); may be repeated")
        .choices(NETWORK_NAMES)
        .argParser(readNetworkChoice),
    )
    .option("--rpc <url>", "Solana: the node that is asked for a blockhash (default: a public one)")
    .option("--dry-run", "search and quote, and sign nothing")
    .addOption(
      new Option("--state <file>", "what was bought").default(
        defaultState(),
        "purchases.db in $XDG_STATE_HOME/coinslot or ~/.local/state/coinslot",
      ),
    )
    .addOption(
      new Option("--timeout <duration>", "longest silence of a seller: 30s, 5m")
        .argParser(readTimeout)
        .default(DEFAULT_TIMEOUT_MS, "2m"),
    )
    .addHelpText("after", HELP)
    .action(async (options: McpOptions) => {
      const { mcp } = await import("../mcp/mcp.ts");
      done(await mcp(options));
    });
}

function price(flag: string, description: string, usual?: string): Option {
  const option = new Option(`${flag} <price>`, `${description}: '$0.05', 0.05usd`).argParser(
    dollars,
  );
  return usual === undefined ? option : option.default(dollars(usual), usual);
}

function dollars(text: string): bigint {
  const max = readMax(text);
  // Budgets are counted in one unit.
  if (max.kind === "units") throw new InvalidArgumentError("A budget is in dollars: '$0.05'.");
  return max.amount;
}

function seller(text: string, before: readonly AllowedSeller[] = []): readonly AllowedSeller[] {
  const [, host = "", budget] = /^([^=]*)(?:=(.*))?$/s.exec(text) ?? [];
  const read = readSeller(host, budget === undefined ? null : dollars(budget));
  if (!read.ok) throw new InvalidArgumentError(`${read.error}.`);
  return few([...before, read.value]);
}

function listing(text: string, before: readonly URL[] = []): readonly URL[] {
  const url = readUrl(text);
  if (!url.ok) throw new InvalidArgumentError(`${url.error}.`);
  return few([...before, url.value]);
}

function few<Value>(named: readonly Value[]): readonly Value[] {
  if (named.length <= MAX_NAMED) return named;
  throw new InvalidArgumentError(`No more than ${MAX_NAMED} of them.`);
}

function defaultState(): string {
  const folder = process.env["XDG_STATE_HOME"] || join(homedir(), ".local", "state");
  return join(folder, "coinslot", "purchases.db");
}
