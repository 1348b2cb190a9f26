/**
 * The REST surface of a facilitator (protocol section 4): `POST /verify`, `POST /settle`,
 * `GET /supported`, `GET /discovery/resources`, in version 1 and 2, by the version of the payment, and below `/v2` the
 * listing and search of version 2. A judged payment is status 200 whatever the judgement, a request that cannot be read
 * is 400, of version 2 200 as well, a failure of ours 500, a caller for whom there is no place 503; the body has the
 * endpoint's shape in all four, and `payer` is always there. What a web page could send unasked is not read at all.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Logger } from "../telemetry/logger.ts";
import { anyClient, knownClient } from "../fairness/fair-lane.ts";
import { BAZAAR } from "../x402/bazaar.ts";
import { EXTENSION_RESPONSES_HEADER } from "../x402/header.ts";
import { payerOf } from "../x402/payment-key.ts";
import { nameOfCaip2, pendingV2, inVersion1, settlementV2, verdictV2 } from "../x402/version-2.ts";
import { toldRequirements } from "../x402/told-bazaar.ts";
import {
  X402_VERSION,
  X402_VERSION_2,
  type FacilitatorRequest,
  type PaymentRequirements,
  type SettleResponse,
  type VerifyResponse,
  type X402Version,
} from "../x402/x402.ts";
import { isLong, readIdempotencyKey, readRequest, type ReadOutcome } from "./called-request.ts";
import { CallerPlaces, NoTurn } from "./caller-places.ts";
import { ANYBODY, type Caller, type Callers } from "./callers.ts";
import { writeCatalogueWord, type CatalogueWord } from "./catalogue-word.ts";
import {
  CrowdedFault,
  FacilitatorFault,
  HeldPayment,
  type InTurn,
} from "../payments/facilitator.ts";
import { failure, invalid } from "../payments/said-no.ts";
import { RepeatedCalls } from "./repeated-calls.ts";
import type { WireFacilitator } from "./wire-facilitator.ts";

/** Longest a caller waits for a verification, milliseconds. */
const VERIFY_TIMEOUT_MS = 15_000;
/** Longest a caller waits for a settlement; one that is still open then is answered as unknown. */
const SETTLE_TIMEOUT_MS = 60_000;
/** The same in version 2, some of whose clients wait no longer than 30 s, and repeat only what was answered. */
const SETTLE_V2_TIMEOUT_MS = 25_000;
/** What a client is told to wait before it asks again, seconds. */
const RETRY_AFTER_SECONDS = 2;

/** What a page can only send after it has asked (CORS), and is never allowed to. */
const JSON_BODY = /^application\/json[ \t]*(?:;|$)/i;

const CROWDED = "too many calls are under way; nothing was looked at, and no money moved";
const NOT_VERIFIED: VerifyResponse = {
  isValid: false,
  invalidReason: "unexpected_verify_error",
  payer: "",
  detail: CROWDED,
};
const NOT_SETTLED: SettleResponse = {
  success: false,
  errorReason: "unexpected_settle_error",
  transaction: "",
  network: "",
  payer: "",
  detail: CROWDED,
};

/** A discovery answer. */
export interface Listing {
  /** 304: the caller has it already. */
  readonly status: number;
  /** JSON text; "" with 304. */
  readonly body: string;
  /** The same, compressed as `encoding` says. */
  readonly bytes?: Uint8Array;
  /** Null: not compressed. */
  readonly encoding?: string | null;
  /** Null with 400. */
  readonly etag: string | null;
}

/** Values of the header lines by which it is asked for. */
export interface ListingAsked {
  readonly ifNoneMatch?: string | undefined;
  readonly acceptEncoding?: string | undefined;
}

/** Keeps what gateways sell through us. */
export interface SalesCatalogue {
  /** Whether those who may not call may read the listing all the same. */
  readonly isPublic: boolean;
  /**
   * Hears of each settlement that a gateway with a name asked for and got, and answers whether its resource is
   * listed; undefined: nothing is to be said about that. Never throws.
   */
  sold(gateway: string, requirements: PaymentRequirements): CatalogueWord | undefined;
  /** What would be said to that if it were sold now; nothing is listed. Never throws. */
  judge(gateway: string, requirements: PaymentRequirements): CatalogueWord | undefined;
}

export interface EndpointOptions {
  readonly facilitator: WireFacilitator;
  /** Answers `GET /discovery/resources` for a raw query string; `form`: below `/v2`. */
  readonly list: (query: string, asked: ListingAsked, form?: "v2" | "search") => Listing;
  /** Path before the endpoints: "" or `/x402`. */
  readonly basePath: string;
  readonly callers: Callers;
  /** The smallest amount that is settled of that token, atomic units; default: 1. */
  readonly leastAmount?: (paid: Pick<PaymentRequirements, "network" | "asset">) => bigint;
  /** The address of a caller, of IPv6 its /64; default: the peer's address as it is. */
  readonly addressOf?: (request: IncomingMessage) => string;
  /** Whether nothing can be judged or settled on that network at the moment. Default: it can. */
  readonly isClosed?: (network: string) => boolean;
  /** Default: nothing of what is settled for others is listed. */
  readonly catalogue?: SalesCatalogue;
  readonly logger: Logger;
}

interface Asked {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  /** Raw, without `?`. */
  readonly query: string;
  readonly caller: Caller;
}

/** A call that has a place. */
interface Called extends Asked {
  /** Ends when its client leaves. */
  readonly gone: AbortSignal;
  /** Tells who calls from others. */
  readonly name: string;
  readonly inTurn: InTurn;
}

interface Endpoint {
  readonly method: "GET" | "POST";
  /** Whether it is for everybody. */
  readonly isOpen: boolean;
  readonly handle: (asked: Asked) => Promise<void>;
}

/** Serves the endpoints; the returned listener never throws and never leaves a request unanswered. */
export class FacilitatorEndpoints {
  readonly #options: EndpointOptions;
  readonly #endpoints: ReadonlyMap<string, Endpoint>;
  readonly #repeated = new RepeatedCalls();
  /** Gateways that are known do not share theirs with everybody. */
  readonly #places = { gateways: new CallerPlaces(), others: new CallerPlaces() };

  constructor(options: EndpointOptions) {
    this.#options = options;
    const { basePath, catalogue } = options;
    const post = { method: "POST", isOpen: false } as const;
    const get = { method: "GET", isOpen: false } as const;
    const listing = { ...get, isOpen: catalogue?.isPublic ?? false };
    this.#endpoints = new Map<string, Endpoint>([
      [
        `${basePath}/verify`,
        { ...post, handle: this.#inPlace(NOT_VERIFIED, (each) => this.#verify(each)) },
      ],
      [
        `${basePath}/settle`,
        { ...post, handle: this.#inPlace(NOT_SETTLED, (each) => this.#settle(each)) },
      ],
      [`${basePath}/supported`, { ...get, handle: (asked) => this.#supported(asked) }],
      [
        `${basePath}/discovery/resources`,
        { ...listing, handle: (asked) => this.#discovery(asked) },
      ],
      [
        `${basePath}/v2/discovery/resources`,
        { ...listing, handle: (asked) => this.#discovery(asked, "v2") },
      ],
      ...["/v2/discovery/search", "/discovery/search"].map((path) => {
        const handle: Endpoint["handle"] = (asked) => this.#discovery(asked, "search");
        return [basePath + path, { ...listing, handle }] as const;
      }),
    ]);
  }

  readonly handle = (request: IncomingMessage, response: ServerResponse): void => {
    this.#route(request, response).catch((cause: unknown) => {
      this.#options.logger.error({ err: cause }, "facilitator endpoint failed");
      if (response.headersSent) response.destroy();
      else sendJson(response, 500, { error: "internal error" });
    });
  };

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path, query] = splitTarget(request.url ?? "");
    const endpoint = this.#endpoints.get(path);
    if (endpoint === undefined) return sendJson(response, 404, { error: "no such endpoint" });
    const known = this.#options.callers.identify(request.headers.authorization);
    const caller = known ?? (endpoint.isOpen ? ANYBODY : undefined);
    if (caller === undefined) {
      response.setHeader("WWW-Authenticate", "Bearer");
      return sendJson(response, 401, { error: "a bearer token is required" });
    }
    const method = request.method === "HEAD" ? "GET" : request.method;
    if (method !== endpoint.method) {
      response.setHeader("Allow", endpoint.method === "GET" ? "GET, HEAD" : endpoint.method);
      return sendJson(response, 405, { error: `use ${endpoint.method}` });
    }
    if (method === "POST") {
      // Whoever knows no token may be any page in a browser that reaches this address.
      if (caller === ANYBODY && request.headers.origin !== undefined) {
        return sendJson(response, 403, { error: "not for browsers" });
      }
      if (!JSON_BODY.test(request.headers["content-type"] ?? "")) {
        return sendJson(response, 415, { error: "send application/json" });
      }
    }
    await endpoint.handle({ request, response, query, caller });
  }

  /** Where there is no place for a call nothing of its body is read, and `crowded` is its answer. */
  #inPlace(
    crowded: VerifyResponse | SettleResponse,
    handle: (called: Called) => Promise<void>,
  ): Endpoint["handle"] {
    return async (asked) => {
      const { request, response, caller } = asked;
      const name = this.#nameOf(request, caller);
      const { gateways, others } = this.#places;
      const place = (caller.gateway === null ? others : gateways).enter(name);
      if (place === undefined) return sendJson(response, 503, crowded, RETRY_AFTER_SECONDS);
      const gone = new AbortController();
      response.once("close", () => gone.abort());
      try {
        await handle({ ...asked, name, inTurn: place.inTurn, gone: gone.signal });
      } finally {
        // Not when its client leaves: what was begun for it goes on, and with the place went its limit.
        place.leave();
      }
    };
  }

  async #verify({ request, response, caller, name }: Called): Promise<void> {
    const parsed = await this.#read(request);
    const inItsWords = (verdict: VerifyResponse): object => {
      return versionOf(parsed) === X402_VERSION_2 ? verdictV2(verdict) : inVersion1(verdict);
    };
    if (!parsed.ok) {
      const { status, code, detail, payer } = parsed;
      const verdict = invalid({ code, detail }, payer);
      return sendJson(response, status, inItsWords(verdict));
    }
    try {
      const verdict = await within(VERIFY_TIMEOUT_MS, (signal) =>
        this.#options.facilitator.verify(parsed.request, signal, name),
      );
      const isAsked = verdict.isValid && versionOf(parsed) === X402_VERSION_2;
      if (isAsked) this.#tellCatalogue(response, caller, parsed.request, "judge");
      sendJson(response, 200, inItsWords(verdict));
    } catch (cause) {
      const detail = this.#explain(cause, "verification");
      const invalidReason = "unexpected_verify_error";
      const payer = payerOf(parsed.request.paymentPayload);
      const verdict = invalid({ code: invalidReason, detail }, payer);
      sendJson(response, 500, inItsWords(verdict), RETRY_AFTER_SECONDS);
    }
  }

  async #settle({ request, response, caller, name, inTurn, gone }: Called): Promise<void> {
    const parsed = await this.#read(request);
    const isV2 = versionOf(parsed) === X402_VERSION_2;
    const inItsWords = (settlement: SettleResponse): object => {
      return isV2 ? settlementV2(settlement) : inVersion1(settlement);
    };
    if (!parsed.ok) {
      const { status, code, detail, payer, network } = parsed;
      return sendJson(response, status, inItsWords(failure({ code, detail }, network, payer)));
    }
    const { paymentPayload } = parsed.request;
    const { network } = parsed.request.paymentRequirements;
    const idempotencyKey = readIdempotencyKey(request);
    const isRepeatable = isV2 && idempotencyKey === undefined;
    const made = isRepeatable ? this.#repeated.take(parsed.request, caller) : {};
    const key = idempotencyKey === undefined ? made : { idempotencyKey };
    try {
      const settlement = await within(isV2 ? SETTLE_V2_TIMEOUT_MS : SETTLE_TIMEOUT_MS, (signal) =>
        this.#options.facilitator.settle(parsed.request, {
          signal,
          client: name,
          inTurn,
          gone,
          ...key,
        }),
      );
      if (settlement.success) this.#tellCatalogue(response, caller, parsed.request, "sold");
      sendJson(response, 200, inItsWords(settlement));
    } catch (cause) {
      const detail = this.#explain(cause, "settlement");
      const payer = payerOf(paymentPayload);
      const open = failure({ code: "unexpected_settle_error", detail }, network, payer);
      const isUnknown = cause instanceof FacilitatorFault && cause.kind === "unknown";
      // What a call before has left open stays open, and of a fault of ours nobody knows what it undid.
      const isOpen = isUnknown || !(cause instanceof FacilitatorFault) || made.isNewKey !== true;
      if (isOpen && isRepeatable) {
        this.#repeated.remember(parsed.request, caller, { ...made, isBegun: isUnknown });
      }
      const transaction = isUnknown && isV2 ? cause.transaction : undefined;
      if (transaction === undefined) {
        return sendJson(response, 500, inItsWords(open), RETRY_AFTER_SECONDS);
      }
      // Sellers of version 2 read it at any status, or at 200 only, and send the same payment once more.
      sendJson(response, 200, pendingV2(open, transaction), RETRY_AFTER_SECONDS);
    }
  }

  /** A gateway that is known is one caller wherever it calls from. */
  #nameOf(request: IncomingMessage, { gateway }: Caller): string {
    if (gateway !== null) return knownClient(gateway);
    const address = this.#options.addressOf?.(request) ?? request.socket.remoteAddress;
    return anyClient(address ?? "unknown");
  }

  /** A payment that would not be worth its gas is judged like one that does not fit. */
  async #read(request: IncomingMessage): Promise<ReadOutcome> {
    const parsed = await readRequest(request);
    if (!parsed.ok) return parsed;
    const { paymentPayload, paymentRequirements } = parsed.request;
    const least = this.#options.leastAmount?.(paymentRequirements) ?? 1n;
    if (BigInt(paymentRequirements.maxAmountRequired) >= least) return parsed;
    const version = versionOf(parsed);
    const amount = version === X402_VERSION_2 ? "amount" : "maxAmountRequired";
    return {
      ok: false,
      status: 200,
      version,
      code: "invalid_payment_requirements",
      detail: `${amount} must be ${least} or more to be settled here`,
      payer: payerOf(paymentPayload),
      network: paymentRequirements.network,
    };
  }

  async #supported({ response }: Asked): Promise<void> {
    const { kinds, signers, ...rest } = await within(VERIFY_TIMEOUT_MS, (signal) =>
      this.#options.facilitator.supported(signal),
    );
    // Sellers of version 2 take neither null nor their absence for none.
    const extensions = this.#options.catalogue === undefined ? [] : [BAZAAR];
    const { isClosed = () => false } = this.#options;
    const closed = [...new Set(kinds.map(({ network }) => nameOfCaip2(network)))].filter(isClosed);
    const told = { kinds, extensions, signers: signers ?? {}, ...rest };
    sendJson(response, 200, closed.length === 0 ? told : { ...told, closed });
  }

  async #discovery({ request, response, query }: Asked, form?: "v2" | "search"): Promise<void> {
    const { "if-none-match": ifNoneMatch, "accept-encoding": accepted } = request.headers;
    const acceptEncoding = typeof accepted === "string" ? accepted : undefined;
    const listing = this.#options.list(query, { ifNoneMatch, acceptEncoding }, form);
    const { status, body, bytes = body, encoding = null, etag } = listing;
    if (etag === null) return send(response, status, body);
    const kept = { ETag: etag, "Cache-Control": "no-cache", Vary: "Accept-Encoding" };
    if (status === 304) response.writeHead(304, kept).end();
    else
      send(response, status, bytes, { ...kept, ...(encoding && { "Content-Encoding": encoding }) });
  }

  /** What a caller may know of a fault; the log gets the whole of it. */
  #explain(cause: unknown, what: string): string {
    if (cause instanceof HeldPayment) return cause.message;
    if (cause instanceof FacilitatorFault) {
      const isCrowd = cause instanceof CrowdedFault || cause instanceof NoTurn;
      const level = isCrowd ? "debug" : "warn";
      this.#options.logger[level]({ err: cause }, `${what} not possible now`);
      return cause.kind === "unknown"
        ? "the outcome is not known yet; send the same payment again"
        : `${what} is not possible now; no money moved`;
    }
    this.#options.logger.error({ err: cause }, `${what} failed unexpectedly`);
    return "internal error";
  }

  /** Whether the resource is listed, or would be when it is sold, for the seller's log. */
  #tellCatalogue(
    response: ServerResponse,
    { gateway }: Caller,
    request: FacilitatorRequest,
    what: "sold" | "judge",
  ): void {
    const { catalogue } = this.#options;
    if (gateway === null || catalogue === undefined) return;
    try {
      const told = toldRequirements(request);
      if (told === undefined) return;
      const word = told.ok
        ? catalogue[what](gateway, told.value)
        : { status: "rejected", reason: told.error };
      if (word !== undefined)
        response.setHeader(EXTENSION_RESPONSES_HEADER, writeCatalogueWord(word));
    } catch (cause) {
      // The money has moved, and that is what the caller is told.
      this.#options.logger.error({ err: cause }, "what a gateway sold cannot be listed");
    }
  }
}

/**
 * Work with a deadline of its own. `AbortSignal.timeout` would stay behind, timer and all, until its time is
 * up: at a thousand requests a second, thousands of them.
 */
async function within<Value>(
  milliseconds: number,
  work: (signal: AbortSignal) => Promise<Value>,
): Promise<Value> {
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), milliseconds);
  try {
    return await work(deadline.signal);
  } finally {
    clearTimeout(timer);
  }
}

/** In which its caller is answered. */
function versionOf(parsed: ReadOutcome): X402Version {
  if (!parsed.ok) return parsed.version;
  const { x402Version } = parsed.request.paymentPayload;
  return x402Version === X402_VERSION_2 ? x402Version : X402_VERSION;
}

function splitTarget(target: string): [path: string, query: string] {
  const mark = target.indexOf("?");
  return mark < 0 ? [target, ""] : [target.slice(0, mark), target.slice(mark + 1)];
}

function sendJson(
  response: ServerResponse,
  status: number,
  body: object,
  retryAfterSeconds?: number,
): void {
  if (retryAfterSeconds !== undefined) response.setHeader("Retry-After", retryAfterSeconds);
  send(response, status, JSON.stringify(body));
}

const NOT_KEPT = { "Cache-Control": "no-store" };

function send(
  response: ServerResponse,
  status: number,
  body: string | Uint8Array,
  caching: Readonly<Record<string, string>> = NOT_KEPT,
): void {
  // A body that was refused before its end leaves the connection in the middle of a message; a short one is dropped.
  if (!response.req.complete && isLong(response.req)) response.setHeader("Connection", "close");
  response.writeHead(status, {
    "Content-Type": "application/json",
    "Content-Length": Buffer.byteLength(body),
    ...caching,
  });
  response.end(response.req.method === "HEAD" ? undefined : body);
}
