/**
 * How backends cut a connection's bytes into requests. The gateway writes one framing; whoever reads the
 * bytes otherwise must still find the same requests in them, or one request hides in another.
 */

export interface ReadRequest {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  /** Raw `name, value` pairs; continuation lines are joined with a blank. */
  readonly lines: readonly (readonly [string, string])[];
  /** The head's bytes as Latin-1, with what ends it. */
  readonly head: string;
  /** The body as it lay on the wire, chunks and all. */
  readonly body: string;
}

export interface Cut {
  readonly requests: readonly ReadRequest[];
  /** A request whose body is not complete. */
  readonly partial: ReadRequest | undefined;
  /** What is left over: the partial request, or bytes that are none. */
  readonly rest: string;
}

interface Rules {
  readonly name: string;
  /** Line ends other than CRLF, blanks before a colon, any character for `-`. */
  readonly isLenient: boolean;
  /** Which of the two counts where both are there. */
  readonly prefers: "length" | "chunked";
  /** GET and its like have no body, whatever the head says; `Connection: close` is honoured. */
  readonly ignoresBodies: boolean;
  /** `Transfer-Encoding` counts where `chunked` is anywhere in it. */
  readonly guessesCoding: boolean;
}

const STRICT: Rules = {
  name: "RFC 9112",
  isLenient: false,
  prefers: "chunked",
  ignoresBodies: false,
  guessesCoding: false,
};

export const FRAMINGS: readonly Rules[] = [
  STRICT,
  { ...STRICT, name: "bare line ends and odd names are read", isLenient: true },
  { ...STRICT, name: "Content-Length counts more than Transfer-Encoding", prefers: "length" },
  { ...STRICT, name: "GET and its like have no body", ignoresBodies: true },
  { ...STRICT, name: "any coding with chunked in it is chunked", guessesCoding: true },
  {
    name: "everything that is lenient at once",
    isLenient: true,
    prefers: "length",
    ignoresBodies: true,
    guessesCoding: true,
  },
];

const BODILESS = new Set(["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"]);

/** Cuts bytes (as Latin-1 text) into requests by the rules. */
export function cutRequests(bytes: string, rules: Rules = STRICT): Cut {
  const requests: ReadRequest[] = [];
  let rest = bytes;
  while (rest !== "") {
    const next = readRequest(rest, rules);
    if (next === undefined) break;
    if (next.length === undefined) return { requests, partial: next.request, rest };
    requests.push(next.request);
    rest = rest.slice(next.length);
    // Whoever closes behind this answer reads no further request.
    if (rules.ignoresBodies && closes(next.request)) rest = "";
  }
  return { requests, partial: undefined, rest };
}

interface Read {
  readonly request: ReadRequest;
  /** Undefined while the body is not complete. */
  readonly length: number | undefined;
}

function readRequest(bytes: string, rules: Rules): Read | undefined {
  const end = (rules.isLenient ? /\r?\n\r?\n/ : /\r\n\r\n/).exec(bytes);
  if (end === null) return undefined;
  const head = bytes.slice(0, end.index + end[0].length);
  const [first = "", ...others] = bytes
    .slice(0, end.index)
    .split(rules.isLenient ? /\r\n|[\r\n]/ : "\r\n");
  const [method = "", target = "", version = ""] = first.split(rules.isLenient ? /\s+/ : " ");
  const lines = readLines(others);
  const body = bodyLength(bytes.slice(head.length), { method, lines }, rules);
  const length = body === undefined ? undefined : head.length + body;
  return {
    request: { method, target, version, lines, head, body: bytes.slice(head.length, length) },
    length,
  };
}

function readLines(texts: readonly string[]): [string, string][] {
  const lines: [string, string][] = [];
  for (const text of texts) {
    const last = lines.at(-1);
    if (/^[ \t]/.test(text) && last !== undefined) {
      last[1] += ` ${text.trim()}`;
      continue;
    }
    const colon = text.indexOf(":");
    lines.push(colon === -1 ? [text, ""] : [text.slice(0, colon), text.slice(colon + 1).trim()]);
  }
  return lines;
}

/** A header's name as the laxest backend has it: CGI of lighttpd makes no difference of `-` and any other character. */
function looseName(name: string): string {
  return name
    .toLowerCase()
    .replaceAll(/[^!-~]/g, "")
    .replaceAll(/[^a-z0-9]/g, "-");
}

export function valuesOf(
  lines: ReadRequest["lines"],
  name: string,
  read: (name: string) => string = (each) => each.toLowerCase(),
): string[] {
  return lines.filter(([each]) => read(each) === name).map(([, value]) => value);
}

function closes({ lines }: ReadRequest): boolean {
  return valuesOf(lines, "connection").some((value) => /\bclose\b/i.test(value));
}

/** Bytes of the body, chunks included; undefined while it is not complete. */
function bodyLength(
  bytes: string,
  { method, lines }: Pick<ReadRequest, "method" | "lines">,
  rules: Rules,
): number | undefined {
  if (rules.ignoresBodies && BODILESS.has(method)) return 0;
  const read = rules.isLenient ? looseName : undefined;
  const [length] = valuesOf(lines, "content-length", read);
  const coding = valuesOf(lines, "transfer-encoding", read).join(",").toLowerCase();
  const isChunked = rules.guessesCoding ? coding.includes("chunked") : coding === "chunked";
  if (isChunked && (rules.prefers === "chunked" || length === undefined)) {
    return chunkedLength(bytes, rules);
  }
  const announced = Number.parseInt(length ?? "0", 10);
  if (Number.isNaN(announced)) return 0;
  return bytes.length < announced ? undefined : announced;
}

function chunkedLength(bytes: string, { isLenient }: Rules): number | undefined {
  const line = isLenient ? /^([0-9a-f]+)[^\n]*\n/i : /^([0-9a-f]+)\r\n/i;
  let from = 0;
  for (;;) {
    const found = line.exec(bytes.slice(from, from + 200));
    if (found === null) return undefined;
    const size = Number.parseInt(found[1] ?? "", 16);
    from += found[0].length;
    if (size === 0) break;
    from += size + 2;
    if (from > bytes.length) return undefined;
  }
  if (bytes.startsWith("\r\n", from)) return from + 2;
  const end = bytes.indexOf("\r\n\r\n", from);
  return end === -1 ? undefined : end + 4;
}
