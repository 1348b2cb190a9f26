/** Why nothing came from the backend, read from what the client library reports. */
import type { Delivery, Unanswered, UpstreamOptions } from "./upstream.ts";

export const foreign402: Unanswered = {
  kind: "unanswered",
  status: 502,
  reason: "foreign-402",
  detail: "The backend answered 402 without x402 payment requirements.",
  sent: true,
};

export function tooLarge(limit: number, sent: boolean): Unanswered {
  const detail = `The request body is larger than ${limit} bytes.`;
  return { kind: "unanswered", status: 413, reason: "too-large", detail, sent };
}

/** Errors by their stable codes; what has none of them broke somewhere between head and body. */
export function unanswered(error: Error, sent: boolean, options: UpstreamOptions): Delivery {
  const code = codeOf(error);
  const detail = `${options.origin}: ${error.message}`;
  if (code === "body_too_large") return tooLarge(options.bodyLimitBytes, sent);
  if (code === "UND_ERR_HEADERS_TIMEOUT" || code === "UND_ERR_BODY_TIMEOUT") {
    return { kind: "unanswered", status: 504, reason: "timeout", detail, sent };
  }
  if (!sent) {
    const status = code === "UND_ERR_CONNECT_TIMEOUT" ? 504 : 502;
    return { kind: "unanswered", status, reason: "connect", detail, sent };
  }
  const malformed = code.startsWith("HPE_") || code.startsWith("UND_ERR_RES") || overflow.has(code);
  return {
    kind: "unanswered",
    status: 502,
    reason: malformed ? "malformed" : "broken",
    detail,
    sent,
  };
}

const overflow = new Set(["UND_ERR_HEADERS_OVERFLOW"]);

/** A kept connection died before it was told anything, or without a byte of an answer. */
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
