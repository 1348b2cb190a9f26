/**
 * What a 402 asks for, weighed: which offer the key can pay and the buyer allows, and all of it as text. What
 * the seller wrote is shown on one line each, without what a terminal would obey.
 */
import type { SellersOffer, Quote } from "../../buyer/offer.ts";
import {
  amountText,
  limitFault,
  readTerms,
  type Limit,
  type BuyerTerms,
} from "../../buyer/terms.ts";
import { printable } from "../../config/config.ts";
import { paint, say } from "../terminal.ts";

export interface Wishes {
  /** Null: no key is at hand, which only a dry run allows. */
  readonly family: BuyerTerms["kind"] | null;
  /** Empty: any. */
  readonly networks: readonly string[];
  readonly allowedAssets: readonly string[];
  readonly max: Limit;
}

/** An offer, and either the terms of it or a sentence on why it is not for us. */
export interface Weighed {
  readonly offer: SellersOffer;
  readonly terms: BuyerTerms | null;
  /** "" where it can be paid. */
  readonly objection: string;
}

/** Longest description that is shown, characters. */
const MAX_SHOWN = 300;
const LABEL_WIDTH = 11;

export function weigh({ offers }: Quote, wishes: Wishes): readonly Weighed[] {
  return offers.map((offer) => {
    const terms = readTerms(offer, wishes.allowedAssets);
    if (!terms.ok) return { offer, terms: null, objection: terms.error };
    return { offer, terms: terms.value, objection: objectionTo(terms.value, wishes) };
  });
}

function objectionTo({ kind, network }: BuyerTerms, { family, networks }: Wishes): string {
  if (networks.length > 0 && !networks.includes(network.name)) return "not the --network you want";
  if (family !== null && family !== kind) {
    return `needs a key for ${kind === "evm" ? "EVM networks" : "Solana"}`;
  }
  return "";
}

/** The first that can be paid: sellers put first what they like best. */
export function chosenOf(weighed: readonly Weighed[]): BuyerTerms | null {
  return weighed.find(({ objection }) => objection === "")?.terms ?? null;
}

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

/** Why the chosen terms are over the limit; undefined where they are not. */
export function overLimit(terms: BuyerTerms, { max }: Wishes): string | undefined {
  return limitFault(terms, max);
}

/** One line of somebody else's text. */
function line(text: string): string {
  const flat = printable(text.replace(/\s+/g, " ").trim());
  return flat.length > MAX_SHOWN ? `${flat.slice(0, MAX_SHOWN)}…` : flat;
}

function isLoopback(host: string): boolean {
  return /^(?:localhost|127(?:\.[0-9]+){3}|\[::1\]|.*\.localhost)$/.test(host);
}

/** An offer as data. */
export function offerView({ offer, terms, objection }: Weighed): Readonly<Record<string, unknown>> {
  const { amount, index: _index, extra: _extra, entry: _entry, ...rest } = offer;
  return {
    ...rest,
    amountAtomic: String(amount),
    amount: terms === null ? null : amountText(terms),
    objection: objection === "" ? null : objection,
  };
}
