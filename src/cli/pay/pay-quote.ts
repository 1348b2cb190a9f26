/** What a 402 asks for as text: what the seller wrote on one line each, without what a terminal would obey. */
import type { Quote } from "../../buyer/offer.ts";
import { amountText } from "../../buyer/terms.ts";
import { chosenOf, type Weighed } from "../../buyer/weighing.ts";
import { printable } from "../../config/config.ts";
import { paint, say } from "../terminal.ts";

/** Longest description that is shown, characters. */
const MAX_SHOWN = 300;
const LABEL_WIDTH = 11;

/** The whole quote, on stderr. */
export function showQuote(
  asked: { readonly method: string; readonly url: URL },
  quote: Quote,
  weighed: readonly Weighed[],
  help: string | null,
): void {
  const { method, url } = asked;
  const reason = quote.error === "" ? "" : `: ${line(quote.error)}`;
  say(`${printable(`${method} ${url.origin}${url.pathname}`)} asks for payment${reason}`);
  say(`  it ${spokenText(quote)}`);
  const chosen = chosenOf(weighed);
  for (const { offer, terms, objection } of weighed) {
    const amount =
      terms === null ? `${offer.amount} atomic units of ${offer.asset}` : amountText(terms);
    const isChosen = terms === chosen && chosen !== null;
    say(`${isChosen ? paint("green", "*") : " "} ${paint("bold", line(amount))}`);
    const network =
      terms === null
        ? offer.network
        : `${offer.network} (${terms.network.displayName}${terms.network.testnet ? ", a test network" : ""})`;
    const rows: (readonly [string, string])[] = [
      ["network", network],
      ["pay to", offer.payTo],
      ["for", offer.description],
      [
        "resource",
        `${offer.resource}${isSamePlace(offer.resource, url) ? "" : " (not the URL you ask for)"}`,
      ],
      ["within", `${offer.maxTimeoutSeconds} s`],
      ["but", objection],
    ];
    for (const [label, text] of rows) {
      if (text.trim() !== "") say(`    ${label.padEnd(LABEL_WIDTH)}${line(text)}`);
    }
  }
  if (help !== null) say(`  the seller helps buyers at ${line(help)}`);
  for (const fault of quote.unreadable) say(`  ${paint("yellow", line(fault))}`);
  if (url.protocol === "http:" && !isLoopback(url.hostname)) {
    say(
      paint(
        "yellow",
        "  the connection is not encrypted: anybody on the way can change whom you pay",
      ),
    );
  }
}

function spokenText({ spoken, version }: Quote): string {
  if (spoken.length === 1) return `speaks version ${spoken.join()} of x402 only`;
  return `speaks versions ${spoken.join(" and ")} of x402, and is paid in version ${version}`;
}

function isSamePlace(resource: string, { origin, pathname }: URL): boolean {
  if (!URL.canParse(resource)) return false;
  const named = new URL(resource);
  return named.origin === origin && named.pathname === pathname;
}

/** One line of somebody else's text. */
function line(text: string): string {
  const flat = printable(text.replace(/\s+/g, " ").trim());
  return flat.length > MAX_SHOWN ? `${flat.slice(0, MAX_SHOWN)}…` : flat;
}

function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.[0-9]+){3}|\[::1\]|.*\.localhost)$/.test(host);
}
