/**
 * A facilitator elsewhere, reached over its REST interface (protocol section 4). Other implementations
 * answer with other status codes, codes beyond the fifteen and missing fields; what their answer means
 * is decided by the body wherever it has one. What has none is a fault, and for a settlement the
 * question is then whether the request can have been seen: if it can, the outcome is unknown.
 */
import { randomUUID } from "node:crypto";
import { H1Pool } from "../http1/pool.ts";
import { ask, NothingSent, type Reply } from "../http1/small-request.ts";
import { currentContext, formatTraceParent } from "../telemetry/request-context.ts";
import { inSpan } from "../telemetry/spans.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { sooner, type Time } from "../time/time.ts";
import { isErrorCode, type ErrorCode } from "../x402/error-code.ts";
import { payerOf } from "../x402/payment-key.ts";
import { printable } from "../x402/printable.ts";
import { askingTheSeller, messageOf } from "../x402/result.ts";
import {
  X402_VERSION,
  type FacilitatorRequest,
  type SettleResponse,
  type SupportedKind,
  type SupportedResponse,
  type VerifyResponse,
} from "../x402/x402.ts";
import { MAX_HANDED_OVER } from "./caller-places.ts";
import { CatalogueWords, type HeardWord } from "./catalogue-word.ts";
import { FacilitatorWord } from "./facilitator-word.ts";
import { FacilitatorFault, RequestRefused, type SettleOptions } from "../payments/facilitator.ts";
import type { WireFacilitator } from "./wire-facilitator.ts";
import { ToldFeePayers } from "./told-fee-payers.ts";
import { isRecord } from "../x402/json.ts";

/** Largest answer that is read from a facilitator, bytes. */
const MAX_ANSWER_BYTES = 256 * 1024;
/**
 * Connections to one facilitator; more requests wait for one. Eight more than payments are judged at a time
 * (`mechanism/evm/first-look.ts`) and those of others are handed over, for gateways that are known and for
 * everybody else, so that no settlement waits for strangers.
 */
const MAX_CONNECTIONS = 40 + 2 * MAX_HANDED_OVER;
/** How long a TCP connection may take, milliseconds. */
const CONNECT_TIMEOUT_MS = 3_000;
/** Requests that wait for one of the connections, each for as long as its caller does. */
const MAX_WAITING = 10_000;
/** How long a connection is kept without a request, milliseconds. */
const KEEP_ALIVE_MS = 4_000;
/** Largest head of an answer, bytes. */
const MAX_HEAD_BYTES = 16 * 1024;
/** A backstop: each call has a limit of its own and ends before, milliseconds. */
const STUCK_MS = 300_000;

/**
 * Reasons of other implementations for a settlement that was sent and not seen to its end, such as
 * `settlement_pending` and `…_confirmation_timed_out`: the money may move after the answer.
 */
const NOT_OVER = /pending|time[-_ ]?d?[-_ ]?out|node_failure/i;

/** Codes that are no judgement of the payment. */
const UNEXPECTED: ReadonlySet<ErrorCode> = new Set([
  "unexpected_verify_error",
  "unexpected_settle_error",
]);

/**
 * Statuses without a settlement in the body that say: the request was not worked on at all. 400 and 422 are
 * not among them, since some facilitators answer so whatever went wrong, also after they sent a transaction.
 */
const REFUSED_UNREAD: ReadonlySet<number> = new Set([401, 403, 404, 405, 413, 429]);

/** Statuses that may be about this one request and no other. */
const OF_REQUEST: ReadonlySet<number> = new Set([400, 413, 422]);

/** What a settlement counts by: the facilitator's word, or the chain's. */
export type ConfirmBy = "facilitator" | "receipt";

export interface RemoteOptions {
  /** Base URL, no trailing slash and no secret: it is stored, logged and a metric's label. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** For one call, milliseconds; the caller's signal may end it sooner. */
  readonly timeoutMs: number;
  /** With `receipt` its success is a claim, which the router compares with the chain. */
  readonly confirm: ConfirmBy;
  readonly telemetry: Telemetry;
  readonly time: Time;
}

type Ask = (
  method: "GET" | "POST",
  path: string,
  body: string | null,
  options: { readonly signal: AbortSignal; readonly idempotencyKey?: string | undefined },
) => Promise<Answer>;

interface Answer {
  readonly status: number;
  readonly lines: Reply["lines"];
  readonly body: Readonly<Record<string, unknown>> | undefined;
}

export class RemoteFacilitator implements WireFacilitator {
  /** Origin and path: what a payment that was handed to it is stored with. */
  readonly name: string;
  readonly confirm: ConfirmBy;
  /** After so long a call has ended, milliseconds. */
  readonly timeoutMs: number;
  /** By each answer of {@link supported}, whoever asked for it. */
  readonly feePayers = new ToldFeePayers();
  /** By those answers, and by its settlements. */
  readonly word = new FacilitatorWord();
  /** For what buyers read: only the host. */
  readonly #host: string;
  readonly #pool: H1Pool;
  readonly #basePath: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #telemetry: Telemetry;
  readonly #time: Time;
  readonly #words: CatalogueWords;
  #closed: Promise<void> | undefined;

  constructor(options: RemoteOptions) {
    const url = new URL(options.url);
    this.#host = url.host;
    this.#basePath = url.pathname.replace(/\/+$/, "");
    this.name = url.origin + this.#basePath;
    this.confirm = options.confirm;
    this.#headers = options.headers;
    this.timeoutMs = options.timeoutMs;
    this.#telemetry = options.telemetry;
    this.#time = options.time;
    this.#words = new CatalogueWords(url.host, options.telemetry.logger, options.time);
    this.#pool = new H1Pool({
      origin: url.origin,
      connections: MAX_CONNECTIONS,
      queue: MAX_WAITING,
      queueTimeoutMs: STUCK_MS,
      connectTimeoutMs: CONNECT_TIMEOUT_MS,
      responseTimeoutMs: STUCK_MS,
      idleTimeoutMs: STUCK_MS,
      pauseTimeoutMs: STUCK_MS,
      keepAliveMs: KEEP_ALIVE_MS,
      headLimitBytes: MAX_HEAD_BYTES,
    });
  }

  /** What it said of its catalogue, the latest at the end. */
  get heard(): readonly HeardWord[] {
    return this.#words.heard;
  }

  async verify(request: FacilitatorRequest, signal: AbortSignal): Promise<VerifyResponse> {
    const { network } = request.paymentRequirements;
    const started = this.#time.now();
    const elapsed = (): number => (this.#time.now() - started) / 1000;
    const { metrics } = this.#telemetry;
    const answer = await this.#post("/verify", request, signal).catch((cause: unknown) => {
      metrics.verification(network, "error", "unexpected_verify_error", elapsed());
      throw this.#fault("unavailable", "unexpected_verify_error", cause);
    });
    const verdict = readVerdict(answer, request, this.#host);
    // `isValid: false` for a reason that is the facilitator's own: the payment was not judged.
    if (
      verdict === undefined ||
      (!verdict.isValid && verdict.invalidReason === "unexpected_verify_error")
    ) {
      metrics.verification(network, "error", "unexpected_verify_error", elapsed());
      throw this.#unread("unavailable", "unexpected_verify_error", answer.status, "");
    }
    if (verdict.isValid) metrics.verification(network, "valid", "", elapsed());
    else metrics.verification(network, "invalid", verdict.invalidReason, elapsed());
    return verdict;
  }

  async settle(request: FacilitatorRequest, options: SettleOptions): Promise<SettleResponse> {
    const { network } = request.paymentRequirements;
    const started = this.#time.now();
    const { metrics } = this.#telemetry;
    try {
      const code = "unexpected_settle_error";
      const { signal, idempotencyKey = randomUUID() } = options;
      const answer = await this.#post("/settle", request, signal, idempotencyKey).catch(
        (cause: unknown) => {
          throw this.#fault(cause instanceof NothingSent ? "unreachable" : "unknown", code, cause);
        },
      );
      const response = readOutcome(answer, request, this.#host);
      if (response === undefined) {
        const kind = REFUSED_UNREAD.has(answer.status) ? "unavailable" : "unknown";
        throw this.#unread(kind, code, answer.status, " without a settlement");
      }
      if (!response.success && UNEXPECTED.has(response.errorReason)) {
        throw this.#fault("unknown", code, response.detail ?? "it does not know the outcome");
      }
      const seconds = (this.#time.now() - started) / 1000;
      if (response.success) metrics.settlement(network, "settled", "", seconds);
      else metrics.settlement(network, "failed", response.errorReason, seconds);
      return response;
    } catch (cause) {
      const seconds = (this.#time.now() - started) / 1000;
      const unknown = !(cause instanceof FacilitatorFault) || cause.kind === "unknown";
      metrics.settlement(
        network,
        unknown ? "unknown" : "unavailable",
        "unexpected_settle_error",
        seconds,
      );
      throw cause;
    }
  }

  async supported(signal: AbortSignal): Promise<SupportedResponse> {
    const code = "unexpected_verify_error";
    const answer = await this.#request("GET", "/supported", null, { signal }).catch(
      (cause: unknown) => {
        throw this.#fault("unavailable", code, cause);
      },
    );
    const kinds = answer.body?.["kinds"];
    if (!Array.isArray(kinds)) {
      throw this.#fault("unavailable", code, `status ${answer.status}, no kinds in /supported`);
    }
    const readable = kinds.filter(isSupportedKind).map(withoutOddExtra);
    this.feePayers.record(readable);
    this.word.record(answer.body ?? {}, this.#time.now());
    return { kinds: readable, signers: this.word.signers };
  }

  /** Waits for the calls that are under way. Idempotent. */
  close(): Promise<void> {
    return (this.#closed ??= this.#pool.close());
  }

  async #post(
    path: string,
    request: FacilitatorRequest,
    signal: AbortSignal,
    idempotencyKey?: string,
  ): Promise<Answer> {
    const { paymentPayload, paymentRequirements } = request;
    const asked = { x402Version: X402_VERSION, paymentPayload, paymentRequirements };
    const body = JSON.stringify(asked);
    const answer = await this.#request("POST", path, body, { signal, idempotencyKey });
    this.#words.hear(answer.lines, request.paymentRequirements);
    return answer;
  }

  #request(...[method, path, body, options]: Parameters<Ask>): Promise<Answer> {
    const attributes = { "http.request.method": method, "server.address": this.#host };
    const name = `${method} ${path}`;
    return inSpan(name, { kind: "client", attributes }, async (span) => {
      const answer = await this.#requestOnce(method, path, body, options);
      span?.set({ "http.response.status_code": answer.status });
      return answer;
    });
  }

  async #requestOnce(...[method, path, body, options]: Parameters<Ask>): Promise<Answer> {
    const trace = currentContext()?.trace ?? null;
    const signal = sooner(options.signal, this.#time.timeout(this.timeoutMs));
    const { idempotencyKey } = options;
    const headers = {
      accept: "application/json",
      ...(trace === null ? {} : { traceparent: formatTraceParent(trace) }),
      ...this.#headers,
      ...(body === null ? {} : { "content-type": "application/json" }),
      ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
    };
    const sent = Object.entries(headers).flat();
    const question = { method, path: this.#basePath + path, headers: sent, body };
    const limits = { signal, maxBytes: MAX_ANSWER_BYTES };
    const { status, lines, text } = await ask(this.#pool, question, limits);
    return { status, lines, body: parseObject(text) };
  }

  #unread(
    kind: FacilitatorFault["kind"],
    code: FacilitatorFault["code"],
    status: number,
    rest: string,
  ): FacilitatorFault {
    const fault = this.#fault(kind, code, `status ${status}${rest}`);
    return OF_REQUEST.has(status) ? new RequestRefused(kind, code, fault.message) : fault;
  }

  #fault(
    kind: FacilitatorFault["kind"],
    code: FacilitatorFault["code"],
    cause: unknown,
  ): FacilitatorFault {
    const reason = messageOf(cause);
    return new FacilitatorFault(kind, code, `facilitator ${this.#host}: ${reason}`, { cause });
  }
}

function readVerdict(
  { body }: Answer,
  request: FacilitatorRequest,
  facilitator: string,
): VerifyResponse | undefined {
  if (body === undefined || typeof body["isValid"] !== "boolean") return undefined;
  const payer = wordOf(body["payer"]) ?? payerOf(request.paymentPayload);
  if (body["isValid"]) return { isValid: true, payer };
  const reason = body["invalidReason"] ?? body["invalid_reason"] ?? body["error"];
  const { code, detail } = translate(reason, "invalid_payload", facilitator);
  const said = textOf(body["detail"]) ?? detail;
  // Others mean by this code that the payment is used.
  const told = code === "invalid_transaction_state" ? askingTheSeller(said) : said;
  return { isValid: false, invalidReason: code, payer, detail: told };
}

function readOutcome(
  { status, body }: Answer,
  request: FacilitatorRequest,
  facilitator: string,
): SettleResponse | undefined {
  if (body === undefined || typeof body["success"] !== "boolean") return undefined;
  const { network } = request.paymentRequirements;
  const payer = wordOf(body["payer"]) ?? payerOf(request.paymentPayload);
  if (body["success"]) {
    const transaction = wordOf(body["transaction"]);
    // Success without a transaction proves nothing either way.
    return transaction === undefined ? undefined : { success: true, transaction, network, payer };
  }
  const reason = body["errorReason"] ?? body["error_reason"] ?? body["error"];
  // Where the reason is not one of the protocol's, anything that hints at a transaction counts.
  const mayHaveMoved =
    status >= 500 || textOf(body["transaction"]) !== undefined || NOT_OVER.test(String(reason));
  const otherwise = mayHaveMoved ? "unexpected_settle_error" : "invalid_transaction_state";
  const { code, detail } = translate(reason, otherwise, facilitator);
  return {
    success: false,
    errorReason: code,
    transaction: "",
    network,
    payer,
    detail: textOf(body["detail"]) ?? detail,
  };
}

/** A reason outside the closed list is still a refusal; its text goes into the detail. */
function translate(
  reason: unknown,
  otherwise: ErrorCode,
  facilitator: string,
): { code: ErrorCode; detail: string } {
  if (isErrorCode(reason)) return { code: reason, detail: `refused by facilitator ${facilitator}` };
  const said = textOf(reason)?.slice(0, 200) ?? "no reason";
  return { code: otherwise, detail: `refused by facilitator ${facilitator}: ${said}` };
}

function isSupportedKind(value: unknown): value is SupportedKind {
  return (
    isRecord(value) &&
    typeof value["x402Version"] === "number" &&
    typeof value["scheme"] === "string" &&
    typeof value["network"] === "string"
  );
}

/** `extra: null`, as some write it, would make strict clients of ours refuse the whole answer. */
function withoutOddExtra(kind: SupportedKind): SupportedKind {
  const { extra, ...rest } = kind;
  return isRecord(extra) ? kind : rest;
}

/** A hash, a signature or an address: it goes into header lines, so nothing else passes. */
function wordOf(value: unknown): string | undefined {
  return typeof value === "string" && /^[A-Za-z0-9]{1,128}$/.test(value) ? value : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? printable(value) : undefined;
}

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
