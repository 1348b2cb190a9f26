/**
 * A request as it leaves for the backend: its lines, and its body as far as it has been read. What of the body
 * is not lost when an attempt fails is there for the next one.
 */
import { addMissing, requestLines, requestTrailerLines } from "../message/field-lines.ts";
import type { H1Request } from "../../http1/exchange.ts";
import { keepBody, keptBody } from "../message/inbound.ts";
import { RequestBody, hashBody, readWholeBody, wholeBodyLimit } from "../message/request-body.ts";
import type { UpstreamExchange } from "./upstream.ts";

/** Methods that may be sent once more when the connection died (RFC 9110 section 9.2.1). */
const SAFE = new Set(["GET", "HEAD", "OPTIONS"]);
/** A backend that ignores the body of such a request takes it for its next one. */
const BODY_IS_ODD = new Set(["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"]);

export class OutgoingRequest {
  readonly #exchange: UpstreamExchange;
  readonly #limit: number;
  readonly #lines: string[];
  readonly #isChunked: boolean;
  /** Bytes of the body as far as they are known. */
  readonly length: number;
  /** Undefined while it is being read. */
  #body: Buffer | RequestBody | null | undefined;

  /** @param limit bytes of a body at most; a larger one whose {@link length} is known is the caller's affair. */
  constructor(exchange: UpstreamExchange, limit: number) {
    const { sale } = exchange;
    const { lines, contentLength, chunked } = requestLines(exchange);
    if (sale !== null) addMissing(lines, ["Idempotency-Key", sale.idempotencyKey]);
    this.#exchange = exchange;
    this.#limit = limit;
    this.#lines = lines;
    this.#isChunked = chunked;
    this.length = contentLength ?? 0;
  }

  /** Calls back once with what is to be sent, or never when the client leaves before a small body is there. */
  prepare(ready: (outgoing: H1Request) => void): void {
    const { request, begin } = this.#exchange;
    const hasBody = this.#isChunked || this.length > 0;
    const known = hasBody ? keptBody(request) : undefined;
    if (known === undefined) begin?.();
    if (!hasBody || (known !== undefined && known !== null)) {
      this.#ready(known ?? null, ready);
    } else if (this.#isChunked || this.length > wholeBodyLimit) {
      this.#ready(new RequestBody(request, this.#limit, this.#exchange.sale !== null), ready);
    } else {
      readWholeBody(request, this.length, (body) => this.#ready(body, ready));
    }
  }

  /** The backend was sent all of the body, or can be. */
  get isWhole(): boolean {
    const body = this.#body;
    return body !== undefined && !(body instanceof RequestBody && !body.isWhole);
  }

  /** Hex SHA-256 of the body; null until all of it has been read. For sales only. */
  bodyHash(): string | null {
    const body = this.#body;
    if (body === undefined) return null;
    return body instanceof RequestBody ? body.hash : hashBody(body);
  }

  /** The request is over here. True: nothing of its body is lost, and it can be sent again. */
  release(): boolean {
    const body = this.#body;
    if (body === undefined || (body instanceof RequestBody && !body.giveBack())) return false;
    if (body !== null) keepBody(this.#exchange.request, body instanceof RequestBody ? null : body);
    return true;
  }

  #ready(body: Buffer | RequestBody | null, ready: (outgoing: H1Request) => void): void {
    this.#body = body;
    const { request, target, host, sale } = this.#exchange;
    const { method = "GET" } = request;
    ready({
      path: target,
      method,
      headers: this.#lines,
      host: host ?? null,
      body,
      // A sale counts what it asks of the backend: never twice, and on no connection that may die of being
      // reused.
      fresh: sale !== null,
      idempotent: sale === null && SAFE.has(method),
      reset: body !== null && BODY_IS_ODD.has(method),
      ...(this.#mayHaveTrailers
        ? { trailers: () => requestTrailerLines(request.rawTrailers, this.#exchange) }
        : {}),
    });
  }

  /** HTTP/1.1 has them behind chunks only; HTTP/2 behind any body. */
  get #mayHaveTrailers(): boolean {
    return this.#isChunked || (this.length > 0 && this.#exchange.request.httpVersionMajor === 2);
  }
}
