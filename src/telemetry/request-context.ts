/**
 * To which request a piece of work belongs: the id of that request, the payment that it brought, and the trace (W3C
 * Trace Context, level 1) that it is a part of. It follows a request through everything that is awaited for it,
 * so that log lines, spans and questions to others carry the same ids without every function passing them on. A
 * free request has none.
 */
import { LRUCache } from "lru-cache";
import { AsyncLocalStorage } from "node:async_hooks";
import { hash, randomBytes } from "node:crypto";

/** What is continued wherever something is asked for a request. */
export interface TraceParent {
  /** 32 hex digits. */
  readonly traceId: string;
  /** The span that asks, 16 hex digits. */
  readonly spanId: string;
  /** Two hex digits; the last bit: sampled. */
  readonly flags: string;
}

/** What all parts of one request's work share. */
export interface RequestFacts {
  readonly requestId: string;
  /** Key of the payment, once it is known. */
  payment: string | null;
}

export interface RequestContext {
  /** Null for what is done for several requests at once. */
  readonly facts: RequestFacts | null;
  readonly trace: TraceParent | null;
}

/** Payments whose request is remembered for the work that goes on without it, at most. */
const MAX_REMEMBERED = 4_096;
/** Hex digits of a payment's id: enough to tell the payments of many years apart. */
const PAYMENT_ID_DIGITS = 16;

/**
 * Of the process, as the chains of what is awaited are: whoever writes a line asks here, and is handed nothing. What is
 * remembered belongs to it for the same reason.
 */
const storage = new AsyncLocalStorage<RequestContext | undefined>();
const remembered = new LRUCache<string, RequestContext>({ max: MAX_REMEMBERED });

/** That of the request for which this code runs. */
export function currentContext(): RequestContext | undefined {
  return storage.getStore();
}

/** Runs work that belongs to a request; undefined: to none. */
export function inContext<Value>(context: RequestContext | undefined, work: () => Value): Value {
  return storage.run(context, work);
}

/** Work that one request happens to begin, and that is done for all. */
export function forNobody<Value>(work: () => Value): Value {
  return storage.run(undefined, work);
}

/** Work for a payment that somebody else's request happens to begin. */
export function forPayment<Value>(key: string, work: () => Value): Value {
  return storage.run(remembered.get(key), work);
}

/** From here on the request's lines name its payment too. */
export function notePayment(key: string): void {
  const context = storage.getStore();
  if (context?.facts !== undefined && context.facts !== null) context.facts.payment = key;
}

/** The payment goes on without the request: its signing, sending and settling find the request's ids again. */
export function rememberPayment(key: string): void {
  const context = storage.getStore();
  if (context !== undefined) remembered.set(key, context);
}

/**
 * Under which work for these payments is done. That for several belongs to the trace of the first and to no request.
 * Undefined where this process has not begun them, or begun many since.
 */
export function contextOfPayments(keys: readonly string[]): RequestContext | undefined {
  const known = keys.map((key) => remembered.get(key));
  if (known.length === 1) return known[0];
  const trace = known.find((each) => each?.trace)?.trace;
  return trace ? { facts: null, trace } : undefined;
}

/** The traces of the requests that brought these payments, without the first one's. */
export function otherTraces(keys: readonly string[]): readonly TraceParent[] {
  const traces = keys.map((key) => remembered.get(key)?.trace ?? null);
  return traces.filter((trace) => trace !== null).slice(1);
}

/** A short name of a payment; whoever has its key can make it. */
export function paymentId(key: string): string {
  if (key !== named.key) named = { key, id: hash("sha256", key).slice(0, PAYMENT_ID_DIGITS) };
  return named.id;
}

/** The last one, for speed alone: what is written for a payment is mostly written several times in a row. */
let named = { key: "", id: "" };

/**
 * The ids that a log line carries: of the request for which this code runs, or of the payment that the line names by
 * its key, whoever writes it.
 */
export function factsFor(line: object): Record<string, string> {
  const key = "key" in line && typeof line.key === "string" ? line.key : undefined;
  const here = storage.getStore();
  if (key === undefined || here?.facts?.payment === key) return factsOf(here);
  return { ...factsOf(remembered.get(key)), payment: paymentId(key) };
}

function factsOf(context: RequestContext | undefined): Record<string, string> {
  if (context === undefined || context.facts === null) return {};
  const { facts, trace } = context;
  return {
    requestId: facts.requestId,
    ...(trace === null ? {} : { traceId: trace.traceId }),
    ...(facts.payment === null ? {} : { payment: paymentId(facts.payment), key: facts.payment }),
  };
}

/** The rendered labels of an exemplar; undefined where there is nothing to look up. */
export function exemplarOf(context: RequestContext | undefined): string | undefined {
  if (context === undefined) return undefined;
  const { facts, trace } = context;
  const parts: string[] = [];
  if (trace !== null) parts.push(`trace_id="${trace.traceId}"`);
  if (facts !== null && facts.payment !== null)
    parts.push(`payment_id="${paymentId(facts.payment)}"`);
  return parts.length === 0 ? undefined : parts.join(",");
}

const TRACE_PARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ALL_ZERO = /^0+$/;
const SAMPLED = "01";

/** Null for what is no valid `traceparent` (section 3.2). */
export function parseTraceParent(text: string): TraceParent | null {
  const [, version, traceId = "", spanId = "", flags = "", more] = TRACE_PARENT.exec(text) ?? [];
  // Later versions may be longer, version 0 may not; 255 is none.
  if (version === undefined || version === "ff" || (version === "00" && more !== undefined)) {
    return null;
  }
  if (ALL_ZERO.test(traceId) || ALL_ZERO.test(spanId)) return null;
  return { traceId, spanId, flags };
}

export function formatTraceParent({ traceId, spanId, flags }: TraceParent): string {
  return `00-${traceId}-${spanId}-${flags}`;
}

/** A trace that begins here. Sampled: whoever is asked would take the opposite for an order not to record it. */
export function newTraceParent(): TraceParent {
  const [traceId, spanId] = [randomBytes(16).toString("hex"), randomBytes(8).toString("hex")];
  return { traceId, spanId, flags: SAMPLED };
}

/** A context that came from another process of ours, as {@link currentContext} gave it there. */
export function readContext(value: unknown): RequestContext | undefined {
  if (!isRecord(value) || !isRecord(value["facts"])) return undefined;
  const { requestId, payment } = value["facts"];
  if (typeof requestId !== "string") return undefined;
  return {
    facts: { requestId, payment: typeof payment === "string" ? payment : null },
    trace: readTrace(value["trace"]),
  };
}

function readTrace(value: unknown): TraceParent | null {
  if (!isRecord(value)) return null;
  const { traceId, spanId, flags } = value;
  return parseTraceParent(`00-${String(traceId)}-${String(spanId)}-${String(flags)}`);
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}
