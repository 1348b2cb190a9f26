/**
 * The answers that the gateway itself gives, as values: whoever decided makes one, and only the visitor
 * (`visitor.ts`) writes it to a socket.
 */
import { noFeePayer } from "../payments/sale/choice.ts";
import type { Unanswered } from "../http/unanswered.ts";
import type { PaymentOutcome, RouteMeter } from "../telemetry/metrics.ts";
import type { SettleResponse } from "../x402/x402.ts";
import type { Refusal } from "../x402/result.ts";
import { encodeSettlementHeader } from "../x402/header.ts";
import type { InboundRequest } from "./message/inbound.ts";

export interface Answer {
  readonly status: number;
  /** Raw `name, value` pairs, without Content-Type, Content-Length and Cache-Control. */
  readonly lines: readonly string[];
  /** JSON text unless `type` says otherwise; null for an answer without a body. */
  readonly body: string | null;
  /** The same, in memory that other answers share. */
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

/** `<code>: <one sentence>`, the `error` of every answer about a presented payment. */
export function errorText({ code, detail }: Refusal): string {
  return `${code}: ${detail}`;
}

export function settlementLines(settlement: SettleResponse): readonly string[] {
  return ["X-PAYMENT-RESPONSE", encodeSettlementHeader(settlement)];
}

/**
 * In place of a 402 where nothing is left that a buyer could pay with: an empty `accepts` would be a dead end
 * for clients, and 503 says what is true, that the resource is for sale again later.
 */
export function unpayableAnswer(
  error: string,
  networks: readonly string[],
  lines: readonly string[],
): Answer {
  return errorAnswer(503, `${error}; ${noFeePayer(networks)}`, [...lines, ...RETRY_AFTER]);
}

/** In place of whatever would cost more, for a client that pays for nothing; `presented`: it tried to. */
export function limitedAnswer(
  seconds: number,
  presented: boolean,
  lines: readonly string[],
): Answer {
  const said = `too many requests without payment from this address; try again in ${seconds} s`;
  const error = presented ? `${said} with the same X-PAYMENT: it was not looked at` : said;
  return errorAnswer(429, error, [...lines, "Retry-After", String(seconds)]);
}

/** As many requests as are allowed are under way, and none of them has made room. */
export function crowdedAnswer(lines: readonly string[]): Answer {
  return errorAnswer(503, "too many requests at once", [...lines, "Retry-After", "1"]);
}

const LATE = "the request body did not come in time";

/** The request's body stalled; nothing of its connection is read any more. */
export const LATE_ANSWER: Answer = errorAnswer(408, LATE, ["Connection", "close"]);

/** {@link LATE_ANSWER} for a payment that was taken; as of {@link undeliveredAnswer}. */
export function lateAnswer(receipt: readonly string[], again: boolean): Answer {
  const advice = again ? SEND_AGAIN : NONE_LEFT;
  return errorAnswer(408, `${LATE}; ${advice}`, [...receipt, "Connection", "close"]);
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

/**
 * Nothing came from the upstream for a payment that was taken. `receipt` are header lines; `again` says
 * whether the payment may still be delivered.
 */
export function undeliveredAnswer(
  { status }: Unanswered,
  receipt: readonly string[],
  again: boolean,
): Answer {
  const said = saidOf(status);
  if (!again) return errorAnswer(status, `${said}; ${NONE_LEFT}`, receipt);
  return errorAnswer(status, `${said}; ${SEND_AGAIN}`, [...receipt, ...RETRY_AFTER]);
}

const NONE_LEFT =
  "the payment is settled, and its attempts are used up; " +
  "request the URL again and sign a new payment: it is not charged, and the delivery is tried again";
const SEND_AGAIN =
  "the payment is settled: send the same X-PAYMENT again, nothing is charged twice";

function saidOf(status: number): string {
  return UPSTREAM_SAID[status] ?? "the upstream did not answer";
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

const EXPOSED = ["Access-Control-Expose-Headers", "X-PAYMENT-RESPONSE"];
const VARY_ORIGIN = ["Vary", "Origin"];
const ANY_ORIGIN = ["Access-Control-Allow-Origin", "*", ...EXPOSED];

/**
 * Answers a preflight request. Official clients send `Access-Control-Expose-Headers` as a REQUEST header
 * beside `X-PAYMENT`: both are allowed always, and whatever else the page asked for.
 */
export function preflightAnswer(
  cors: readonly string[],
  asked: { readonly method: string; readonly headers: string },
): Answer {
  const headers = ["X-PAYMENT", "Access-Control-Expose-Headers", "Content-Type"];
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
