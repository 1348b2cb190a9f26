/**
 * A 402 answer as a buyer reads it (protocol section 2.1; version 2, section 5.1), from a seller who may mean harm:
 * everything is bounded, each offer is read by itself, and one that is odd is told about and passed over.
 */
import { parseUint256 } from "../x402/amount.ts";
import { err, ok, type Result } from "../x402/result.ts";
import { EXACT_SCHEME, X402_VERSION, X402_VERSION_2, type X402Version } from "../x402/x402.ts";
import { isRecord } from "../x402/json.ts";
import { PAYMENT_REQUIRED_HEADER } from "../x402/header.ts";
import { findNetwork } from "../x402/network.ts";
import { nameOfCaip2 } from "../x402/version-2.ts";

/** One way to pay that was understood, of whichever version; nothing is known yet of whether it should be. */
export interface SellersOffer {
  /** Its place in `accepts`, from 0. */
  readonly index: number;
  /** The name that version 1 has for it, where it is known here. */
  readonly network: string;
  /** Atomic units, more than 0. */
  readonly amount: bigint;
  readonly asset: string;
  readonly payTo: string;
  /** As the seller writes it; not checked against the address that was asked. */
  readonly resource: string;
  readonly description: string;
  readonly mimeType: string;
  readonly maxTimeoutSeconds: number;
  readonly extra: Readonly<Record<string, unknown>>;
  /** All of it as the seller wrote it: a payment of version 2 repeats that. */
  readonly entry: Readonly<Record<string, unknown>>;
}

export interface Quote {
  readonly version: X402Version;
  /** Every version in which the seller asks. */
  readonly spoken: readonly X402Version[];
  /** Why payment is required, in the seller's words. */
  readonly error: string;
  readonly offers: readonly SellersOffer[];
  /** One sentence for each offer that could not be read. */
  readonly unreadable: readonly string[];
  /** Version 2: what a payment repeats beside the offer, as the seller wrote it. */
  readonly resource?: Readonly<Record<string, unknown>>;
  readonly extensions?: Readonly<Record<string, unknown>>;
}

/** What of an answer may ask for a payment. */
export interface Asked {
  /** The value of `PAYMENT-REQUIRED`; "" where there is none. */
  readonly header: string;
  readonly body: Uint8Array;
}

/** The largest 402 body, bytes; usual ones have 1 to 4 KiB. */
export const MAX_QUOTE_BYTES = 1024 * 1024;
/** Offers that are looked at. */
const MAX_OFFERS = 64;
/** Longest text that is kept of any member, characters. */
const MAX_TEXT = 1_000;
/** Longest address, characters. */
const MAX_ADDRESS = 64;
/** A year: what asks for more is not meant. */
const MAX_TIMEOUT_SECONDS = 31_536_000;

/**
 * What a 402 asks for in the newest version that the seller speaks, or in the one that is wanted; else a sentence on why
 * there is no price to read.
 */
export function readQuote({ header, body }: Asked, wanted?: X402Version): Result<Quote, string> {
  const older = quoteOfBody(parseJson(body));
  const newer = header === "" ? undefined : readHeaderJson(header);
  const quotes = new Map<X402Version, Readonly<Record<string, unknown>>>();
  if (older.ok) quotes.set(X402_VERSION, older.value);
  if (isRecord(newer) && newer["x402Version"] === X402_VERSION_2 && Array.isArray(newer["accepts"]))
    quotes.set(X402_VERSION_2, newer);
  const spoken = [...quotes.keys()];
  const version = wanted ?? spoken.at(-1);
  const quote = version && quotes.get(version);
  if (version && quote) return ok(quoteOf(quote, version, spoken));
  if (spoken.length > 0) return err(`the seller asks in version ${spoken.join()} of x402 alone`);
  if (header === "" && !older.ok) return older;
  return err(`${PAYMENT_REQUIRED_HEADER} of the 402 answer cannot be read`);
}

/** The same of a document that is none of HTTP: a tool's result, an entry of a listing. */
export function readQuoteJson(json: unknown): Result<Quote, string> {
  if (isRecord(json) && json["x402Version"] === X402_VERSION_2 && Array.isArray(json["accepts"]))
    return ok(quoteOf(json, X402_VERSION_2, [X402_VERSION_2]));
  const older = quoteOfBody(json);
  return older.ok ? ok(quoteOf(older.value, X402_VERSION, [X402_VERSION])) : older;
}

/** The JSON of a header's base64; undefined for what is none. */
export function readHeaderJson(header: string): unknown {
  return parseJson(Buffer.from(header, "base64"));
}

function quoteOfBody(json: unknown): Result<Readonly<Record<string, unknown>>, string> {
  if (!isRecord(json)) return err("the 402 answer is not a JSON object, so it names no price");
  const { x402Version: version, accepts } = json;
  if (version === X402_VERSION_2) {
    return err(
      `the 402 answer is of version 2 of x402, which asks in ${PAYMENT_REQUIRED_HEADER}, and there is none`,
    );
  }
  if (version !== X402_VERSION) {
    const said = typeof version === "number" ? `version ${version}` : "no version";
    return err(`the 402 answer is of ${said} of x402; versions 1 and 2 are spoken here`);
  }
  if (!Array.isArray(accepts)) return err("the 402 answer has no list of offers (accepts)");
  return ok(json);
}

function quoteOf(
  quote: Readonly<Record<string, unknown>>,
  version: X402Version,
  spoken: readonly X402Version[],
): Quote {
  const { error, resource, extensions } = quote;
  const accepts: readonly unknown[] = Array.isArray(quote["accepts"]) ? quote["accepts"] : [];
  const offers: SellersOffer[] = [];
  const unreadable: string[] = [];
  for (const [index, entry] of accepts.slice(0, MAX_OFFERS).entries()) {
    const offer = version === X402_VERSION ? readOffer(entry) : readOfferV2(entry, resource);
    if (offer.ok) offers.push({ index, ...offer.value });
    else unreadable.push(`offer ${index + 1} ${offer.error}`);
  }
  if (accepts.length > MAX_OFFERS) {
    unreadable.push(`${accepts.length - MAX_OFFERS} more offers were not looked at`);
  }
  const common = { version, spoken, error: text(error), offers, unreadable };
  if (version === X402_VERSION) return common;
  return {
    ...common,
    ...(isRecord(resource) && { resource }),
    ...(isRecord(extensions) && { extensions }),
  };
}

/** Version 2, in the words of version 1. */
function readOfferV2(
  entry: unknown,
  resource: unknown,
): Result<Omit<SellersOffer, "index">, string> {
  if (!isRecord(entry)) return err("is not an object");
  const { network, amount } = entry;
  const { url, description, mimeType } = isRecord(resource) ? resource : {};
  if (typeof network === "string" && findNetwork(network) !== undefined) {
    return err("does not name its network in CAIP-2, as version 2 has it");
  }
  const name = typeof network === "string" ? nameOfCaip2(network) : network;
  const sold = { resource: url, description, mimeType };
  const read = readOffer({ ...entry, network: name, maxAmountRequired: amount, ...sold }, "amount");
  return read.ok ? ok({ ...read.value, entry }) : read;
}

/** @param amountName what the amount is called where the seller writes it */
function readOffer(
  entry: unknown,
  amountName = "maxAmountRequired",
): Result<Omit<SellersOffer, "index">, string> {
  if (!isRecord(entry)) return err("is not an object");
  const { scheme, network, asset, payTo, maxAmountRequired, maxTimeoutSeconds, extra } = entry;
  if (scheme !== EXACT_SCHEME) return err(`is not of the scheme "${EXACT_SCHEME}"`);
  for (const [name, value] of Object.entries({ network, asset, payTo })) {
    if (!isWord(value)) return err(`has no usable ${name}`);
  }
  const amount =
    typeof maxAmountRequired === "string" ? parseUint256(maxAmountRequired) : undefined;
  if (amount === undefined || amount === 0n) {
    return err(`has no amount: ${amountName} must be the digits of a number above 0`);
  }
  if (!isSeconds(maxTimeoutSeconds)) return err("has no usable maxTimeoutSeconds");
  return ok({
    network: text(network),
    amount,
    asset: text(asset),
    payTo: text(payTo),
    resource: text(entry["resource"]),
    description: text(entry["description"]),
    mimeType: text(entry["mimeType"]),
    maxTimeoutSeconds,
    extra: isRecord(extra) ? extra : {},
    entry,
  });
}

function isWord(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= MAX_ADDRESS;
}

function isSeconds(seconds: unknown): seconds is number {
  return Number.isInteger(seconds) && Number(seconds) > 0 && Number(seconds) <= MAX_TIMEOUT_SECONDS;
}

/** The text, cut where it is too long; "" for anything else. */
function text(value: unknown): string {
  return typeof value === "string" ? value.slice(0, MAX_TEXT).toWellFormed() : "";
}

/** Undefined for what is no JSON. */
export function parseJson(body: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(body).toString("utf8"));
  } catch {
    return undefined;
  }
}
