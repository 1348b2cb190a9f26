/**
 * JSON-RPC over HTTP to one endpoint (JSON-RPC 2.0, sections 4 and 5): strict about the answer's shape,
 * bounded in time and size. Redirects are not followed. Endpoint URLs often hold a key, so no message
 * of this file names more of one than its host.
 */
import { H1Pool } from "../http1/pool.ts";
import { AnswerTooLarge, ask } from "../http1/small-request.ts";
import { currentContext, formatTraceParent } from "../telemetry/request-context.ts";
import { inSpan } from "../telemetry/spans.ts";
import { ChainError } from "./mechanism.ts";
import { isRecord, parseJson } from "../x402/json.ts";

/** The longest wait for one call, milliseconds, connecting and queueing included. */
const RPC_TIMEOUT_MS = 10_000;
/** The largest answer, bytes: a receipt with hundreds of logs stays below it. */
const MAX_RPC_ANSWER_BYTES = 4 * 1024 * 1024;
/** Calls in flight to one endpoint at once; more of them wait for a connection. */
const MAX_RPC_CONNECTIONS = 64;
/** Calls that wait for one of them, each for as long as its caller does. */
const MAX_WAITING_CALLS = 10_000;
/** How long a connection is kept without a call: below what nodes and what stands before them keep, milliseconds. */
const KEEP_ALIVE_MS = 4_000;
/** Largest head of an answer, bytes. */
const MAX_HEAD_BYTES = 16 * 1024;
/** How much of a node's own error message is kept, characters. */
const MAX_NODE_MESSAGE = 200;
/** Path segments at least this long are taken for keys when a node's message is cleaned. */
const MIN_KEY_CHARACTERS = 12;

/** How one call ended. `refused` is an error that the node answered, `malformed` is not JSON-RPC. */
type RpcOutcome = "ok" | "refused" | "malformed" | "timeout" | "unreachable";

/** Told once for each HTTP request, so that a repeated one counts twice. */
export type RpcObserver = (method: string, durationMs: number, outcome: RpcOutcome) => void;

/** The node answered with a JSON-RPC error. `data` is the revert data of a failed `eth_call`. */
export class RpcRefusal extends ChainError {
  override readonly name = "RpcRefusal";
  readonly rpcCode: number;
  readonly rpcMessage: string;
  readonly data: unknown;

  constructor(where: string, error: { code: number; message: string; data: unknown }) {
    super("CHAIN_ANSWER", `${where}: ${error.message} (${error.code})`);
    this.rpcCode = error.code;
    this.rpcMessage = error.message;
    this.data = error.data;
  }
}

/** The node's answer is larger than any that is wanted, as any other node's would be. */
export class RpcAnswerTooLarge extends ChainError {
  override readonly name = "RpcAnswerTooLarge";

  constructor(where: string, options: ErrorOptions) {
    super("CHAIN_ANSWER", `${where}: the answer is too large`, options);
  }
}

export interface RpcOptions {
  readonly timeoutMs?: number;
  readonly maxAnswerBytes?: number;
  readonly maxConnections?: number;
  readonly observer?: RpcObserver | undefined;
}

/**
 * A client of one endpoint. The object itself is what tells endpoints apart: two of them may be of one host,
 * with different keys.
 */
export interface Rpc {
  /** The endpoint's host: the only part of its URL that may be shown. */
  readonly host: string;
  /**
   * Calls a method; the result is whatever JSON the node answered.
   * @throws {RpcRefusal} when the node answered with an error
   * @throws {ChainError} when it did not answer, or not with JSON-RPC
   */
  call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown>;
  close(): Promise<void>;
}

/** Opens a client; no connection is made before the first call. Throws on a URL that is not HTTP. */
export function openRpc(url: string, options: RpcOptions = {}): Rpc {
  return new HttpRpc(parseEndpoint(url), options);
}

interface Endpoint {
  readonly origin: string;
  readonly path: string;
  readonly host: string;
  readonly authorization: string | undefined;
  /** Parts of the URL that must not be repeated in a message. */
  readonly secrets: readonly string[];
}

interface Call {
  readonly method: string;
  readonly params: readonly unknown[];
  /** Only on a connection that no call has used before. */
  readonly fresh: boolean;
}

interface HttpAnswer {
  readonly status: number;
  readonly text: string;
}

/** A call's own limit, or its caller, has ended it. */
const GIVEN_UP = new Error("given up");

class HttpRpc implements Rpc {
  readonly host: string;
  readonly #endpoint: Endpoint;
  /** Raw `name, value` pairs. */
  readonly #headers: readonly string[];
  readonly #pool: H1Pool;
  readonly #maxBytes: number;
  readonly #timeoutMs: number;
  readonly #observer: RpcObserver | undefined;
  #lastId = 0;

  constructor(endpoint: Endpoint, options: RpcOptions) {
    this.host = endpoint.host;
    this.#endpoint = endpoint;
    this.#timeoutMs = options.timeoutMs ?? RPC_TIMEOUT_MS;
    this.#observer = options.observer;
    this.#maxBytes = options.maxAnswerBytes ?? MAX_RPC_ANSWER_BYTES;
    const { authorization } = endpoint;
    this.#headers = [
      "content-type",
      "application/json",
      "accept",
      "application/json",
      // Some pack what nobody has asked for.
      "accept-encoding",
      "identity",
      ...(authorization === undefined ? [] : ["authorization", authorization]),
    ];
    // One deadline is kept in #send, over everything, and no other comes before it.
    const atMostMs = 2 * this.#timeoutMs;
    this.#pool = new H1Pool({
      origin: endpoint.origin,
      connections: options.maxConnections ?? MAX_RPC_CONNECTIONS,
      connectTimeoutMs: atMostMs,
      responseTimeoutMs: atMostMs,
      idleTimeoutMs: atMostMs,
      pauseTimeoutMs: atMostMs,
      queueTimeoutMs: atMostMs,
      keepAliveMs: KEEP_ALIVE_MS,
      headLimitBytes: MAX_HEAD_BYTES,
      queue: MAX_WAITING_CALLS,
    });
  }

  async call(method: string, params: readonly unknown[], signal: AbortSignal): Promise<unknown> {
    try {
      return await this.#attempt({ method, params, fresh: false }, signal);
    } catch (error) {
      // A kept-alive connection that the node had closed meanwhile: every method used here may be
      // repeated, signed transactions included (same bytes, same hash). What closes one closes them all, so
      // the second time none of them is used.
      if (!isBrokenConnection(error) || signal.aborted) throw error;
      return await this.#attempt({ method, params, fresh: true }, signal);
    }
  }

  async close(): Promise<void> {
    await this.#pool.close();
  }

  #attempt(call: Call, signal: AbortSignal): Promise<unknown> {
    const attributes = {
      "rpc.system.name": "jsonrpc",
      "rpc.method": call.method,
      "server.address": this.host,
    };
    return inSpan(call.method, { kind: "client", attributes }, () => {
      return this.#attemptOnce(call, signal);
    });
  }

  async #attemptOnce(call: Call, signal: AbortSignal) {
    const { method } = call;
    const startedMs = performance.now();
    let outcome: RpcOutcome = "unreachable";
    try {
      const id = (this.#lastId += 1);
      const answer = await this.#send(call, id, signal);
      const result = this.#read(method, answer, id);
      outcome = "ok";
      return result;
    } catch (error) {
      outcome = outcomeOf(error);
      throw error;
    } finally {
      this.#observer?.(method, performance.now() - startedMs, outcome);
    }
  }

  async #send(
    { method, params, fresh }: Call,
    id: number,
    signal: AbortSignal,
  ): Promise<HttpAnswer> {
    const where = `${method} at ${this.host}`;
    if (signal.aborted) throw new ChainError("CHAIN_TIMEOUT", `${where}: ${endOf(signal)}`);
    const abort = new AbortController();
    const abandon = () => abort.abort(GIVEN_UP);
    const timer = setTimeout(abandon, this.#timeoutMs);
    signal.addEventListener("abort", abandon, { once: true });
    try {
      // The node, or what stands before it, hears which trace it is asked for.
      const trace = currentContext()?.trace ?? null;
      const traceLines = trace === null ? [] : ["traceparent", formatTraceParent(trace)];
      return await ask(
        this.#pool,
        {
          method: "POST",
          path: this.#endpoint.path,
          headers: [...this.#headers, ...traceLines],
          body: JSON.stringify({ jsonrpc: "2.0", id, method, params }),
          fresh,
        },
        { signal: abort.signal, maxBytes: this.#maxBytes },
      );
    } catch (cause) {
      if (signal.aborted) throw new ChainError("CHAIN_TIMEOUT", `${where}: ${endOf(signal)}`);
      if (abort.signal.aborted) {
        throw new ChainError("CHAIN_TIMEOUT", `${where}: no answer in ${this.#timeoutMs} ms`);
      }
      if (cause instanceof AnswerTooLarge) throw new RpcAnswerTooLarge(where, { cause });
      const root = rootOf(cause);
      throw new ChainError("CHAIN_UNREACHABLE", `${where}: ${codeOf(root)}`, { cause: root });
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", abandon);
    }
  }

  /** The result, strictly: our id, and exactly one of `result` and `error`. */
  #read(method: string, { status, text }: HttpAnswer, id: number): unknown {
    const where = `${method} at ${this.host}`;
    const body = parseJson(text);
    // Nodes answer errors with any HTTP status.
    if (isRecord(body) && isRecord(body["error"])) throw this.#refusal(where, body["error"]);
    if (status < 200 || status > 299) {
      const hint = status >= 300 && status < 400 ? "; redirects are not followed" : "";
      throw new ChainError("CHAIN_ANSWER", `${where}: HTTP status ${status}${hint}`);
    }
    if (!isRecord(body) || body["jsonrpc"] !== "2.0" || body["id"] !== id || !("result" in body)) {
      throw new ChainError("CHAIN_ANSWER", `${where}: the answer is not JSON-RPC 2.0`);
    }
    return body["result"];
  }

  #refusal(where: string, { code, message, data }: Record<string, unknown>): RpcRefusal {
    let text = typeof message === "string" ? message : "an error without a message";
    // A node may repeat our key in its message.
    for (const secret of this.#endpoint.secrets) text = text.replaceAll(secret, "…");
    return new RpcRefusal(where, {
      code: typeof code === "number" ? code : 0,
      message: text.slice(0, MAX_NODE_MESSAGE),
      data,
    });
  }
}

function parseEndpoint(text: string): Endpoint {
  if (!URL.canParse(text)) throw new TypeError("an RPC endpoint must be an absolute URL");
  const url = new URL(text);
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    throw new TypeError(`an RPC endpoint must be http or https, not ${url.protocol}`);
  }
  const user = decodeURIComponent(url.username);
  const password = decodeURIComponent(url.password);
  const credentials = user === "" && password === "" ? undefined : `${user}:${password}`;
  const segments = url.pathname.split("/").filter((part) => part.length >= MIN_KEY_CHARACTERS);
  const secrets = [user, password, url.search.slice(1), ...url.searchParams.values(), ...segments];
  return {
    origin: url.origin,
    path: `${url.pathname}${url.search}`,
    host: url.host,
    authorization: credentials && `Basic ${Buffer.from(credentials).toString("base64")}`,
    secrets: secrets.filter((secret) => secret !== ""),
  };
}

/** Why a caller waits no longer: its time is up, or whoever asked has left. */
function endOf({ reason }: AbortSignal): string {
  const isLate = reason instanceof Error && reason.name === "TimeoutError";
  return isLate ? "no answer in the time that there was for it" : "abandoned by its caller";
}

/** What it came of: an error of the system, where there was one. */
function rootOf(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const inner: unknown = error instanceof AggregateError ? error.errors[0] : error.cause;
  return inner instanceof Error ? rootOf(inner) : error;
}

/** A code of the system's, or of our client's: neither repeats the URL. */
function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error && typeof error.code === "string"
    ? error.code
    : "the request failed";
}

/** The connection broke after it had been made, be it in its handshake; a refused or impossible one is not repeated. */
function isBrokenConnection(error: unknown): boolean {
  if (!(error instanceof ChainError) || error.code !== "CHAIN_UNREACHABLE") return false;
  return ["broken", "ECONNRESET", "EPIPE"].includes(codeOf(error.cause));
}

function outcomeOf(error: unknown): RpcOutcome {
  if (error instanceof RpcRefusal) return "refused";
  if (!(error instanceof ChainError)) return "malformed";
  if (error.code === "CHAIN_TIMEOUT") return "timeout";
  return error.code === "CHAIN_UNREACHABLE" ? "unreachable" : "malformed";
}

/** Of an `AggregateError` of several endpoints: the first one's own error, but rather a node's refusal than no answer: it says more. */
export function firstReason(cause: unknown): unknown {
  if (!(cause instanceof AggregateError)) return cause;
  const errors: readonly unknown[] = cause.errors;
  return errors.find((error) => error instanceof RpcRefusal) ?? errors[0];
}
