/**
 * What an exchange needs of the client that speaks to the backend, be it ours (`http1/`) or undici's: one call
 * for a request, and a handler that is told what comes of it.
 */
import type { H1Controller, H1Request } from "../../http1/exchange.ts";

/** What the handler holds while its exchange runs. */
export type ClientController = Pick<H1Controller, "abort" | "paused" | "pause" | "resume">;

/** As `H1Handler`, which says when each is called. */
export interface ClientHandler {
  /** Once more, with another controller, where the client sends the request a second time. */
  onRequestStart(controller: ClientController): void;
  /** An interim answer, before the final one; `lines`: raw `name, value` pairs. */
  onInterim?(status: number, lines: readonly string[]): void;
  onResponseStart(
    controller: ClientController,
    status: number,
    lines: readonly string[],
    statusText: string,
  ): void;
  onResponseData(controller: ClientController, chunk: Buffer): void;
  onResponseEnd(controller: ClientController, trailers: readonly string[]): void;
  /** `error`: one that `unanswered.ts` can read. */
  onResponseError(controller: unknown, error: Error): void;
}

export interface UpstreamClient {
  /** Never throws. */
  dispatch(request: H1Request, handler: ClientHandler): void;
  /** Takes nothing new and lets what runs finish, until `signal` aborts: then it is cut. */
  close(signal: AbortSignal): Promise<void>;
}

/** What the client tells of its connections. */
export interface ConnectionEvents {
  onConnected(): void;
  onConnectFailed(): void;
}
