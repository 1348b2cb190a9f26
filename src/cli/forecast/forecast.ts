/** `coinslot forecast FILE LOG…`: what the file would have earned by requests that were answered. */
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import {
  forecast as forecastOf,
  type Forecast,
  type ForecastLine,
} from "../../diagnosis/forecast.ts";
import { formatAmount } from "../../x402/amount.ts";
import { messageOf } from "../../x402/result.ts";
import { loadOrExplain } from "../load.ts";
import { toColumns, toJson } from "../payments/payment-text.ts";
import { fail, print, ProgressLine, say } from "../terminal.ts";

/** Clients that are told of. */
const MAX_AGENTS = 20;
/** Lines between two words on how far it is. */
const EACH = 100_000;
/** Of millionths of a dollar. */
const DECIMALS = 6;

/** Resolves with the exit code: 1 where the file is refused or a log cannot be read. */
export async function forecast(
  file: string,
  logs: readonly string[],
  { json, host }: { readonly json?: boolean; readonly host?: string },
): Promise<number> {
  const config = await loadOrExplain(file);
  if (config === undefined) return 1;
  const progress = new ProgressLine();
  try {
    const found = await forecastOf(config, linesOf(logs, progress), host);
    progress.clear();
    if (json === true) process.stdout.write(toJson(jsonOf(found)));
    else tell(found);
    return 0;
  } catch (cause) {
    progress.clear();
    return fail("forecast", messageOf(cause));
  }
}

async function* linesOf(logs: readonly string[], progress: ProgressLine): AsyncGenerator<string> {
  let count = 0;
  for (const log of logs) {
    const input = log === "-" ? process.stdin : createReadStream(log);
    for await (const line of createInterface({ input, crlfDelay: Infinity })) {
      count += 1;
      if (count % EACH === 0) progress.show(`${count} lines`);
      yield line;
    }
  }
}

function dollarsOf({ microdollars }: ForecastLine): string | null {
  return microdollars === null ? null : formatAmount(microdollars, DECIMALS);
}

function jsonOf({ routes, agents, ...rest }: Forecast): object {
  return { ...rest, routes: routes.map(inDollars), agents: agents.map(inDollars) };
}

function inDollars(line: ForecastLine): object {
  return { ...line, microdollars: undefined, dollars: dollarsOf(line) };
}

function tell({ routes, agents, unread, unsold }: Forecast): void {
  if (routes.length === 0) print("nothing of what is in the logs would have been sold");
  else {
    const head = ["ROUTE", "REQUESTS", "CLIENTS", "SHOWED A PAYMENT", "IF ALL HAD PAID"];
    process.stdout.write(`${toColumns([head, ...routes.map(columnsOf)], false)}\n`);
    const asked = [
      "WOULD HAVE BEEN ASKED, BY USER AGENT",
      "REQUESTS",
      "CLIENTS",
      "IF ALL HAD PAID",
    ];
    const rows = agents.slice(0, MAX_AGENTS).map((line) => {
      const [name, requests, clients, , dollars] = columnsOf(line);
      return [name ?? "", requests ?? "", clients ?? "", dollars ?? ""];
    });
    process.stdout.write(toColumns([asked, ...rows], false));
    if (agents.length > MAX_AGENTS) say(`and ${agents.length - MAX_AGENTS} more user agents`);
  }
  say(`not sold: ${unsold} requests; no requests: ${unread} lines`);
}

function columnsOf(line: ForecastLine): string[] {
  const dollars = dollarsOf(line);
  return [
    line.name,
    String(line.requests),
    String(line.clients),
    String(line.paying),
    dollars === null ? "" : `$${dollars}`,
  ];
}
