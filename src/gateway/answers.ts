/**
 * The answers that the gateway itself gives, as values: whoever decided makes one, and only the visitor
 * (`visitor.ts`) writes it to a socket.
 */
import type { Unfit } from "../payments/sale/admission.ts";
import { noFeePayer, notTakenNow } from "../payments/sale/choice.ts";
import type { Offers } from "../payments/sale/offers.ts";
import { saidOfStop, secondsUntil } from "../payments/sale/stops.ts";
import { systemTime } from "../time/time.ts";
import { printable } from "../x402/printable.ts";
import { CREDITS_HEADER } from "../x402/prepaid.ts";
import type { Unanswered } from "../http/unanswered.ts";
import type { PaymentOutcome, RouteMeter } from "../telemetry/metrics.ts";
import { X402_VERSION, type SettleResponse, type X402Version } from "../x402/x402.ts";
import type { Refusal } from "../x402/result.ts";
import {
  encodeSettlementHeader,
  PAYMENT_HEADERS,
  PAYMENT_REQUIRED_HEADER,
  RECEIPT_HEADERS,
} from "../x402/header.ts";
import { SIGN_IN_HEADER } from "../x402/sign-in.ts";
import { codeV2 } from "../x402/version-2.ts";
import type { InboundRequest } from "./message/inbound.ts";

export interface Answer {
  readonly status: number;
  /** Raw `name, value` pairs, without Content-Type, Content-Length and Cache-Control. */
  readonly lines: readonly string[];
  /** JSON text unless `type` says otherwise; null for an answer without a body. */
  readonly body: string | null;
  /** What is sent of it, in memory that other answers share: compressed where a line says so. */
  readonly bytes?: Uint8Array;
  /** Default: `application/json`. */
  readonly type?: string;
  /** The value of Cache-Control; default: `no-store`. */
  readonly caching?: string;
}

/** An answer that ends a request, and what it is for the meter. */
export interface OwnAnswer {
  readonly answer: Answer;
  readonly outcome: PaymentOutcome;
  /** Null: no route of the configuration. */
  readonly meter: RouteMeter | null;
}

/** What a client is told to wait before it sends a payment again, seconds. */
export const RETRY_AFTER = ["Retry-After", "2"] as const;
/** How long a browser may keep the answer to a preflight request, seconds. */
const PREFLIGHT_MAX_AGE = "600";

/** Which origins may read answers in a browser. */
export type CrossOrigin = "off" | "any" | ReadonlySet<string>;

/** Something other than payment is wrong with the request, or it is not served here. */
export function errorAnswer(status: number, error: string, lines: readonly string[] = []): Answer {
  return { status, lines, body: JSON.stringify({ error }) };
}

/** `<code>: <one sentence>`, the `error` of every answer about a presented payment, in the words of a version. */
export function errorText({ code, codeV2: own, detail }: Refusal, version: X402Version): string {
  return `${version === X402_VERSION ? code : (own ?? codeV2(code))}: ${detail}`;
}

/**
 * What became of a payment, in the envelope in which it came.
 * @param status where its buyer can ask for that later, as a URL
 */
export function settlementLines(
  settlement: SettleResponse,
  version: X402Version,
  status?: string,
): readonly string[] {
  return [RECEIPT_HEADERS[version], encodeSettlementHeader(settlement, version, status)];
}

/** The same URL for all who read no receipt; beside other lines of its name. */
export function statusLines(status: string | undefined): readonly string[] {
  return status === undefined ? [] : ["Link", `<${status}>; rel="status"`];
}

/**
 * In place of a 402 where nothing is left that a buyer could pay with: an empty `accepts` would be a dead end
 * for clients, and 503 says what is true, that the resource is for sale again later.
 */
export function unpayableAnswer(
  error: string,
  offers: Offers,
  lines: readonly string[],
): Answer & { readonly status: 503 } {
  const { stop, missing: networks } = offers;
  if (stop !== undefined) {
    const seconds = secondsUntil(stop.untilMs, systemTime.now());
    const wait = ["Retry-After", String(seconds)];
    const told = errorAnswer(503, `${error}; ${saidOfStop(stop)}`, [...lines, ...wait]);
    return { ...told, status: 503 };
  }
  const isClosed = networks.some((network) => offers.isClosed(network));
  const why = isClosed ? notTakenNow(networks) : noFeePayer(networks);
  const answer = errorAnswer(503, `${error}; ${why}`, [...lines, ...RETRY_AFTER]);
  return { ...answer, status: 503 };
}

/** In place of whatever would cost more, for a client that pays for nothing; `presented`: it tried to, in that version. */
export function limitedAnswer(
  seconds: number,
  presented: X402Version | undefined,
  lines: readonly string[],
): Answer {
  const said = `too many requests without payment from this address; try again in ${seconds} s`;
  const same =
    presented && `${said} with the same ${PAYMENT_HEADERS[presented]}: it was not looked at`;
  const error = same ?? said;
  return errorAnswer(429, error, [...lines, "Retry-After", String(seconds)]);
}

/** As many requests as are allowed are under way, and none of them has made room. */
export function crowdedAnswer(lines: readonly string[]): Answer {
  return errorAnswer(503, "too many requests at once", [...lines, "Retry-After", "1"]);
}

const LATE = "the request body did not come in time";

/** The request's body stalled; nothing of its connection is read any more. */
export const LATE_ANSWER: Answer = errorAnswer(408, LATE, ["Connection", "close"]);

/** Where the seller can be asked: made once for all answers. */
export interface Help {
  /** Raw lines, which stand beside others of their name. */
  readonly lines: readonly string[];
  /** What a sentence goes on with that ends in {@link ASK_THE_SELLER}. */
  readonly words: string;
}

/** A payment that was taken, the lines that say so, and where its buyer is helped. */
export interface Receipt {
  readonly version: X402Version;
  readonly lines: readonly string[];
  readonly help: Help;
}

/** {@link LATE_ANSWER} for a payment that was taken; as of {@link undeliveredAnswer}. */
export function lateAnswer({ lines, version, help }: Receipt, again: boolean): Answer {
  const advice = again ? sendAgain(version) : NONE_LEFT + help.words;
  return errorAnswer(408, `${LATE}; ${advice}`, [...lines, ...help.lines, "Connection", "close"]);
}

const UPSTREAM_SAID: Readonly<Record<number, string>> = {
  413: "the request body is larger than is accepted here",
  502: "the upstream gave no usable answer",
  503: "the upstream is busy",
  504: "the upstream did not answer in time",
};

/** Nothing came from the upstream for a request that nobody paid for. */
export function upstreamAnswer({ status }: Unanswered): Answer {
  return errorAnswer(status, saidOf(status));
}

/** The upstream would not be asked now, so no payment was taken. */
export function unservableAnswer({ status, reason }: Unanswered, cors: readonly string[]): Answer {
  const said = reason === "down" ? "the upstream is not available" : saidOf(status);
  const lines = status === 503 ? [...cors, ...RETRY_AFTER] : cors;
  return errorAnswer(status, `${said}; no payment was taken for this request`, lines);
}

/** What was paid for is to be had at another target of ours, to which the backend had led. */
export function ledAnswer(target: string, lines: readonly string[]): Answer {
  return { status: 307, lines: [...lines, "Location", target], body: null };
}

/** The request lacks what its route declares, so no payment was taken. */
export function unfitAnswer({ faults }: Unfit, cors: readonly string[]): Answer {
  const error = `${faults.join("; ")}; no payment was taken for this request`;
  return { status: 400, lines: cors, body: JSON.stringify({ error, faults }) };
}

/** Says that what is asked for is not the price of the request. */
export function onlyTheMost(why: string): string {
  return `this is the most that it may cost, not its price: ${why}`;
}

/** The request has no price, so nothing is asked for it, and no payment was taken. */
export function unpricedAnswer(
  { status, detail }: { readonly status: 400 | 411 | 413 | 415; readonly detail: string },
  cors: readonly string[],
): Answer {
  const said = `this request has no price: ${printable(detail).slice(0, MAX_DETAIL)}`;
  return errorAnswer(status, `${said}; no payment was taken for this request`, cors);
}

/** Longest reason for which a request has no price, characters: it may hold what the client has sent. */
const MAX_DETAIL = 300;

/** Nothing came from the upstream for a payment that was taken. `again`: it may still be delivered. */
export function undeliveredAnswer(
  { status }: Unanswered,
  { lines: told, version, help }: Receipt,
  again: boolean,
): Answer {
  const said = saidOf(status);
  const lines = [...told, ...help.lines];
  if (!again) return errorAnswer(status, `${said}; ${NONE_LEFT}${help.words}`, lines);
  return errorAnswer(status, `${said}; ${sendAgain(version)}`, [...lines, ...RETRY_AFTER]);
}

const NONE_LEFT =
  "the payment is settled, and its attempts are used up; " +
  "request the URL again and sign a new payment: it is not charged, and the delivery is tried again, or ask the seller";

function sendAgain(version: X402Version): string {
  const header = PAYMENT_HEADERS[version];
  return `the payment is settled: send the same ${header} again, nothing is charged twice`;
}

function saidOf(status: number): string {
  return UPSTREAM_SAID[status] ?? "the upstream did not answer";
}

/** @param support where the seller can be asked, as a link */
export function helpOf(support: string | null | undefined): Help {
  if (support == null) return NO_HELP;
  return { lines: ["Link", `<${support}>; rel="help"`], words: `: ${support}` };
}

/** Says what an answer has cost its buyer of his balance: `0.001 USDC`. Not there: nothing. */
export const CHARGED_HEADER = "X-402-Charged";
/** What it was charged by: `1234`, or `none; reason=absent`. */
export const USAGE_HEADER = "X-402-Usage";

const NO_HELP: Help = { lines: [], words: "" };
const ASK_THE_SELLER = "ask the seller";

/** The same with where, if it sends its reader to the seller. */
export function saysWhere(detail: string, { words }: Help): string {
  return detail.endsWith(ASK_THE_SELLER) ? detail + words : detail;
}

/** The CORS lines of an answer to that request: none when CORS is off or its origin is not allowed. */
export function corsLines(
  allowed: CrossOrigin,
  { headers }: Pick<InboundRequest, "headers">,
): readonly string[] {
  if (allowed === "off") return [];
  if (allowed === "any") return ANY_ORIGIN;
  const { origin } = headers;
  if (origin === undefined || !allowed.has(origin)) return VARY_ORIGIN;
  return ["Access-Control-Allow-Origin", origin, ...EXPOSED, ...VARY_ORIGIN];
}

/** What a page needs of an answer beside what it costs: when to come again, what it got a part of, and where help is. */
const EXPOSED_BESIDE = [
  "Retry-After",
  "ETag",
  "Content-Range",
  "Content-Disposition",
  "Link",
  CHARGED_HEADER,
  CREDITS_HEADER,
  USAGE_HEADER,
  // What is left of what is counted.
  "RateLimit",
  "RateLimit-Policy",
];
const EXPOSED = [
  "Access-Control-Expose-Headers",
  [PAYMENT_REQUIRED_HEADER, ...Object.values(RECEIPT_HEADERS).toReversed(), ...EXPOSED_BESIDE].join(
    ", ",
  ),
];
const VARY_ORIGIN = ["Vary", "Origin"];
const ANY_ORIGIN = ["Access-Control-Allow-Origin", "*", ...EXPOSED];

/**
 * Answers a preflight request. Official clients send `Access-Control-Expose-Headers` as a REQUEST header
 * beside the payment: both are allowed always, and whatever else the page asked for.
 */
export function preflightAnswer(
  cors: readonly string[],
  asked: { readonly method: string; readonly headers: string },
): Answer {
  const payments = Object.values(PAYMENT_HEADERS);
  const headers = [...payments, SIGN_IN_HEADER, "Access-Control-Expose-Headers", "Content-Type"];
  for (const name of asked.headers.split(",").map((text) => text.trim())) {
    if (/^[\w!#$%&'*+.^`|~-]{1,64}$/.test(name)) headers.push(name);
  }
  const grants = [
    ["Access-Control-Allow-Methods", asked.method],
    ["Access-Control-Allow-Headers", headers.join(", ")],
    ["Access-Control-Max-Age", PREFLIGHT_MAX_AGE],
  ].flat();
  const allowed = cors.includes("Access-Control-Allow-Origin");
  return { status: 204, lines: allowed ? [...cors, ...grants] : cors, body: null };
}
