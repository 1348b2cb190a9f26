/** The head of a request as text, and how its body is framed. Refuses what would not be one request. */
import { H1Fault } from "./fault.ts";
import { fieldName, isFieldValue } from "./field-grammar.ts";
import type { H1Request, RequestHead } from "./exchange.ts";

const METHOD = /^[\w!#$%&'*+.^`|~-]+$/;
const TARGET = /^(?:\/[\x21-\x7e\x80-\xff]*|\*)$/;

/** RFC 9110 section 8.6: what expects a body says so when there is none. */
const EXPECTS_BODY = new Set(["PATCH", "POST", "PROPFIND", "PROPPATCH", "PUT", "QUERY"]);

const CHUNKED_LINE = "transfer-encoding: chunked\r\n";

interface Fields {
  readonly text: string;
  /** The caller's Content-Length; null when there is none. */
  readonly length: number | null;
  readonly hasHost: boolean;
}

/**
 * @param host the value of Host unless the request says one
 * @throws H1Fault `request`
 */
export function requestHead(request: H1Request, host: string): RequestHead {
  const { method, path, body, reset = false } = request;
  if (!METHOD.test(method)) throw badRequest("The method is no token.");
  if (!TARGET.test(path)) throw badRequest("The path is none, or has a blank or a control in it.");
  if (!isFieldValue(request.host ?? "")) throw badRequest("Host has a control character.");
  const fields = writeFields(request.headers);
  const { framing, length } = frame(body, fields.length);
  const hostLine = fields.hasHost ? "" : `host: ${request.host ?? host}\r\n`;
  const connection = reset ? "connection: close\r\n" : "connection: keep-alive\r\n";
  let framingLine = "";
  if (framing === "chunked") framingLine = CHUNKED_LINE;
  else if (framing === "counted" || EXPECTS_BODY.has(method)) {
    framingLine = `content-length: ${length}\r\n`;
  }
  const text = `${method} ${path} HTTP/1.1\r\n${hostLine}${connection}${fields.text}${framingLine}\r\n`;
  return { text, framing, length };
}

/** The head of a request that was to have chunks and turned out to have none: framed in the plainest way. */
export function withoutBody({ text }: RequestHead): string {
  return `${text.slice(0, -`${CHUNKED_LINE}\r\n`.length)}content-length: 0\r\n\r\n`;
}

/**
 * Lines behind a chunked body (RFC 9112 section 7.1.2).
 * @throws H1Fault `request`
 */
export function trailerText(lines: readonly string[]): string {
  const { text, length, hasHost } = writeFields(lines);
  if (length !== null || hasHost) throw badRequest("A trailer would frame or route the request.");
  return text;
}

function frame(body: H1Request["body"], said: number | null): Omit<RequestHead, "text"> {
  if (body !== null && !Buffer.isBuffer(body)) {
    // A stream that is to have no bytes is still waited for: it may have some, against its word.
    return said === null ? { framing: "chunked", length: 0 } : { framing: "counted", length: said };
  }
  const length = body?.length ?? 0;
  if (said !== null && said !== length) {
    throw badRequest(`Content-Length says ${said} and the body has ${length} bytes.`);
  }
  return { framing: length === 0 ? "none" : "counted", length };
}

function writeFields(lines: readonly string[]): Fields {
  if (lines.length % 2 !== 0) throw badRequest("A header name has no value.");
  let text = "";
  let length: number | null = null;
  let hasHost = false;
  for (let at = 0; at < lines.length; at += 2) {
    const spelled = lines[at] ?? "";
    const content = lines[at + 1] ?? "";
    const kind = kindOf(spelled, content);
    if (kind === "content-length") {
      if (length !== null) throw badRequest("Content-Length is there twice.");
      length = Number(content);
    } else {
      if (kind === "host" && hasHost) throw badRequest("Host is there twice.");
      hasHost ||= kind === "host";
      text += `${spelled}: ${content}\r\n`;
    }
  }
  return { text, length, hasHost };
}

function kindOf(spelled: string, value: string): "plain" | "content-length" | "host" {
  const kind = fieldName(spelled)?.kind;
  if (kind === undefined) throw badRequest("A header name is no token.");
  if (!isFieldValue(value)) throw badRequest(`${spelled} has a control character.`);
  if (kind === "plain" || kind === "host") return kind;
  if (kind !== "content-length") throw badRequest(`${spelled} belongs to the connection.`);
  if (!/^\d{1,15}$/.test(value)) throw badRequest("Content-Length is not a number.");
  return kind;
}

function badRequest(message: string): H1Fault {
  return new H1Fault("request", message);
}
