/**
 * To the backend through undici's `Pool.dispatch`: HTTP/2 where an `https` target offers it, else HTTP/1.1.
 *
 * Undici's own traps, and what is done here: it closes the connection after every HEAD unless `reset` is
 * false; its body timeout does not run while a response is paused (`forwarding.ts` has one that does); it
 * takes the TLS server name from the Host line; over HTTP/2 a name in two spellings ends the connection with
 * all that runs on it, and an answer whose stream the backend cancels half way looks complete; and it has no trailers
 * for requests ({@link OpenedStream} has both, over HTTP/2; over HTTP/1.1 those of a client end here).
 */
import { STATUS_CODES } from "node:http";
import { isIP } from "node:net";
import { buildConnector, Pool, type Dispatcher } from "undici";
import type { H1Request } from "../../http1/exchange.ts";
import { awaitStream, OpenedStream } from "./opened-stream.ts";
import { diedOfReuse } from "./unanswered.ts";
import type { ClientHandler, ConnectionEvents, UpstreamClient } from "./upstream-client.ts";
import type { TargetOptions } from "./upstream.ts";

/** An idle connection is given up this long before the backend's `Keep-Alive: timeout=` says. */
const KEEP_ALIVE_MARGIN_MS = 1_000;
/** The same for all requests, or undici would open a connection for each name; see {@link connectorTo}. */
const ANY_SERVER_NAME = "target";

interface Pools {
  /** Keeps its connections for the next request. */
  readonly kept: Pool;
  /**
   * Opens an HTTP/1.1 connection for each request: for what must not be asked twice; and where a kept one
   * died of being reused, the others may be as old. HTTP/2 connections are shared here, too: a backend that
   * closes one says which of the requests it has not looked at.
   */
  readonly fresh: Pool;
  /** They may speak HTTP/2, which knows header names in lower case only. */
  readonly mayBeHttp2: boolean;
}

export class UndiciClient implements UpstreamClient {
  readonly #pools: Pools;

  constructor(options: TargetOptions, events: ConnectionEvents) {
    const poolOptions: Pool.Options = {
      allowH2: options.protocol === "h2",
      pipelining: 1,
      connections: options.connections,
      connect: connectorTo(options),
      headersTimeout: options.responseTimeoutMs,
      bodyTimeout: options.idleTimeoutMs,
      keepAliveTimeout: options.keepAliveMs,
      keepAliveMaxTimeout: options.keepAliveMs,
      keepAliveTimeoutThreshold: KEEP_ALIVE_MARGIN_MS,
      maxHeaderSize: options.headLimitBytes,
    };
    const kept = new Pool(options.origin, poolOptions);
    const fresh = new Pool(options.origin, { ...poolOptions, pipelining: 0 });
    for (const pool of [kept, fresh]) {
      pool.on("connect", () => events.onConnected());
      pool.on("connectionError", () => events.onConnectFailed());
    }
    const mayBeHttp2 = options.protocol === "h2" && options.origin.startsWith("https:");
    this.#pools = { kept, fresh, mayBeHttp2 };
  }

  dispatch(request: H1Request, handler: ClientHandler): void {
    new Course(request, handler, this.#pools).send();
  }

  async close(signal: AbortSignal): Promise<void> {
    const { kept, fresh } = this.#pools;
    await Promise.all([closePool(kept, signal), closePool(fresh, signal)]);
  }
}

/** The certificate is that of the target, whatever Host says. */
export function connectorTo(options: TargetOptions): buildConnector.connector {
  const { origin, protocol, connectTimeoutMs, tls = {} } = options;
  const { ca, cert, key } = tls;
  const { hostname } = new URL(origin);
  const servername =
    tls.serverName ?? (isIP(hostname.replace(/^\[(.*)\]$/, "$1")) === 0 ? hostname : "");
  const connect = buildConnector({
    allowH2: protocol === "h2",
    preferH2: true,
    timeout: connectTimeoutMs,
    rejectUnauthorized: true,
    minVersion: "TLSv1.2",
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  });
  return (target, callback) => connect({ ...target, servername }, callback);
}

async function closePool(pool: Pool, signal: AbortSignal): Promise<void> {
  const destroy = (): void => void pool.destroy();
  signal.addEventListener("abort", destroy, { once: true });
  if (signal.aborted) destroy();
  if (!pool.destroyed) await pool.close();
  signal.removeEventListener("abort", destroy);
}

/** One request on its way through undici, perhaps twice. */
class Course implements Dispatcher.DispatchHandler {
  readonly #request: H1Request;
  readonly #handler: ClientHandler;
  readonly #pools: Pools;
  /** A byte of an answer has arrived. */
  #isBegun = false;
  #isReplayed = false;
  #opened: OpenedStream;

  constructor(request: H1Request, handler: ClientHandler, pools: Pools) {
    this.#request = request;
    this.#handler = handler;
    this.#pools = pools;
    this.#opened = new OpenedStream(request.trailers);
  }

  send(): void {
    const {
      path,
      method,
      body,
      headers,
      host = null,
      reset = false,
      fresh = false,
    } = this.#request;
    const { kept, fresh: unused, mayBeHttp2 } = this.#pools;
    const lines = mayBeHttp2
      ? headers.map((text, index) => (index % 2 === 0 ? text.toLowerCase() : text))
      : [...headers];
    if (host !== null) lines.push("host", host);
    const options = {
      path,
      method,
      headers: lines,
      body,
      reset,
      blocking: false,
      servername: ANY_SERVER_NAME,
    };
    (this.#isReplayed || fresh ? unused : kept).dispatch(options, this);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#handler.onRequestStart(controller);
    this.#opened = new OpenedStream(this.#request.trailers);
    awaitStream(this.#opened);
  }

  onResponseStarted(): void {
    this.#isBegun = true;
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    _headers: unknown,
    statusText = "",
  ): void {
    if (status < 200) {
      this.#isBegun = true;
      this.#handler.onInterim?.(status, rawLines(controller.rawHeaders));
      return;
    }
    // HTTP/2 has no phrases.
    const phrase = Array.isArray(controller.rawHeaders) ? statusText : STATUS_CODES[status];
    this.#handler.onResponseStart(
      controller,
      status,
      rawLines(controller.rawHeaders),
      phrase ?? "",
    );
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#handler.onResponseData(controller, chunk);
  }

  onResponseEnd(controller: Dispatcher.DispatchController): void {
    const { resetCode } = this.#opened;
    if (resetCode !== null) {
      const text = `The backend reset the stream of its answer with code ${resetCode}.`;
      return this.#handler.onResponseError(controller, new Error(text));
    }
    this.#handler.onResponseEnd(controller, rawLines(controller.rawTrailers));
    this.#opened.dropBody();
  }

  onResponseError(controller: unknown, error: Error): void {
    if (this.#mayReplay(error)) {
      this.#isReplayed = true;
      this.send();
    } else {
      this.#handler.onResponseError(controller, error);
    }
  }

  /**
   * The backend may close an idle connection just as it is reused. A safe request without a body that got
   * not one byte of an answer is sent once more (RFC 9110 section 9.2.2), unless the connection that died
   * is known to have been new.
   */
  #mayReplay(error: Error): boolean {
    const { body, idempotent = false } = this.#request;
    if (this.#isReplayed || this.#isBegun || body !== null || !idempotent) return false;
    return diedOfReuse(error);
  }
}

/** Of HTTP/1.1 the pairs as they came; of HTTP/2, names that came several times are together. */
function rawLines(raw: Dispatcher.DispatchController["rawHeaders"]): string[] {
  if (raw === undefined || raw === null) return [];
  if (Array.isArray(raw)) {
    return raw.map((text) => (typeof text === "string" ? text : text.toString("latin1")));
  }
  return Object.entries(raw).flatMap(([name, value = ""]) =>
    (Array.isArray(value) ? value : [value]).flatMap((each) => [name, each]),
  );
}
