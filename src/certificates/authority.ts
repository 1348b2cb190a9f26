/**
 * The authority as acme-client asks it, through a connection of ours: the library brings a general HTTP client, which
 * follows redirects, goes by proxies of the environment, has no limits, and tries again by itself.
 */
import { readFile } from "node:fs/promises";
import type { Client, CryptoInterface } from "acme-client";
import { Agent, request } from "undici";
import { messageOf } from "../x402/result.ts";
import { printable } from "../x402/printable.ts";

/** Longest that one answer may take, its body included, milliseconds. */
const ANSWER_MS = 30_000;
/** Longest answer: a chain of certificates has some 10 KiB. */
const MAX_ANSWER_BYTES = 256 * 1024;
/** What an authority says is cut to so many characters. */
const MAX_SAID = 400;

/** What else is known of a fault. */
interface FaultFacts {
  /** Its kind, the last word of the type (RFC 8555 section 6.7); none: it says none. */
  readonly type?: string;
  /** It was not there, or could not work: nothing was counted against us. */
  readonly isOutage?: boolean;
  /** How long it asks to wait, milliseconds. */
  readonly askedMs?: number | undefined;
  /** What an operator does about it, as a sentence; none: as about any. */
  readonly advice?: string;
}

/** What an authority answers in place of what was asked for (RFC 7807), or that it could not be asked. */
export class AuthorityFault extends Error {
  readonly type: string;
  readonly isOutage: boolean;
  readonly askedMs: number | undefined;
  readonly advice: string | undefined;

  constructor(said: string, { type = "", isOutage = false, askedMs, advice }: FaultFacts = {}) {
    super(said);
    this.type = type;
    this.isOutage = isOutage;
    this.askedMs = askedMs;
    this.advice = advice;
  }
}

/** What a stranger says, for one line of a log. */
export function quoted(said: string): string {
  const shown = printable(said);
  return shown.length > MAX_SAID ? `${shown.slice(0, MAX_SAID)}…` : shown;
}

export interface AuthorityOptions {
  readonly directory: string;
  /** Path of a file in PEM; null: whom the system trusts. */
  readonly ca: string | null;
  readonly accountKey: string;
  /** Ends what is under way. */
  readonly signal: AbortSignal;
}

export interface Authority {
  readonly client: Client;
  readonly crypto: CryptoInterface;
  /** What its clock said in its last answer, milliseconds since the epoch; undefined: nothing. */
  readonly dateMs: () => number | undefined;
  close(): Promise<void>;
}

/** What the library's adapter gets and gives, as far as it matters. */
interface Asked {
  readonly url?: string;
  readonly method?: string;
  readonly data?: unknown;
}

/** One at a time in a process: the library has one HTTP client for all. */
export async function openAuthority(options: AuthorityOptions): Promise<Authority> {
  const { directory, ca, accountKey, signal } = options;
  // Loaded by those who need it.
  const { default: acme } = await import("acme-client");
  const connect = ca === null ? {} : { connect: { ca: await readFile(ca, "utf8") } };
  const agent = new Agent({ ...connect, connectTimeout: ANSWER_MS, pipelining: 0 });
  let dateMs: number | undefined;
  acme.axios.defaults.adapter = async (config) => {
    const { url = "", method = "GET", data }: Asked = config;
    const answer = await ask(url, { agent, method: method.toUpperCase(), data, signal });
    dateMs = timeOf(answer.headers["date"]) ?? dateMs;
    // The library reads no more than these of a response.
    return { ...answer, statusText: "", config };
  };
  return {
    client: new acme.Client({ directoryUrl: directory, accountKey }),
    crypto: acme.crypto,
    dateMs: () => dateMs,
    close: () => agent.destroy(),
  };
}

interface Asking {
  readonly agent: Agent;
  readonly method: string;
  readonly data: unknown;
  readonly signal: AbortSignal;
}

interface Answered {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly data: string;
}

/** Throws {@link AuthorityFault} for whatever is no answer to go on with; a nonce that is refused is the library's. */
async function ask(url: string, asking: Asking): Promise<Answered> {
  const answer = await exchange(url, asking);
  const { status, data, headers } = answer;
  if (status < 300) return answer;
  const { type, detail } = readProblem(data);
  if (type.endsWith(":badNonce")) return answer;
  const isOutage = status >= 500;
  const kind = type.split(":").at(-1) ?? "";
  const said = detail === "" ? `HTTP ${status}` : `${kind}: ${detail}`;
  throw new AuthorityFault(quoted(said), { type: kind, isOutage, askedMs: retryAfterMs(headers) });
}

async function exchange(url: string, asking: Asking): Promise<Answered> {
  const { agent, method, data, signal } = asking;
  if (!url.startsWith("https://")) throw new AuthorityFault("it names a URL that is not https");
  const limit = AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]);
  try {
    const { statusCode, headers, body } = await request(url, {
      dispatcher: agent,
      // The library's `get`, `head` and `post`.
      method: method as "GET" | "HEAD" | "POST",
      headers: { "user-agent": "coinslot", "content-type": "application/jose+json" },
      body: typeof data === "string" ? data : null,
      signal: limit,
      headersTimeout: ANSWER_MS,
      bodyTimeout: ANSWER_MS,
    });
    let text = "";
    for await (const chunk of body.setEncoding("utf8")) {
      text += String(chunk);
      if (text.length > MAX_ANSWER_BYTES) {
        throw new AuthorityFault("its answer is too long", { isOutage: true });
      }
    }
    const fields = Object.entries(headers).map(([name, value]) => [name, String(value)]);
    return { status: statusCode, headers: Object.fromEntries(fields), data: text };
  } catch (cause) {
    if (cause instanceof AuthorityFault) throw cause;
    const said = `it cannot be asked: ${quoted(messageOf(cause))}`;
    throw new AuthorityFault(said, { isOutage: true });
  }
}

function readProblem(text: string): { readonly type: string; readonly detail: string } {
  try {
    const problem: unknown = JSON.parse(text);
    if (typeof problem === "object" && problem !== null) {
      const { type, detail } = problem as { readonly type?: unknown; readonly detail?: unknown };
      return { type: stringOf(type), detail: stringOf(detail) };
    }
  } catch {
    // It is no problem document, then.
  }
  return { type: "", detail: "" };
}

function stringOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

/** Seconds, or a date, which is of the authority's clock as its answer is. */
function retryAfterMs(headers: Readonly<Record<string, string>>): number | undefined {
  const { "retry-after": written = "", date } = headers;
  if (/^[0-9]{1,9}$/.test(written)) return Number(written) * 1000;
  const untilMs = timeOf(written);
  return untilMs === undefined ? undefined : Math.max(untilMs - (timeOf(date) ?? Date.now()), 0);
}

/** Milliseconds since the epoch; undefined: no date. */
function timeOf(written: string | undefined): number | undefined {
  const ms = Date.parse(written ?? "");
  return Number.isFinite(ms) ? ms : undefined;
}
