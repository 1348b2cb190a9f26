/**
 * The request-target (RFC 9112 section 3.2) under a grammar so strict that only ONE spelling of a path
 * is left: the one that is priced, and sent to the backend byte for byte. What two readers could read
 * differently (dot segments, empty segments, encoded separators, double encoding, path parameters) is
 * refused and never repaired: a repaired path is one that somebody else repairs differently.
 *
 * Refused although RFC 3986 allows it, because it has an equivalent spelling: percent-encoded unreserved
 * characters (`%61` is `a`) and lower-case hexadecimal (`%c3` is `%C3`); URL libraries produce neither
 * unless the link was typed so. Spellings that only some backends read alike (letter case, a trailing
 * slash) are distinct paths here; the router refuses them where they would dodge a price.
 */

/** Characters of a path at most. */
export const pathLimit = 4096;
/** Characters of a query at most. */
export const queryLimit = 8192;

export type Target =
  | {
      readonly kind: "ok";
      /** Starts with `/`; ASCII; the only spelling of this path. */
      readonly path: string;
      /** Without the `?`; empty when there is none. Not decoded, not checked beyond its characters. */
      readonly query: string;
      /** Path and query as they go to the backend. */
      readonly raw: string;
    }
  /** `OPTIONS *`: the server as a whole, not a resource (RFC 9110 section 9.3.7). */
  | { readonly kind: "asterisk" }
  | { readonly kind: "refused"; readonly status: 400 | 414; readonly detail: string };

/**
 * @param servedAuthorities the hosts served here, lower-case, as `host` or `host:port` without a default
 *   port; the absolute form is taken for no other (a proxy for any host it is not).
 */
export function readTarget(
  method: string,
  requestTarget: string,
  servedAuthorities: ReadonlySet<string>,
): Target {
  if (method === "CONNECT") return refused("CONNECT is not served.");
  if (requestTarget.charCodeAt(0) === slash) return readOrigin(requestTarget);
  if (requestTarget === "*") {
    return method === "OPTIONS" ? asterisk : refused("Only OPTIONS may have the target *.");
  }
  return readAbsolute(requestTarget, servedAuthorities);
}

const asterisk: Target = { kind: "asterisk" };

function refused(detail: string, status: 400 | 414 = 400): Target {
  return { kind: "refused", status, detail };
}

function readOrigin(raw: string): Target {
  const mark = raw.indexOf("?");
  const path = mark === -1 ? raw : raw.slice(0, mark);
  const query = mark === -1 ? "" : raw.slice(mark + 1);
  if (path.length > pathLimit) {
    return refused(`The path is longer than ${pathLimit} characters.`, 414);
  }
  if (query.length > queryLimit) {
    return refused(`The query is longer than ${queryLimit} characters.`, 414);
  }
  const fault = pathFault(path) ?? queryFault(query);
  return fault === null ? { kind: "ok", path, query, raw } : refused(fault);
}

function readAbsolute(target: string, servedAuthorities: ReadonlySet<string>): Target {
  const parts = /^(https?):\/\/([^/?#]*)/i.exec(target);
  const [prefix, scheme, authority] = parts ?? [];
  if (prefix === undefined || scheme === undefined || authority === undefined) {
    return refused("The request target is neither a path nor an http(s) URL.");
  }
  const defaultPort = scheme.length === 4 ? ":80" : ":443";
  const host = authority.toLowerCase();
  const served = host.endsWith(defaultPort) ? host.slice(0, -defaultPort.length) : host;
  if (!servedAuthorities.has(served)) {
    return refused("The request target names a host that is not served here.");
  }
  const rest = target.slice(prefix.length);
  // RFC 9110 section 4.2.3: an empty path is the path "/".
  return readOrigin(rest.charCodeAt(0) === slash ? rest : `/${rest}`);
}

const slash = 0x2f;
const dot = 0x2e;

// What a character means to the path scan: one table look-up for each.
const plain = 1;
const separator = 2;
const escape = 3;
const kinds = new Uint8Array(128);
for (const character of "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") {
  kinds[character.charCodeAt(0)] = plain;
}
// RFC 3986 pchar: the rest of unreserved, sub-delims without ";", ":" and "@".
for (const character of "-._~!$&'()*+,=:@") kinds[character.charCodeAt(0)] = plain;
kinds[slash] = separator;
kinds[0x25] = escape;

/** The sentence that refuses `path` (which starts with a slash), or null. */
function pathFault(path: string): string | null {
  const end = path.length;
  let segment = 1;
  let escaped = false;
  for (let index = 1; index < end; index += 1) {
    const kind = kinds[path.charCodeAt(index)];
    if (kind === plain) continue;
    if (kind === separator) {
      const fault = segmentFault(path, segment, index);
      if (fault !== null) return fault;
      segment = index + 1;
    } else if (kind === escape) {
      const fault = escapeFault(path, index);
      if (fault !== null) return fault;
      escaped = true;
      index += 2;
    } else {
      return characterFault(path[index]);
    }
  }
  // The last segment may be empty: "/" and a trailing slash.
  const last = segment === end ? null : segmentFault(path, segment, end);
  return last ?? (escaped ? textFault(path) : null);
}

function segmentFault(path: string, from: number, to: number): string | null {
  if (from === to) return "The path holds an empty segment (//).";
  if (path.charCodeAt(from) !== dot || to - from > 2) return null;
  if (to - from === 2 && path.charCodeAt(from + 1) !== dot) return null;
  return "The path holds a dot segment (. or ..).";
}

function characterFault(character: string | undefined): string {
  if (character === ";") return "The path holds a path parameter (;).";
  if (character === "\\") return "The path holds a backslash.";
  if (character === "#") return "The request target holds a fragment (#).";
  return "The path holds a character that must be percent-encoded.";
}

/** The sentence that refuses the escape at `index`, or null; whole characters are `textFault`'s. */
function escapeFault(path: string, index: number): string | null {
  const high = hexDigit(path.charCodeAt(index + 1));
  const low = hexDigit(path.charCodeAt(index + 2));
  if (high === -1 || low === -1) return "The path holds a % without two hexadecimal digits.";
  if (high > 15 || low > 15) {
    return "The path holds a percent-encoding in lower case: write %C3, not %c3.";
  }
  const byte = high * 16 + low;
  return byte === 0x25 ? doubleEncodingFault(path, index + 3) : encodedByteFault(byte);
}

function encodedByteFault(byte: number): string | null {
  if (byte >= 128) return null;
  if (byte < 0x20 || byte === 0x7f) return "The path holds an encoded control character.";
  if (byte === slash || byte === 0x5c) return "The path holds an encoded slash or backslash.";
  if (byte === 0x3b) return "The path holds an encoded path parameter (%3B).";
  return isUnreserved(byte)
    ? "The path holds a percent-encoded letter, digit or one of -._~: write it as it is."
    : null;
}

/**
 * An encoded "%" before what reads as an escape, `%u0061` of old servers included: a second decoding would give
 * another path.
 */
function doubleEncodingFault(path: string, index: number): string | null {
  return /^(?:[\da-f]{2}|u[\da-f]{4})/i.test(path.slice(index, index + 5))
    ? "The path is percent-encoded twice (%25 before two digits)."
    : null;
}

/** 0 to 15; 16 more for a lower-case letter; -1 for anything else (NaN beyond the end included). */
function hexDigit(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  if (code >= 0x41 && code <= 0x46) return code - 0x37;
  if (code >= 0x61 && code <= 0x66) return code - 0x57 + 16;
  return -1;
}

function isUnreserved(byte: number): boolean {
  return /[\w.~-]/.test(String.fromCharCode(byte));
}

/** Bytes that are not UTF-8 (overlong forms and surrogates included), and C1 controls. */
function textFault(path: string): string | null {
  let text;
  try {
    text = decodeURIComponent(path);
  } catch {
    return "The path is not UTF-8 once decoded.";
  }
  return /[\u0080-\u009f]/.test(text) ? "The path holds an encoded control character." : null;
}

/** Visible ASCII without "#"; everything else a URL library encodes, and some readers cut the line at. */
const queryText = /^[!-"$-~]*$/;

function queryFault(query: string): string | null {
  if (queryText.test(query)) return null;
  return query.includes("#")
    ? "The request target holds a fragment (#)."
    : "The query holds a character that must be percent-encoded.";
}
