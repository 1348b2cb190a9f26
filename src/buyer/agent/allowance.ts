/**
 * What an agent's owner allows: whom it may ask, and what it may spend. All of it is said where the program is started
 * and nowhere else: nothing that a seller, a listing or the agent writes is read here.
 */
import { formatAmount } from "../../x402/amount.ts";
import { err, ok, type Result } from "../../x402/result.ts";
import { LIMIT_DECIMALS, type BuyerTerms } from "../terms.ts";

/** Dollars at {@link LIMIT_DECIMALS}. */
export type Dollars = bigint;

/** A seller that may be asked. */
export interface AllowedSeller {
  /** As the owner wrote it, without the budget: the name of the budget, too. */
  readonly name: string;
  /** Null: `https:`, and `http:` on this machine. */
  readonly protocol: "http:" | "https:" | null;
  /** Lower case, with its port where that is not the usual one; of a wildcard what is behind `*`, such as `.example.com`. */
  readonly host: string;
  readonly kind: "host" | "below" | "any";
  /** Each day; null: {@link Allowance.perSeller}. */
  readonly perDay: Dollars | null;
}

export interface Allowance {
  readonly sellers: readonly AllowedSeller[];
  /** Names of networks; empty: any that the key is for. */
  readonly networks: readonly string[];
  readonly perCall: Dollars;
  /** Each day of UTC, with all sellers together. */
  readonly perDay: Dollars;
  /** Each day of UTC, with each seller that has no budget of its own. */
  readonly perSeller: Dollars;
  /** What costs more is asked of a person; null: nothing is. */
  readonly confirmAbove: Dollars | null;
  /** Nothing is signed. */
  readonly isDry: boolean;
}

/** Longest line that names a seller, characters. */
const MAX_LINE = 300;

/** `api.example.com`, `http://10.0.0.7:8402`, `*.example.com` or `*`, or a sentence on what is wrong with it. */
export function readSeller(text: string, perDay: Dollars | null): Result<AllowedSeller, string> {
  const [, scheme, host = ""] = /^(?:(https?):\/\/)?([^/]+)\/?$/i.exec(text) ?? [];
  const said = `${JSON.stringify(text.slice(0, MAX_LINE))} names no seller: write api.example.com, http://HOST:PORT, *.example.com or *`;
  if (text.length > MAX_LINE) return err(said);
  if (host === "*" && scheme === undefined)
    return ok({ name: "*", protocol: null, host: "", kind: "any", perDay });
  const isBelow = host.startsWith("*.");
  const named = isBelow ? host.slice(2) : host;
  const protocol =
    scheme === undefined ? null : scheme.toLowerCase() === "http" ? "http:" : "https:";
  const address = `${protocol ?? "https:"}//${named}`;
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (url === undefined || url.host === "" || /[*?#@\\]/.test(named)) return err(said);
  const kind = isBelow ? "below" : "host";
  const written = isBelow ? `.${url.host}` : url.host;
  const name = `${scheme === undefined ? "" : `${protocol}//`}${isBelow ? "*" : ""}${written}`;
  return ok({ name, protocol, host: written, kind, perDay });
}

/** Who may be asked at that address, or a sentence on why nobody is. */
export function sellerAt(
  url: URL,
  sellers: readonly AllowedSeller[],
): Result<AllowedSeller, string> {
  const found =
    sellers.find((seller) => seller.kind === "host" && fits(seller, url)) ??
    sellers.find((seller) => seller.kind === "below" && fits(seller, url)) ??
    sellers.find((seller) => seller.kind === "any" && isPublic(url));
  // Each host of those that nobody has named is a seller of its own.
  if (found !== undefined) return ok(found.kind === "any" ? { ...found, name: url.host } : found);
  const names = sellers.map(({ name }) => name).join(", ");
  return err(
    `${url.origin} is not among the sellers that the owner allows (${names === "" ? "none" : names}): only the owner can add it, with --seller where this program is started`,
  );
}

function fits({ protocol, host, kind }: AllowedSeller, url: URL): boolean {
  const wanted = protocol ?? (isHere(url) ? url.protocol : "https:");
  if (url.protocol !== wanted) return false;
  return kind === "below" ? url.host.endsWith(host) : url.host === host;
}

/** What everybody can ask, as far as its name says: no address, no name of a network at home. */
function isPublic({ protocol, hostname, port }: URL): boolean {
  const isName = /^(?:[a-z0-9-]+\.)+[a-z][a-z0-9-]*$/.test(hostname);
  const isInside = /\.(?:localhost|local|internal|lan|home|arpa|test|onion)$/.test(hostname);
  return protocol === "https:" && port === "" && isName && !isInside;
}

function isHere({ hostname }: URL): boolean {
  return /^(?:localhost|127(?:\.[0-9]+){3}|\[::1\])$/.test(hostname);
}

/** What terms cost, or a sentence: nobody knows what a token is worth that is not known here. */
export function dollarsOf({ offer, token }: BuyerTerms): Result<Dollars, string> {
  if (token === null)
    return err("nobody knows what this token is worth, so no budget has room for it");
  return ok(offer.amount * 10n ** BigInt(LIMIT_DECIMALS - token.decimals));
}

/** `$0.05` */
export function dollarText(dollars: Dollars): string {
  return `$${formatAmount(dollars, LIMIT_DECIMALS)}`;
}

/** What is spent or may still be, today. */
export interface Spent {
  readonly inAll: Dollars;
  readonly atSeller: Dollars;
}

/** What may be spent with that seller each day. */
export function sellersBudget(seller: AllowedSeller, { perSeller }: Allowance): Dollars {
  return seller.perDay ?? perSeller;
}

/** A sentence on which budget has no room for that; undefined: all have. */
export function budgetFault(
  cost: Dollars,
  seller: AllowedSeller,
  allowance: Allowance,
  spent: Spent,
): string | undefined {
  const { perCall, perDay } = allowance;
  const said = dollarText(cost);
  if (cost > perCall) return `${said} is more than one call may cost, ${dollarText(perCall)}`;
  if (spent.inAll + cost > perDay) {
    return `${said} more would be over the budget of a day, ${dollarText(perDay)}: ${dollarText(spent.inAll)} of it are spent or promised`;
  }
  const budget = sellersBudget(seller, allowance);
  if (spent.atSeller + cost > budget) {
    return `${said} more would be over the day's budget for ${seller.name}, ${dollarText(budget)}: ${dollarText(spent.atSeller)} of it are spent or promised`;
  }
  return undefined;
}
