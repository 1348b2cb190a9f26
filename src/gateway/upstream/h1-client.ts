/** HTTP/1.1 to the backend through our own client (`http1/pool.ts`). */
import type { H1Request } from "../../http1/exchange.ts";
import { H1Pool } from "../../http1/pool.ts";
import type { ClientHandler, ConnectionEvents, UpstreamClient } from "./upstream-client.ts";
import type { TargetOptions, TargetTls } from "./upstream.ts";

/**
 * A handler may hold an answer so many times longer than its client may take nothing of it, so that it is the
 * handler that gives up first, and says what becomes of the exchange: what is buffered may be taken byte by byte.
 */
const PAUSE_FACTOR = 10;

export class H1Client implements UpstreamClient {
  readonly #pool: H1Pool;

  /** @throws H1Fault for an origin that is none of `http` or `https` */
  constructor(options: TargetOptions, events: ConnectionEvents) {
    this.#pool = new H1Pool({
      ...options,
      // As many exchanges run as there may be connections; one that waits takes the place of one that ends.
      queue: options.connections,
      pauseTimeoutMs: PAUSE_FACTOR * options.answerIdleMs,
      tls: tlsOptions(options.tls),
    });
    this.#pool.on("connect", () => events.onConnected());
    this.#pool.on("connectionError", () => events.onConnectFailed());
  }

  dispatch(request: H1Request, handler: ClientHandler): void {
    this.#pool.dispatch(request, handler);
  }

  async close(signal: AbortSignal): Promise<void> {
    const cut = (): void => void this.#pool.destroy();
    signal.addEventListener("abort", cut, { once: true });
    if (signal.aborted) cut();
    await this.#pool.close();
    signal.removeEventListener("abort", cut);
  }
}

function tlsOptions({ ca, serverName, cert, key }: TargetTls = {}) {
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(serverName === undefined ? {} : { servername: serverName }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
  };
}
