/**
 * A facilitator elsewhere, reached over its REST interface (protocol section 4). Other implementations
 * answer with other status codes, codes beyond the fifteen and missing fields; what their answer means
 * is decided by the body wherever it has one. What has none is a fault, and for a settlement the
 * question is then whether the request can have been seen: if it can, the outcome is unknown.
 *
 * A payment is sent in the version in which it came, and translated where only the other one is taken: it is the same
 * payment, so that whichever is asked for first, none is made twice.
 */
import { randomUUID } from "node:crypto";
import { H1Pool } from "../http1/pool.ts";
import { ask, NothingSent } from "../http1/small-request.ts";
import { currentContext, formatTraceParent } from "../telemetry/request-context.ts";
import { inSpan } from "../telemetry/spans.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { sooner, type Time } from "../time/time.ts";
import type { Finding, Probed } from "../mechanism/mechanism.ts";
import type { ErrorCode } from "../x402/error-code.ts";
import { BAZAAR, extensionsOf } from "../x402/bazaar.ts";
import { messageOf } from "../x402/result.ts";
import { paymentV2 } from "../x402/version-2.ts";
import {
  X402_VERSION,
  X402_VERSION_2,
  type FacilitatorRequest,
  type SettleResponse,
  type SupportedKind,
  type SupportedResponse,
  type VerifyResponse,
  type X402Version,
} from "../x402/x402.ts";
import { MAX_HANDED_OVER } from "./caller-places.ts";
import { CatalogueWords, type HeardWord } from "./catalogue-word.ts";
import { cdpToken, type CdpKey } from "./cdp-token.ts";
import { FacilitatorWord } from "./facilitator-word.ts";
import { FacilitatorFault, RequestRefused, type SettleOptions } from "../payments/facilitator.ts";
import {
  hasTransaction,
  readOutcome,
  readVerdict,
  wantsOther,
  wordOf,
  type RemoteAnswer,
} from "./remote-answer.ts";
import type { WireFacilitator } from "./wire-facilitator.ts";
import { ToldFeePayers } from "./told-fee-payers.ts";
import { ToldVersions } from "./told-versions.ts";
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
/** How long it may take to say which versions it takes, before it is sent a payment, milliseconds. */
const HEAR_TIMEOUT_MS = 3_000;

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

/** Statuses of those who do not know us. */
const UNAUTHORIZED: ReadonlySet<number> = new Set([401, 403]);

/** Statuses that may be about this one request and no other. */
const OF_REQUEST: ReadonlySet<number> = new Set([400, 413, 422]);

/** Statuses of those who cannot read the request, which may be in a version that they do not know. */
const NOT_READ: ReadonlySet<number> = new Set([400, 422]);

/** What a settlement counts by: the facilitator's word, or the chain's. */
export type ConfirmBy = "facilitator" | "receipt";

export interface RemoteOptions {
  /** Base URL, no trailing slash and no secret: it is stored, logged and a metric's label. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Signs a token for each request. Default: there is none. */
  readonly cdp?: CdpKey | undefined;
  /** For one call, milliseconds; the caller's signal may end it sooner. */
  readonly timeoutMs: number;
  /** With `receipt` its success is a claim, which the router compares with the chain. */
  readonly confirm: ConfirmBy;
  /** Hears that it did not judge, or not settle, what it was asked for. Default: nobody does. */
  readonly onDoubt?: () => void;
  readonly telemetry: Telemetry;
  readonly time: Time;
}

type Ask = (
  method: "GET" | "POST",
  path: string,
  body: string | null,
  options: { readonly signal: AbortSignal; readonly idempotencyKey?: string | undefined },
) => Promise<RemoteAnswer>;

interface Asked extends Pick<SettleOptions, "signal" | "idempotencyKey"> {
  readonly path: "/verify" | "/settle";
  readonly version: X402Version;
}

export class RemoteFacilitator implements WireFacilitator, Probed {
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
  readonly #cdp: CdpKey | undefined;
  readonly #telemetry: Telemetry;
  readonly #time: Time;
  readonly #words: CatalogueWords;
  readonly #versions = new ToldVersions();
  readonly #onDoubt: RemoteOptions["onDoubt"];
  /** It did not know us when it was asked about a payment last; so it is asked before the first one. */
  #isStranger: boolean;
  #hearing: Promise<unknown> | undefined;
  #closed: Promise<void> | undefined;

  constructor(options: RemoteOptions) {
    const url = new URL(options.url);
    this.#host = url.host;
    this.#basePath = url.pathname.replace(/\/+$/, "");
    this.name = url.origin + this.#basePath;
    this.confirm = options.confirm;
    this.#headers = options.headers;
    this.#cdp = options.cdp;
    this.#onDoubt = options.onDoubt;
    this.#isStranger = options.cdp !== undefined || Object.keys(options.headers).length > 0;
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
    const { answer, verdict } = await this.#judge(request, signal).catch((cause: unknown) => {
      metrics.verification(network, "error", "unexpected_verify_error", elapsed());
      throw this.#doubted(this.#fault("unavailable", "unexpected_verify_error", cause));
    });
    // `isValid: false` for a reason that is the facilitator's own: the payment was not judged.
    if (
      verdict === undefined ||
      (!verdict.isValid && verdict.invalidReason === "unexpected_verify_error")
    ) {
      metrics.verification(network, "error", "unexpected_verify_error", elapsed());
      throw this.#doubted(
        this.#unread("unavailable", "unexpected_verify_error", answer.status, ""),
      );
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
      const { answer, response } = await this.#move(request, options).catch((cause: unknown) => {
        throw this.#fault(cause instanceof NothingSent ? "unreachable" : "unknown", code, cause);
      });
      if (response === undefined) {
        const kind = REFUSED_UNREAD.has(answer.status) ? "unavailable" : "unknown";
        throw this.#unread(kind, code, answer.status, " without a settlement");
      }
      if (!response.success && UNEXPECTED.has(response.errorReason)) {
        const detail = response.detail ?? "it does not know the outcome";
        throw this.#fault("unknown", code, detail, wordOf(answer.body?.["transaction"]));
      }
      const seconds = (this.#time.now() - started) / 1000;
      if (response.success) metrics.settlement(network, "settled", "", seconds);
      else metrics.settlement(network, "failed", response.errorReason, seconds);
      return response;
    } catch (cause) {
      this.#doubted(cause);
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
    const { status, kinds } = await this.#heard(signal).catch((cause: unknown) => {
      throw this.#fault("unavailable", code, cause);
    });
    if (kinds === undefined) {
      throw this.#fault("unavailable", code, `status ${status}, no kinds in /supported`);
    }
    return { kinds, signers: this.word.signers };
  }

  /** What it tells of itself, taken in. */
  async #heard(signal: AbortSignal): Promise<{
    readonly status: number;
    /** Undefined where it tells none. */
    readonly kinds: readonly SupportedKind[] | undefined;
  }> {
    const { status, body } = await this.#request("GET", "/supported", null, { signal });
    const kinds = body?.["kinds"];
    if (!Array.isArray(kinds)) return { status, kinds: undefined };
    const readable = kinds.filter(isSupportedKind).map(withoutOddExtra);
    this.feePayers.record(readable);
    this.#versions.record(readable);
    this.word.record(body ?? {}, this.#time.now());
    return { status, kinds: readable };
  }

  #unknownTo(status: number): Finding {
    const message = `${this.name} answers ${status}: it does not know this gateway, or not any more`;
    return { level: "error", message, about: "unauthorized" };
  }

  /** What came instead of an answer, unless it may be this one request's fault. */
  #doubted<Cause>(cause: Cause): Cause {
    if (!(cause instanceof RequestRefused)) this.#onDoubt?.();
    return cause;
  }

  /**
   * Whether it answers, and knows us: what it takes is for everybody at some, so where there is reason to it is shown a
   * payment that is none. Throws where it does not answer.
   */
  async probe(signal: AbortSignal): Promise<readonly Finding[]> {
    const { status } = await this.#heard(signal);
    if (UNAUTHORIZED.has(status)) return [this.#unknownTo(status)];
    if (status >= 500) throw new Error(`status ${status}`);
    if (!this.#isStranger) return [];
    const body = JSON.stringify({ x402Version: X402_VERSION });
    const knocked = await this.#request("POST", "/verify", body, { signal });
    this.#isStranger = UNAUTHORIZED.has(knocked.status);
    return this.#isStranger ? [this.#unknownTo(knocked.status)] : [];
  }

  /** Waits for the calls that are under way. Idempotent. */
  close(): Promise<void> {
    return (this.#closed ??= this.#pool.close());
  }

  /** In one version, and where that is not taken in the other: a verification moves nothing. */
  async #judge(request: FacilitatorRequest, signal: AbortSignal) {
    const { network } = request.paymentRequirements;
    const [version, other] = await this.#versionsFor(request);
    const ask = async (version: X402Version) => {
      const answer = await this.#post(request, { path: "/verify", version, signal });
      return { answer, verdict: readVerdict(answer, request, this.#host) };
    };
    const first = await ask(version);
    const { answer, verdict } = first;
    if (!wantsOther(verdict)) {
      if (verdict !== undefined || REFUSED_UNREAD.has(answer.status)) return first;
      // The official one breaks over a version that it does not know.
      await this.#hear();
      const isGuess = NOT_READ.has(answer.status) && !this.#versions.lists(network, version);
      const [wanted] = await this.#versionsFor(request);
      if (wanted === version && !isGuess) return first;
    }
    const second = await ask(other).catch(() => first);
    if (second.verdict === undefined || wantsOther(second.verdict)) return first;
    this.#versions.learn(network, other);
    return second;
  }

  /** In one version, and in the other only after the word that says for certain that nothing was moved. */
  async #move(request: FacilitatorRequest, options: SettleOptions) {
    const { signal, idempotencyKey = randomUUID() } = options;
    const [version, other] = await this.#versionsFor(request);
    const ask = async (version: X402Version) => {
      const answer = await this.#post(request, {
        path: "/settle",
        version,
        signal,
        idempotencyKey,
      });
      return { answer, response: readOutcome(answer, request, this.#host) };
    };
    const first = await ask(version);
    if (!wantsOther(first.response) || hasTransaction(first.answer)) return first;
    const second = await ask(other);
    if (!wantsOther(second.response)) {
      this.#versions.learn(request.paymentRequirements.network, other);
    }
    return second;
  }

  /**
   * The version of the first request, and the other one. Version 1 is what every facilitator took once; before the first
   * payment of version 2 it is asked whether it takes that, since a settlement that is not understood looks like one whose
   * outcome is unknown.
   */
  async #versionsFor({ paymentPayload, paymentRequirements }: FacilitatorRequest) {
    const own = paymentPayload.x402Version === X402_VERSION_2 ? X402_VERSION_2 : X402_VERSION;
    if (own === X402_VERSION_2) await this.#hear();
    return this.#versions.inOrder(paymentRequirements.network, own);
  }

  /** What it lists, where nobody has asked as yet; once, since it may say nothing. */
  async #hear(): Promise<void> {
    if (this.word.heardMs !== undefined) return;
    this.#hearing ??= this.supported(this.#time.timeout(HEAR_TIMEOUT_MS)).catch(() => undefined);
    await this.#hearing;
  }

  async #post(
    request: FacilitatorRequest,
    { path, version, signal, idempotencyKey }: Asked,
  ): Promise<RemoteAnswer> {
    const asked = version === X402_VERSION ? askedV1(request) : this.#askedV2(request);
    const body = JSON.stringify(asked);
    const answer = await this.#request("POST", path, body, { signal, idempotencyKey });
    this.#words.hear(answer.lines, request.paymentRequirements);
    return answer;
  }

  #askedV2(request: FacilitatorRequest): object {
    const { extensions: said, ...payment } = paymentV2(request);
    // Nobody has signed for them: what catalogues read is ours, also for a payment that came in version 1.
    const { [BAZAAR]: _, ...others } = said ?? {};
    const extensions = { ...others, ...extensionsOf(request.paymentRequirements) };
    const isSilent = Object.keys(extensions).length === 0;
    return {
      x402Version: X402_VERSION_2,
      paymentPayload: isSilent ? payment : { ...payment, extensions },
      paymentRequirements: payment.accepted,
    };
  }

  #request(...[method, path, body, options]: Parameters<Ask>): Promise<RemoteAnswer> {
    const attributes = { "http.request.method": method, "server.address": this.#host };
    const name = `${method} ${path}`;
    return inSpan(name, { kind: "client", attributes }, async (span) => {
      const answer = await this.#requestOnce(method, path, body, options);
      span?.set({ "http.response.status_code": answer.status });
      return answer;
    });
  }

  async #requestOnce(...[method, path, body, options]: Parameters<Ask>): Promise<RemoteAnswer> {
    const trace = currentContext()?.trace ?? null;
    const signal = sooner(options.signal, this.#time.timeout(this.timeoutMs));
    const { idempotencyKey } = options;
    const headers = {
      accept: "application/json",
      "accept-encoding": "identity",
      ...(trace === null ? {} : { traceparent: formatTraceParent(trace) }),
      ...this.#headers,
      ...(body === null ? {} : { "content-type": "application/json" }),
      ...(idempotencyKey === undefined ? {} : { "idempotency-key": idempotencyKey }),
      ...this.#authorization(method, this.#basePath + path),
    };
    const sent = Object.entries(headers).flat();
    const question = { method, path: this.#basePath + path, headers: sent, body };
    const limits = { signal, maxBytes: MAX_ANSWER_BYTES };
    const { status, lines, text } = await ask(this.#pool, question, limits);
    return { status, lines, body: parseObject(text) };
  }

  #authorization(method: string, path: string): { readonly authorization?: string } {
    if (this.#cdp === undefined) return {};
    const token = cdpToken(this.#cdp, { method, host: this.#host, path }, this.#time.now());
    return { authorization: `Bearer ${token}` };
  }

  #unread(
    kind: FacilitatorFault["kind"],
    code: FacilitatorFault["code"],
    status: number,
    rest: string,
  ): FacilitatorFault {
    if (UNAUTHORIZED.has(status)) this.#isStranger = true;
    const fault = this.#fault(kind, code, `status ${status}${rest}`);
    return OF_REQUEST.has(status) ? new RequestRefused(kind, code, fault.message) : fault;
  }

  #fault(
    kind: FacilitatorFault["kind"],
    code: FacilitatorFault["code"],
    cause: unknown,
    transaction?: string,
  ): FacilitatorFault {
    const message = `facilitator ${this.#host}: ${messageOf(cause)}`;
    return new FacilitatorFault(kind, code, message, { cause, transaction });
  }
}

/** The body of a request in version 1: byte for byte what came in it, and what the other one's lacks for it. */
function askedV1({ paymentPayload, paymentRequirements }: FacilitatorRequest): object {
  const x402Version = X402_VERSION;
  if (paymentPayload.x402Version === x402Version) {
    return { x402Version, paymentPayload, paymentRequirements };
  }
  const { extensions: _, ...payment } = paymentPayload;
  return {
    x402Version,
    paymentPayload: { ...payment, x402Version },
    // Its schema wants a media type, be it empty.
    paymentRequirements: { mimeType: "", ...paymentRequirements },
  };
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

function parseObject(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
