/**
 * One HTTP request by a buyer, byte for byte as it was asked for: no redirect is followed, nothing is decoded,
 * the answer's body is read by whoever asked. HTTP/1.1, a connection for each request.
 */
import { request as requestHttp, type IncomingMessage } from "node:http";
import { request as requestHttps } from "node:https";
import { PAYMENT_HEADERS } from "../x402/header.ts";
import { messageOf } from "../x402/result.ts";
import type { X402Version } from "../x402/x402.ts";

export interface BuyerRequest {
  readonly url: URL;
  readonly method: string;
  /** Names and values as they are sent, in their order. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Buffer | null;
}

export interface BuyerAnswer {
  readonly status: number;
  /** The head without its last line break, as it was received. */
  readonly head: string;
  /** Of a header by its lower-case name; "" where there is none. */
  readonly header: (name: string) => string;
  /** Rejects while it is read when the answer is cut. */
  readonly body: AsyncIterable<Uint8Array>;
  /** Ends the connection, whatever has been read. */
  readonly drop: () => void;
}

/** Why there is no answer. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
  /** Whether the request may have reached the server all the same. */
  readonly mayHaveArrived: boolean;

  constructor(message: string, mayHaveArrived: boolean) {
    super(message);
    this.mayHaveArrived = mayHaveArrived;
  }
}

/** A signed payment as it is sent. */
export interface PaymentHeader {
  /** Of the envelope. */
  readonly version: X402Version;
  /** What the header of that version says. */
  readonly value: string;
}

export interface ExchangeOptions {
  /** Undefined: none is sent. */
  readonly payment?: PaymentHeader;
  /** Longest silence of the server, milliseconds. */
  readonly silenceMs: number;
  readonly signal: AbortSignal;
}

/** Resolves with the head of the answer. @throws {NoAnswer} */
export function exchange(request: BuyerRequest, options: ExchangeOptions): Promise<BuyerAnswer> {
  const { url, method, body } = request;
  const { silenceMs, signal } = options;
  const send = url.protocol === "https:" ? requestHttps : requestHttp;
  const outcome = Promise.withResolvers<BuyerAnswer>();
  // As pairs in one list, so that a name may come twice.
  const headers = headerLines(request, options.payment).flat();
  const sent = send(url, { method, headers, agent: false, timeout: silenceMs, signal });
  let isConnected = false;
  sent.on("socket", (socket) => {
    const event = url.protocol === "https:" ? "secureConnect" : "connect";
    socket.once(event, () => (isConnected = true));
  });
  sent.on("timeout", () => {
    sent.destroy(new Error(`the server was silent for ${silenceMs / 1_000} s`));
  });
  sent.on("error", (cause) => outcome.reject(new NoAnswer(reasonOf(cause, url), isConnected)));
  sent.on("response", (response) => outcome.resolve(toAnswer(response)));
  // Another protocol than HTTP is no answer that could be read here.
  sent.on("upgrade", (_, socket) => {
    socket.destroy();
    outcome.reject(new NoAnswer("the server switched protocols", true));
  });
  sent.end(body ?? undefined);
  return outcome.promise;
}

const WITH_BODY: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);

function headerLines(
  { url, method, headers, body }: BuyerRequest,
  payment: PaymentHeader | undefined,
): (readonly [string, string])[] {
  const named = new Set(headers.map(([name]) => name.toLowerCase()));
  const lines: (readonly [string, string])[] = named.has("host") ? [] : [["Host", url.host]];
  const defaults = { "User-Agent": "coinslot", Accept: "*/*" };
  for (const [name, value] of Object.entries(defaults)) {
    if (!named.has(name.toLowerCase())) lines.push([name, value]);
  }
  lines.push(...headers);
  // Said for no body as well, where one is expected (RFC 9110, section 8.6).
  if (body !== null || WITH_BODY.has(method)) {
    lines.push(["Content-Length", String(body?.length ?? 0)]);
  }
  if (payment !== undefined) lines.push([PAYMENT_HEADERS[payment.version], payment.value]);
  lines.push(["Connection", "close"]);
  return lines;
}

function toAnswer(response: IncomingMessage): BuyerAnswer {
  const { statusCode = 0, statusMessage = "", httpVersion, rawHeaders, headers } = response;
  const lines = [`HTTP/${httpVersion} ${statusCode} ${statusMessage}`];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    lines.push(`${rawHeaders[index]}: ${rawHeaders[index + 1]}`);
  }
  return {
    status: statusCode,
    head: lines.join("\n"),
    header: (name) => [headers[name]].flat().join(", "),
    body: response,
    drop: () => response.destroy(),
  };
}

/** For a person; the reason that Node gives, and what is usually meant by it. */
function reasonOf(cause: unknown, { host }: URL): string {
  const code = cause instanceof Error && "code" in cause ? String(cause.code) : "";
  const meaning = MEANINGS[code];
  if (meaning !== undefined) return `${host}: ${meaning}`;
  const message = messageOf(cause);
  return `${host}: ${message === "" ? code : message}`;
}

const MEANINGS: Readonly<Record<string, string | undefined>> = {
  ECONNREFUSED: "nothing listens there (ECONNREFUSED)",
  ECONNRESET: "the connection was cut (ECONNRESET)",
  ENOTFOUND: "no such host (ENOTFOUND)",
  EAI_AGAIN: "the name could not be looked up (EAI_AGAIN)",
  ETIMEDOUT: "no connection in time (ETIMEDOUT)",
  ABORT_ERR: "interrupted",
  HPE_HEADER_OVERFLOW: "the head of the answer is too large",
};

/** A body as a whole, or undefined where it is larger than that. @throws when it is cut */
export async function readBody(answer: BuyerAnswer, maxBytes: number): Promise<Buffer | undefined> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of answer.body) {
    size += part.length;
    if (size > maxBytes) {
      answer.drop();
      return undefined;
    }
    parts.push(part);
  }
  return Buffer.concat(parts);
}
