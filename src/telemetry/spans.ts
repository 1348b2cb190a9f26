/**
 * Spans: what was done for a request, from when to when, under whose direction. They are recorded only where the
 * operator asks for traces (`otlp-spans.ts`); otherwise nothing here costs more than one comparison. Attributes are
 * named by OpenTelemetry's semantic conventions where it has a name, and never hold a payment, a signature or a key.
 */
import { currentContext, inContext, type TraceParent } from "./request-context.ts";

export type Attributes = Readonly<Record<string, string | number | boolean>>;

export interface SpanOptions {
  /** `server`: asked by others; `client`: asks others; default: neither. */
  readonly kind?: "server" | "client";
  readonly attributes?: Attributes;
  /** Other requests for which it is done as well. */
  readonly links?: readonly TraceParent[];
}

export interface OpenSpan {
  /** Itself, as the parent of what it does. */
  readonly trace: TraceParent;
  set(attributes: Attributes): void;
  /** Not after {@link end}. `reason`: a word, not a text of somebody else's. */
  fail(reason: string): void;
  end(): void;
}

export interface SpanRecorder {
  begin(name: string, options: SpanOptions, parent: TraceParent | null): OpenSpan;
}

let recorder: SpanRecorder | null = null;

/** One for the process, as the environment that asks for it is one for the process. Null: record no more. */
export function recordSpansWith(next: SpanRecorder | null): void {
  recorder = next;
}

export function areSpansRecorded(): boolean {
  return recorder !== null;
}

/** Null where nobody records, or where the work belongs to no request. */
export function beginSpan(
  name: string,
  options: SpanOptions = {},
  parent?: TraceParent | null,
): OpenSpan | null {
  if (recorder === null) return null;
  const above = parent === undefined ? currentContext()?.trace : parent;
  return above === undefined ? null : recorder.begin(name, options, above);
}

/**
 * A span for as long as the work takes, under which everything is that the work does. It fails with the name of the
 * error that the work throws.
 */
export async function inSpan<Value>(
  name: string,
  options: SpanOptions,
  work: (span: OpenSpan | null) => Promise<Value>,
): Promise<Value> {
  const context = currentContext();
  if (recorder === null || context === undefined) return work(null);
  const span = recorder.begin(name, options, context.trace);
  try {
    return await inContext({ ...context, trace: span.trace }, () => work(span));
  } catch (cause) {
    span.fail(cause instanceof Error ? cause.name : "Error");
    throw cause;
  } finally {
    span.end();
  }
}
