/**
 * A request's part in a distributed trace (W3C Trace Context, level 1), and the context under which everything is
 * done for it. A client's valid `traceparent` is continued at the backend, with its `tracestate`; an invalid one is
 * replaced by one that begins here. A free request without one costs a look at its headers, unless spans are recorded.
 */
import type { Passage } from "./upstream/passage.ts";
import {
  exemplarOf,
  formatTraceParent,
  inContext,
  newTraceParent,
  parseTraceParent,
  type RequestContext,
  type TraceParent,
} from "../telemetry/request-context.ts";
import { areSpansRecorded, beginSpan, inSpan, type OpenSpan } from "../telemetry/spans.ts";
import type { Answer } from "./answers.ts";
import { decide, type Decision, type Snapshot } from "./decision.ts";
import type { InboundRequest } from "./message/inbound.ts";
import type { Delivery, Engine } from "./upstream/upstream.ts";

/** What the client's header says: nothing, what is continued, or nonsense that goes no further. */
type Asked = TraceParent | "none" | "invalid";

/** A request that has a part in a trace. */
interface Traced {
  readonly id: string;
  readonly request: InboundRequest;
  readonly trace: RequestTrace | null;
  readonly forward: (engine: Engine, passage: Passage, late?: () => Answer) => Promise<Delivery>;
}

export class RequestTrace {
  readonly context: RequestContext;
  readonly #span: OpenSpan | null;

  private constructor(visitor: Traced, asked: Asked) {
    const { request } = visitor;
    const above = typeof asked === "string" ? null : asked;
    const facts = { requestId: visitor.id, payment: null };
    const method = methodOf(request.method ?? "");
    const name = method === "_OTHER" ? "HTTP" : method;
    this.#span = beginSpan(name, { kind: "server", attributes: about(request) }, above);
    const trace = this.#span?.trace ?? (asked === "invalid" ? newTraceParent() : above);
    this.context = { facts, trace };
  }

  /** For a request whose work is recorded, or is logged under its ids. */
  static of(visitor: Traced): RequestTrace {
    return new RequestTrace(visitor, askedIn(visitor.request));
  }

  run<Value>(work: () => Value): Value {
    return inContext(this.context, work);
  }

  get exemplar(): string | undefined {
    return exemplarOf(this.context);
  }

  /** The request is answered. `route`: the key of its route. */
  end(route: string, status: number, outcome: string): void {
    this.#span?.set({
      "http.route": route,
      "http.response.status_code": status,
      "coinslot.outcome": outcome,
    });
    if (status >= 500) this.#span?.fail(String(status));
    this.#span?.end();
  }
}

export function decideInSpan(snapshot: Snapshot, request: InboundRequest): Decision {
  const span = beginSpan("decision");
  const decision = decide(snapshot, request);
  span?.set({ "coinslot.decision": decision.kind });
  span?.end();
  return decision;
}

/**
 * Hands the exchange to the upstream; where spans are recorded the backend is told of the span that waits for it.
 */
export function forward(
  visitor: Traced,
  engine: Engine,
  passage: Passage,
  late?: () => Answer,
): Promise<Delivery> {
  if (areSpansRecorded()) return forwardInSpan(visitor, engine, passage, late);
  const asked = askedIn(visitor.request);
  // What crosses as it came needs no line of ours.
  if (asked !== "invalid") return visitor.forward(engine, passage, late);
  const trace = visitor.trace?.context.trace ?? newTraceParent();
  return visitor.forward(engine, withTrace(passage, trace, true), late);
}

function forwardInSpan(
  visitor: Traced,
  engine: Engine,
  passage: Passage,
  late?: () => Answer,
): Promise<Delivery> {
  const { method = "" } = visitor.request;
  const attributes = { "http.request.method": methodOf(method) };
  return inSpan("upstream", { kind: "client", attributes }, async (span) => {
    const isNew = typeof askedIn(visitor.request) === "string";
    const told = span === null ? passage : withTrace(passage, span.trace, isNew);
    const delivery = await visitor.forward(engine, told, late);
    if (delivery.status !== null) span?.set({ "http.response.status_code": delivery.status });
    if (delivery.kind === "unanswered") span?.fail(delivery.reason);
    else if (delivery.kind !== "delivered") span?.fail(delivery.kind);
    return delivery;
  });
}

const TRACE_STATE: ReadonlySet<string> = new Set(["tracestate"]);

/** `isNew`: what a client says of another trace (`tracestate`) does not cross. */
function withTrace(passage: Passage, trace: TraceParent, isNew: boolean): Passage {
  const requestHeaders = [...passage.requestHeaders, "traceparent", formatTraceParent(trace)];
  return { ...passage, requestHeaders, ...(isNew ? { removed: TRACE_STATE } : {}) };
}

function askedIn({ headers }: InboundRequest): Asked {
  const text = headers["traceparent"];
  if (text === undefined) return "none";
  // Several lines arrive as one text, which is not valid.
  return (typeof text === "string" ? parseTraceParent(text) : null) ?? "invalid";
}

function about(request: InboundRequest): Readonly<Record<string, string>> {
  const { method = "", url = "", httpVersion, socket } = request;
  return {
    "http.request.method": methodOf(method),
    "url.path": url.split("?", 1)[0] ?? "",
    "url.scheme": socket.encrypted === true ? "https" : "http",
    "network.protocol.name": "http",
    "network.protocol.version": httpVersion === "2.0" ? "2" : httpVersion,
  };
}

const METHODS: ReadonlySet<string> = new Set(
  "CONNECT DELETE GET HEAD OPTIONS PATCH POST PUT TRACE".split(" "),
);

/** Bounded, as the semantic conventions ask. */
function methodOf(method: string): string {
  return METHODS.has(method) ? method : "_OTHER";
}
