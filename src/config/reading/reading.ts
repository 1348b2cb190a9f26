/**
 * Readers of single values: text to a value, or the fault of the text. A fault names what is wanted and
 * never what was written; its place shows that.
 */
import { METHODS } from "node:http";
import { parseAtomicAmount, type AtomicAmount } from "../../x402/amount.ts";
import { NETWORK_NAMES, networkOf, type NetworkName } from "../../x402/network.ts";
import { ok, type Result } from "../../x402/result.ts";
import type { Fault } from "./problem.ts";
import type { ProblemCode } from "./problem-codes.ts";
import { didYouMean } from "./suggestion.ts";

export type Reader<Value> = (text: string) => Result<Value, Fault>;

/** The code of everything that the language has and this version has not. */
export const NOT_YET: ProblemCode = "not-supported-yet";

const DAY_MS = 86_400_000;
/** Longer waits are mistakes, and timers overflow at 24 days. */
const MAX_DURATION_MS = DAY_MS;
/** What is kept for longer is kept for ever. */
const MAX_LASTING_MS = 365 * DAY_MS;

export const DURATION = /^(0|[1-9][0-9]{0,8})(ms|s|m|h)$/;
export const DURATION_FORM = "must be a duration such as 500ms, 30s, 10m or 1h";
const DURATION_UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
};
export const LASTING = /^([1-9][0-9]{0,8})(ms|s|m|h|d)$/;
export const LASTING_FORM = "must be a time such as 12h or 30d";
export const SIZE = /^(0|[1-9][0-9]{0,11})(B|KiB|MiB|GiB)$/;
export const SIZE_FORM = "must be a size such as 512B, 16KiB or 10MiB";
const SIZE_UNITS: Readonly<Record<string, number>> = {
  B: 1,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
};
/** What else Solana's networks are called, there and by other tools. */
const SOLANA_ALIASES: Readonly<Record<string, NetworkName>> = {
  "mainnet-beta": "solana",
  "solana-mainnet": "solana",
  "solana-mainnet-beta": "solana",
  devnet: "solana-devnet",
};

/** What to do about what is there twice. */
export const ONE_OF_TWO = "remove one of the two";

export function fault(code: ProblemCode, message: string, suggestion?: string): Fault {
  return suggestion === undefined ? { code, message } : { code, message, suggestion };
}

export function bad(message: string, suggestion?: string): { ok: false; error: Fault } {
  return { ok: false, error: fault("bad-value", message, suggestion) };
}

/** Milliseconds, from `0s` to a day. */
export const readDuration: Reader<number> = (text) => {
  const [, digits, unit = ""] = DURATION.exec(text) ?? [];
  if (digits === undefined) {
    const bare = /^[0-9]+$/.test(text) ? `write ${text}s for seconds` : unitHint(text);
    return bad(DURATION_FORM, bare);
  }
  const milliseconds = Number(digits) * (DURATION_UNITS[unit] ?? 0);
  return milliseconds <= MAX_DURATION_MS ? ok(milliseconds) : bad("must be at most 24h");
};

/** `30 seconds` as it was meant; undefined where the unit is no known one. */
function unitHint(text: string, day?: string): string | undefined {
  const near = /^([0-9]{1,9}) ?(?:(ms|millis|msecs?)|([smhd])[a-z]*)$/i;
  const [, digits, ms, unit = ""] = near.exec(text) ?? [];
  const units = { s: "s", m: "m", h: "h", d: day }[unit.toLowerCase()];
  const meant = ms === undefined ? units : "ms";
  return digits === undefined || meant === undefined ? undefined : `write ${digits}${meant}`;
}

/** Milliseconds, up to a year: how long something is kept, which nobody waits for. */
export const readLasting: Reader<number> = (text) => {
  const [, digits, unit = ""] = LASTING.exec(text) ?? [];
  if (digits === undefined) {
    const bare = /^[0-9]+$/.test(text) ? `write ${text}d for days` : unitHint(text, "d");
    return bad(LASTING_FORM, bare);
  }
  const milliseconds = Number(digits) * (unit === "d" ? DAY_MS : (DURATION_UNITS[unit] ?? 0));
  const isInRange = milliseconds > 0 && milliseconds <= MAX_LASTING_MS;
  return isInRange ? ok(milliseconds) : bad("must be more than zero, and at most 365d");
};

/** Bytes. */
export const readSize: Reader<number> = (text) => {
  const [, digits, unit = ""] = SIZE.exec(text) ?? [];
  if (digits === undefined) {
    const near = /^([0-9]+) ?([kmg])(?:i?b)?$/i.exec(text);
    const binary = near && `${near[1]}${near[2]?.toUpperCase()}iB`;
    return bad(SIZE_FORM, binary ? `write ${binary}` : undefined);
  }
  const bytes = Number(digits) * (SIZE_UNITS[unit] ?? 0);
  return bytes <= 2 ** 40 ? ok(bytes) : bad("must be at most 1024GiB");
};

/** One of a few words. */
export function readWord<const Word extends string>(words: readonly Word[]): Reader<Word> {
  return (text) => {
    const word = words.find((each) => each === text);
    if (word !== undefined) return ok(word);
    return bad(`must be ${listing(words)}`, didYouMean(text, words));
  };
}

function listing(words: readonly string[]): string {
  return words.length < 2
    ? words.join("")
    : `${words.slice(0, -1).join(", ")} or ${words.at(-1) ?? ""}`;
}

/** A URL of http or https without the parts that a base URL must not have; no trailing slash. */
export const readBaseUrl: Reader<string> = (text) => {
  const url = httpUrl(text);
  if (!url.ok) return url;
  const { origin, pathname, search, hash } = url.value;
  if (search !== "" || hash !== "" || /[?#]/.test(text)) {
    return bad("must have no query and no fragment");
  }
  return ok(`${origin}${pathname.replace(/\/+$/, "")}`);
};

/** Scheme, host and port only: what a backend is reached by. */
export const readOrigin: Reader<string> = (text) => {
  const url = readBaseUrl(text);
  if (!url.ok || new URL(url.value).pathname === "/") return url;
  return bad("must have no path", "write it as path: { prefix: /… } of an entry of upstreams");
};

/** What is asked of a facilitator, below its URL. */
const ENDPOINT = /\/(?:verify|settle|supported|discovery\/resources)$/;

/** Where a facilitator is. */
export const readFacilitatorUrl: Reader<string> = (text) => {
  const url = readBaseUrl(text);
  const [endpoint] = url.ok ? (ENDPOINT.exec(url.value) ?? []) : [];
  if (endpoint === undefined) return url;
  return bad(
    `must end before ${endpoint}, which is added for each request`,
    `leave out ${endpoint}`,
  );
};

/** Path and query are allowed: RPC URLs carry keys there. */
export const readRpcUrl: Reader<URL> = (text) => {
  const url = httpUrl(text);
  if (!url.ok || !text.includes("#")) return url;
  return bad(
    "must have no fragment",
    "leave out the # and what follows it: no server gets to see it",
  );
};

function httpUrl(text: string): Result<URL, Fault> {
  const scheme = /^https?:\/\//.test(text);
  const url = scheme && !/[\s\\]/.test(text) ? URL.parse(text) : null;
  if (url === null) {
    const bare = /^[a-z0-9.-]+(?::[0-9]+)?(?:\/|$)/i.test(text);
    const hint = bare ? "begin with http:// or https://" : undefined;
    return bad("must be an absolute http or https URL", hint);
  }
  if (url.username === "" && url.password === "") return ok(url);
  return bad("must have no user name and password", "write them as a header, from a variable");
}

export const readNetwork: Reader<NetworkName> = (text) => {
  const name = NETWORK_NAMES.find((each) => each === text);
  if (name !== undefined) return ok(name);
  const hint = otherNameHint(text) ?? didYouMean(text, NETWORK_NAMES);
  const known = `the networks are ${NETWORK_NAMES.join(", ")}`;
  return { ok: false, error: fault("unknown-network", "unknown network", hint ?? known) };
};

/** `eip155:8453` is how version 2 of the protocol calls `base`; its chain id alone is understood as well. */
function otherNameHint(text: string): string | undefined {
  const caip2 = /^[0-9]+$/.test(text) ? `eip155:${text}` : text;
  const name = NETWORK_NAMES.find((each) => networkOf(each).caip2 === caip2);
  const alias = Object.hasOwn(SOLANA_ALIASES, text) ? SOLANA_ALIASES[text] : undefined;
  const known = name ?? alias;
  return known === undefined ? undefined : `write ${known}`;
}

/** A positive amount in atomic units. */
export const readAmount: Reader<AtomicAmount> = (text) => {
  const amount = parseAtomicAmount(text);
  if (amount === undefined) {
    const hint = text.startsWith("$") ? "a price in dollars stands in `price`" : undefined;
    return bad("must be an amount in atomic units: decimal digits, below 2^256", hint);
  }
  return amount > 0n ? ok(amount) : bad("must be more than zero", "write free instead of a price");
};

/** A method that a request can have. */
export const readMethod: Reader<string> = (text) => {
  const served = METHODS.filter((method) => method !== "CONNECT");
  if (served.includes(text)) return ok(text);
  const code = "unknown-method";
  if (text === "CONNECT") return { ok: false, error: fault(code, "CONNECT is never served") };
  return { ok: false, error: fault(code, "unknown method", didYouMean(text, served)) };
};

/** `https://app.example.com`, as a browser writes it in `Origin`. */
export const readBrowserOrigin: Reader<string> = (text) => {
  const url = httpUrl(text);
  if (!url.ok) return url;
  if (url.value.origin === text) return ok(text);
  return bad("must be an origin as browsers send it", `write ${url.value.origin}`);
};
