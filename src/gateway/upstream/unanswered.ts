/** Why nothing came from the backend, read from what the client reports: ours, or undici's. */
import type { Unanswered, UnansweredReason } from "../../http/unanswered.ts";
import type { UpstreamOptions } from "./upstream.ts";

export const foreign402: Unanswered = {
  kind: "unanswered",
  status: 502,
  reason: "foreign-402",
  detail: "The backend answered 402 without x402 payment requirements.",
  sent: true,
  retriable: false,
};

export function tooLarge(limit: number, sent: boolean): Unanswered {
  const detail = `The request body is larger than ${limit} bytes.`;
  return { kind: "unanswered", status: 413, reason: "too-large", detail, sent, retriable: false };
}

/** The request itself was broken off here, since its body is larger than is taken. */
export function isTooLarge(error: Error): boolean {
  return codeOf(error) === "body_too_large";
}

/** Errors by their stable codes; what has none of them broke somewhere between head and body. */
export function unanswered(
  error: Error,
  { sent, retriable }: Pick<Unanswered, "sent" | "retriable">,
  options: UpstreamOptions,
): Unanswered {
  const code = codeOf(error);
  if (isTooLarge(error)) return tooLarge(options.bodyLimitBytes, sent);
  const detail = `${options.origin}: ${error.message}`;
  const facts = { kind: "unanswered", detail, sent, retriable } as const;
  const known = KNOWN[code];
  if (known !== undefined) return { ...facts, ...known };
  if (!sent) return { ...facts, status: 502, reason: "connect" };
  const isMalformed = code.startsWith("HPE_") || code.startsWith("UND_ERR_RES");
  return { ...facts, status: 502, reason: isMalformed ? "malformed" : "broken" };
}

const timeout = { status: 504, reason: "timeout" } as const;
const connectTimeout = { status: 504, reason: "connect" } as const;
const malformed = { status: 502, reason: "malformed" } as const;

const KNOWN: Readonly<
  Record<string, { readonly status: Unanswered["status"]; readonly reason: UnansweredReason }>
> = {
  saturated: { status: 503, reason: "saturated" },
  "connect-timeout": connectTimeout,
  UND_ERR_CONNECT_TIMEOUT: connectTimeout,
  "head-timeout": timeout,
  "idle-timeout": timeout,
  UND_ERR_HEADERS_TIMEOUT: timeout,
  UND_ERR_BODY_TIMEOUT: timeout,
  malformed,
  request: malformed,
  UND_ERR_HEADERS_OVERFLOW: malformed,
};

/** Of undici: a kept connection died before it was told anything, or without a byte of an answer. */
export function diedOfReuse(error: Error): boolean {
  const code = codeOf(error);
  if (code === "ECONNRESET" || code === "EPIPE") return true;
  return code === "UND_ERR_SOCKET" && receivedBytes(error) > 0;
}

function codeOf(error: Error): string {
  return "code" in error && typeof error.code === "string" ? error.code : "";
}

/** How much undici had read from the connection that died; nothing of it for this request. */
function receivedBytes(error: Error): number {
  if (!("socket" in error) || typeof error.socket !== "object" || error.socket === null) return 0;
  const { socket } = error;
  return "bytesRead" in socket && typeof socket.bytesRead === "number" ? socket.bytesRead : 0;
}
