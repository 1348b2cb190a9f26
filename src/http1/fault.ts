/** What can go wrong between here and a backend, and the rules of HTTP/1.1 that its answer can break. */

/**
 * - `request`: what was asked for cannot be written as HTTP; nothing was sent.
 * - `closed`: the pool takes no more, or was destroyed in the middle.
 * - `saturated`: every connection is busy, and as many requests wait as may.
 * - `connect`, `connect-timeout`: no connection, at all or in time; nothing was sent.
 * - `head-timeout`: sent, but no head in time.
 * - `idle-timeout`: not one byte moved for too long, in either direction.
 * - `pause-timeout`: the handler held the answer for too long.
 * - `broken`: the connection ended before the answer did.
 * - `malformed`: what came is not an answer; {@link H1Fault.rule} says why.
 */
export type H1FaultCode =
  | "request"
  | "closed"
  | "saturated"
  | "connect"
  | "connect-timeout"
  | "head-timeout"
  | "idle-timeout"
  | "pause-timeout"
  | "broken"
  | "malformed";

/** Each is one way in which two readers could take an answer for different things. */
export type AnswerRule =
  /** `HTTP/1.1 200 OK`, or 1.0, and nothing before it (RFC 9112 section 4). */
  | "status-line"
  /** 101 was not asked for. */
  | "switch"
  /** More 1xx answers than {@link MAX_INTERIM_ANSWERS}. */
  | "interim-count"
  /** A 1xx answer has no body, so nothing that frames one (RFC 9110 section 8.6). */
  | "interim-framing"
  /** A 1xx answer is followed by another on its connection, so it cannot be the connection's last. */
  | "interim-close"
  /** `name:`, with a name that is a token (RFC 9112 section 5): no blank before the colon, no folding. */
  | "field-name"
  /** Bare CR, LF, NUL and other controls (RFC 9110 section 5.5). */
  | "field-value"
  /** More lines than {@link MAX_FIELD_LINES}. */
  | "field-count"
  /** The head or the trailers are larger than their limit. */
  | "size"
  /** Digits, and once: identical repeats are refused as well. */
  | "content-length"
  /** `chunked`, and once. */
  | "transfer-encoding"
  /** Content-Length and Transfer-Encoding. */
  | "two-framings"
  /** Transfer-Encoding in an answer of HTTP/1.0 (RFC 9112 section 6.1). */
  | "old-chunked"
  | "chunk-size"
  /** A chunk extension that is none, or is too long. */
  | "chunk-extension"
  /** What follows the bytes of a chunk is not CRLF. */
  | "chunk-end"
  /** A trailer that would frame the message. */
  | "trailer-name";

/** Interim answers before the final one at most. */
export const MAX_INTERIM_ANSWERS = 32;
/** Lines of a head, or of trailers, at most. */
export const MAX_FIELD_LINES = 1000;

export class H1Fault extends Error {
  override readonly name = "H1Fault";
  readonly code: H1FaultCode;
  /** Only of `malformed`. */
  readonly rule: AnswerRule | null;

  constructor(
    code: H1FaultCode,
    message: string,
    details: { readonly cause?: unknown; readonly rule?: AnswerRule } = {},
  ) {
    super(message, "cause" in details ? { cause: details.cause } : {});
    this.code = code;
    this.rule = details.rule ?? null;
  }
}

export function malformed(rule: AnswerRule, message: string): H1Fault {
  return new H1Fault("malformed", message, { rule });
}

export function asError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(String(thrown));
}
