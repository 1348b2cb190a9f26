/**
 * The kinds of problems that a file can have: what machine-readable reports call a rule. Codes are stable, other
 * programs filter by them; each has one sentence that says what it stands for, whatever the file.
 */
export const PROBLEM_CODES = {
  // The text.
  "unreadable-file": "A file that is needed cannot be read.",
  "too-long": "The file is longer than a configuration can be.",
  "too-deep": "Maps and lists are nested too deep.",
  "too-many-aliases": "Aliases stand for too many values.",
  "yaml-syntax": "The text is not one document of YAML 1.2.",
  empty: "There is nothing in the file.",
  "number-too-long": "A number has more digits than are kept exactly.",
  "bad-placeholder": "A placeholder is not of the form ${NAME} or ${NAME:-default}.",
  "unset-variable": "An environment variable is asked for that is not set.",
  // Single keys and values.
  "unknown-key": "A key has no meaning where it stands.",
  "duplicate-key": "A key is given twice.",
  "missing-key": "A key is required.",
  "bad-key": "A key is not of the form that keys have there.",
  "no-value": "A key has no value.",
  "bad-type": "A value is of another kind than is wanted: text, number, map or list.",
  "bad-value": "A value is not of the form, or not in the range, that is wanted.",
  "duplicate-entry": "A list has an entry twice.",
  "unused-key": "A key has no effect where it stands.",
  "not-supported-yet": "The language has this, and this version has not.",
  // Listeners and backends.
  "address-taken": "Two listeners have one address.",
  "no-certificate": "A file has no certificate.",
  "bad-certificate": "A certificate cannot be served.",
  "expired-certificate": "A certificate has expired.",
  "young-certificate": "A certificate is not valid yet.",
  "bad-file": "A file does not hold what it should.",
  "key-mismatch": "A private key does not belong to its certificate.",
  "plain-http": "Buyers pay over a connection that is not encrypted.",
  "plain-database":
    "The database is reached over a network, and nothing proves that it is the one that is meant.",
  "trusts-everybody": "Every client is believed who it claims to be.",
  "shared-payee": "Two files with a store each are paid to one address.",
  "shared-key": "Two files with a store each pay Solana's network fees with one key.",
  "no-upstream": "A route leads nowhere.",
  "unknown-upstream": "A route names an upstream that there is not.",
  "duplicate-upstream": "An upstream is given twice.",
  "shared-target": "Two upstreams reach one target by different paths.",
  "outside-strip": "A route has paths that its upstream cannot be sent.",
  "unsafe-retry": "A request that may do its work twice is tried again.",
  "odd-host": "The name of a host looks like a mistyped word.",
  "open-host": "Buyers choose which site of the backend answers.",
  "bad-header": "A header field is the gateway's own to write.",
  // Routes and prices.
  "nothing-to-do": "The file asks for nothing.",
  "nothing-priced": "No route has a price.",
  "no-public-url": "Nothing says under which address buyers reach the gateway.",
  "no-unmatched": "Nothing says what happens to requests that no route matches.",
  "bad-route": "The key of a route is not of the form [METHODS ]/pattern.",
  "unknown-method": "There is no such method.",
  "duplicate-route": "Two routes match the same requests.",
  "page-taken": "A page of the gateway stands where a route is.",
  "free-hole": "Requests are free although the paths around them are priced.",
  "free-aliases": "Backends may serve what is priced under other paths, which are free.",
  "no-price": "A route has neither a price nor its own accept.",
  "bad-price": "A token cannot express the price.",
  "ambiguous-price": "A bare number as a price could mean dollars or atomic units.",
  "high-price": "A route costs more than clients pay unless told otherwise.",
  "unusual-token": "Clients pay in other tokens than those of a route unless told otherwise.",
  "no-description": "A route has no description for buyers and catalogues.",
  "long-description": "A description is longer than catalogues show.",
  // Money.
  "no-accept": "Nothing says in which networks a route is paid.",
  "no-amount": "A token has no amount, and the price is not in it.",
  "fixed-amount": "One amount stands against several prices.",
  "unknown-network": "There is no such network.",
  "young-network": "Some older clients do not know a network and refuse the whole answer.",
  "unknown-asset": "A network has no such token.",
  "built-in-asset": "A built-in token is defined again.",
  "no-payto": "Nothing says who is paid.",
  "not-used": "Somebody is named who is never paid.",
  "bad-checksum": "The checksum of an address does not fit.",
  "no-facilitator": "Nothing settles payments.",
  "testnet-facilitator": "A facilitator for test networks is to settle real money.",
  "open-facilitator": "Whoever reaches the facilitator can settle through it.",
  "hidden-listing": "What other gateways sell is listed where buyers cannot read it.",
  "no-rpc": "A chain has to be asked, and no endpoint of it is given.",
  "literal-key": "A private key stands in the file.",
  "malformed-key": "A private key is none.",
  "smart-wallets-denied": "Payments from addresses that have code are refused.",
  "lighthouse-denied": "Payments of wallets that add assertions are refused.",
} as const satisfies Readonly<Record<string, string>>;

export type ProblemCode = keyof typeof PROBLEM_CODES;

export function isProblemCode(text: unknown): text is ProblemCode {
  return typeof text === "string" && Object.hasOwn(PROBLEM_CODES, text);
}
