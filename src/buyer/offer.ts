/**
 * A 402 answer as a buyer reads it (protocol section 2.1), from a seller who may mean harm: everything is
 * bounded, each offer is read by itself, and one that is odd is told about and passed over.
 */
import { parseUint256 } from "../x402/amount.ts";
import { err, ok, type Result } from "../x402/result.ts";
import { EXACT_SCHEME, X402_VERSION } from "../x402/x402.ts";
import { isRecord } from "../x402/json.ts";

/** One way to pay that was understood; nothing is known yet of whether it should be. */
export interface SellersOffer {
  /** Its place in `accepts`, from 0. */
  readonly index: number;
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
}

export interface Quote {
  /** Why payment is required, in the seller's words. */
  readonly error: string;
  readonly offers: readonly SellersOffer[];
  /** One sentence for each offer that could not be read. */
  readonly unreadable: readonly string[];
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

/** The offers of a 402 body, or a sentence on why it has none that a client of version 1 reads. */
export function readQuote(body: Uint8Array): Result<Quote, string> {
  const json = parseJson(body);
  if (!isRecord(json)) return err("the 402 answer is not a JSON object, so it names no price");
  const { x402Version: version, accepts } = json;
  if (version !== X402_VERSION) {
    const said = typeof version === "number" ? `version ${version}` : "no version";
    return err(`the 402 answer is of ${said} of x402; only version ${X402_VERSION} is spoken here`);
  }
  if (!Array.isArray(accepts)) return err("the 402 answer has no list of offers (accepts)");
  const offers: SellersOffer[] = [];
  const unreadable: string[] = [];
  for (const [index, entry] of accepts.slice(0, MAX_OFFERS).entries()) {
    const offer = readOffer(entry, index);
    if (offer.ok) offers.push(offer.value);
    else unreadable.push(`offer ${index + 1} ${offer.error}`);
  }
  if (accepts.length > MAX_OFFERS) {
    unreadable.push(`${accepts.length - MAX_OFFERS} more offers were not looked at`);
  }
  return ok({ error: text(json["error"]), offers, unreadable });
}

function readOffer(entry: unknown, index: number): Result<SellersOffer, string> {
  if (!isRecord(entry)) return err("is not an object");
  const { scheme, network, asset, payTo, maxAmountRequired, maxTimeoutSeconds, extra } = entry;
  if (scheme !== EXACT_SCHEME) return err(`is not of the scheme "${EXACT_SCHEME}"`);
  for (const [name, value] of Object.entries({ network, asset, payTo })) {
    if (!isWord(value)) return err(`has no usable ${name}`);
  }
  const amount =
    typeof maxAmountRequired === "string" ? parseUint256(maxAmountRequired) : undefined;
  if (amount === undefined || amount === 0n) {
    return err("has no amount: maxAmountRequired must be the digits of a number above 0");
  }
  if (!isSeconds(maxTimeoutSeconds)) return err("has no usable maxTimeoutSeconds");
  return ok({
    index,
    network: text(network),
    amount,
    asset: text(asset),
    payTo: text(payTo),
    resource: text(entry["resource"]),
    description: text(entry["description"]),
    mimeType: text(entry["mimeType"]),
    maxTimeoutSeconds,
    extra: isRecord(extra) ? extra : {},
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
