/**
 * A request that a message asks for in place of a request line: it comes from the message's own client, by its own
 * connection, and is decided, paid and forwarded as any other; redirects are followed for it, since a call cannot go there.
 */
import type { IncomingHttpHeaders } from "node:http";
import { Readable } from "node:stream";
import { SESSION_HEADER } from "../../x402/session.ts";
import { SIGN_IN_HEADER } from "../../x402/sign-in.ts";
import type { InboundRequest, InboundSocket } from "../message/inbound.ts";

/** What is asked for. */
export interface AskedCall {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  /** Raw `name, value` pairs, those of the body among them; what the message's own client says is added. */
  readonly headers: readonly string[];
  readonly body: Buffer | null;
}

/** Lines of the message that are its client's, and not about the message: by whom and for whom it came. */
const FROM_THE_MESSAGE: ReadonlySet<string> = new Set([
  "host",
  "forwarded",
  "user-agent",
  "accept-language",
  "traceparent",
  "tracestate",
  SESSION_HEADER.toLowerCase(),
  SIGN_IN_HEADER.toLowerCase(),
]);
const PROXIES = /^x-forwarded-/;

export class CallRequest extends Readable implements InboundRequest {
  readonly method: string;
  readonly url: string;
  readonly httpVersion: string;
  readonly httpVersionMajor: number;
  readonly httpVersionMinor: number;
  readonly rawHeaders: string[];
  readonly headers: IncomingHttpHeaders;
  readonly nameProblem: string | null;
  readonly rawTrailers: string[] = [];
  /** The message was read whole before. */
  readonly complete = true;
  readonly socket: InboundSocket;

  constructor(message: InboundRequest, { method, target, headers, body }: AskedCall) {
    super({ autoDestroy: false });
    this.method = method;
    this.url = target;
    this.httpVersion = message.httpVersion;
    this.httpVersionMajor = message.httpVersionMajor;
    this.httpVersionMinor = message.httpVersionMinor;
    this.nameProblem = message.nameProblem ?? null;
    const own = new Set(headers.filter((_, at) => at % 2 === 0).map((name) => name.toLowerCase()));
    this.rawHeaders = [...fromMessage(message.rawHeaders, own), ...headers];
    this.headers = joined(this.rawHeaders);
    this.socket = new CallSocket(message.socket);
    if (body !== null) this.push(body);
    this.push(null);
  }

  override _read(): void {
    // All of it is there.
  }
}

function fromMessage(raw: readonly string[], own: ReadonlySet<string>): string[] {
  const kept: string[] = [];
  for (let index = 0; index < raw.length; index += 2) {
    const [name = "", value = ""] = raw.slice(index, index + 2);
    const lower = name.toLowerCase();
    const isTheirs = FROM_THE_MESSAGE.has(lower) || PROXIES.test(lower);
    if (isTheirs && !own.has(lower)) kept.push(name, value);
  }
  return kept;
}

/** As node has those that it has parsed itself. */
function joined(raw: readonly string[]): IncomingHttpHeaders {
  const values = new Map<string, string>();
  for (let index = 0; index < raw.length; index += 2) {
    const name = (raw[index] ?? "").toLowerCase();
    const value = raw[index + 1] ?? "";
    const before = values.get(name);
    values.set(name, before === undefined ? value : `${before}, ${value}`);
  }
  return Object.fromEntries(values);
}

/** The message's connection: what is done to one call is done to nothing else of it. */
class CallSocket implements InboundSocket {
  readonly #socket: InboundSocket;
  #isDestroyed = false;

  constructor(socket: InboundSocket) {
    this.#socket = socket;
  }

  get remoteAddress(): string | undefined {
    return this.#socket.remoteAddress;
  }

  get encrypted(): boolean {
    return this.#socket.encrypted === true;
  }

  get beneath(): InboundSocket {
    return this.#socket.beneath ?? this.#socket;
  }

  get destroyed(): boolean {
    return this.#isDestroyed || this.#socket.destroyed;
  }

  get bytesRead(): number {
    return this.#socket.bytesRead;
  }

  /** Its answer is held, and nobody's to take. */
  get writableLength(): number {
    return 0;
  }

  setTimeout(): void {
    // Nothing of the call waits for its client.
  }

  resetAndDestroy(): void {
    this.#isDestroyed = true;
  }

  destroy(): void {
    this.#isDestroyed = true;
  }
}
