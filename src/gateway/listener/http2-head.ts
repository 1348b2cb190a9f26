/**
 * The head of an HTTP/2 request as the HTTP/1.1 head that it would be (RFC 9113 section 8.3), so that one
 * decision serves both. What node's parser (nghttp2) refuses by itself never comes here: pseudo-header fields
 * that are missing, twice or late, upper-case names, connection-specific fields, contradicting lengths.
 */
import type { IncomingHttpHeaders } from "node:http";
import type { IncomingHttpHeaders as Http2Headers } from "node:http2";
import { err, ok, type Result } from "../../x402/result.ts";

/** Header lines of a request at most, on any protocol; the crumbs of a cookie are one line. */
export const MAX_HEADER_LINES = 100;

export interface Http2Head {
  readonly method: string;
  readonly url: string;
  /** Raw `name, value` pairs, Host first. */
  readonly rawHeaders: string[];
  readonly headers: IncomingHttpHeaders;
}

/** Of a request without `:protocol`, which would need a setting that is not sent (RFC 8441). */
const PSEUDO = [":method", ":path", ":scheme", ":authority"] as const;

export interface HeadFault {
  readonly status: 400 | 408 | 431;
  readonly detail: string;
}

/**
 * @param headers as node folds them: the first value of what there is one of, the others joined. They become
 *   the head's, without pseudo-header fields.
 * @param raw the same as `name, value` pairs, as received
 */
export function readHttp2Head(
  headers: Http2Headers,
  raw: readonly string[],
): Result<Http2Head, HeadFault> {
  const { [":method"]: method = "" } = headers;
  const authority = headers[":authority"] ?? headers.host ?? "";
  // CONNECT has no path (RFC 9113 section 8.5); it is refused where targets are read.
  const url = method === "CONNECT" ? authority : (headers[":path"] ?? "");
  const fault = authorityFault(authority, headers.host) ?? targetFault(headers, url);
  if (fault !== null) return err({ status: 400, detail: fault });
  const rawHeaders = readLines(raw, authority, headers.cookie);
  if (rawHeaders.length > 2 * MAX_HEADER_LINES) {
    return err({ status: 431, detail: `The request has over ${MAX_HEADER_LINES} header lines.` });
  }
  for (const name of PSEUDO) delete headers[name];
  headers.host = authority;
  return ok({ method, url, rawHeaders, headers });
}

/** The backend gets one Host: who asked for two places could mean either. */
function authorityFault(authority: string, host: string | undefined): string | null {
  if (authority === "") return "The request names no host.";
  if (authority.includes("@")) return "The authority has user information.";
  const isTwofold = host !== undefined && host.toLowerCase() !== authority.toLowerCase();
  return isTwofold ? "Host and :authority differ." : null;
}

function targetFault(headers: Http2Headers, url: string): string | null {
  const { [":method"]: method, [":scheme"]: scheme = "https" } = headers;
  if (scheme !== "https" && scheme !== "http") return "The scheme is neither https nor http.";
  const isPath = method === "CONNECT" || url === "*" || url.startsWith("/");
  return isPath ? null : "The :path is not a path.";
}

/** Without pseudo-header fields and Host; crumbs of cookies joined (RFC 9113 section 8.2.3). */
function readLines(raw: readonly string[], host: string, cookie: string | undefined): string[] {
  const lines = ["host", host];
  let hasCookie = false;
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index] ?? "";
    if (name.startsWith(":") || name === "host" || (name === "cookie" && hasCookie)) continue;
    hasCookie ||= name === "cookie";
    lines.push(name, name === "cookie" ? (cookie ?? "") : (raw[index + 1] ?? ""));
  }
  return lines;
}

/**
 * Marks a body of unknown length: HTTP/2 has no word for it, and to HTTP/1.1, in which the request goes on, it is
 * one of the two framings.
 */
export function markChunked({ rawHeaders, headers }: Http2Head): void {
  rawHeaders.push("transfer-encoding", "chunked");
  headers["transfer-encoding"] = "chunked";
}
