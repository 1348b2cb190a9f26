/**
 * HTTP/1.1 to the backend through undici's `Pool.dispatch`: raw header arrays both ways, no stream objects
 * on the way back, and one write for an answer that arrives whole.
 *
 * Undici's own traps, and what is done here: it closes the connection after every HEAD unless `reset` is
 * false; its body timeout does not run while a response is paused, so the client's socket gets a timeout
 * for as long as it is; it refuses hop-by-hop headers and adds Host itself (`field-lines.ts`).
 */
import type { IncomingMessage } from "node:http";
import { Pool } from "undici";
import { Forwarding, type Connections } from "./forwarding.ts";
import { tooLarge } from "./unanswered.ts";
import type { UpstreamHealth } from "./upstream-health.ts";
import type { Delivery, Exchange, Unanswered, UpstreamOptions } from "./upstream.ts";

/** An idle connection is given up this long before the backend's `Keep-Alive: timeout=` says. */
const keepAliveMarginMs = 1_000;

export class UndiciEngine {
  readonly #connections: Connections & { readonly kept: Pool; readonly fresh: Pool };
  readonly #health: UpstreamHealth;
  #active = 0;

  constructor(options: UpstreamOptions, health: UpstreamHealth) {
    this.#health = health;
    const poolOptions: Pool.Options = {
      allowH2: false,
      pipelining: 1,
      connections: options.connections,
      connect: { timeout: options.connectTimeoutMs },
      headersTimeout: options.responseTimeoutMs,
      bodyTimeout: options.idleTimeoutMs,
      keepAliveTimeout: options.keepAliveMs,
      keepAliveMaxTimeout: options.keepAliveMs,
      keepAliveTimeoutThreshold: keepAliveMarginMs,
      maxHeaderSize: options.headLimitBytes,
    };
    this.#connections = {
      options,
      kept: new Pool(options.origin, poolOptions),
      fresh: new Pool(options.origin, { ...poolOptions, pipelining: 0 }),
    };
    for (const pool of [this.#connections.kept, this.#connections.fresh]) {
      pool.on("connect", () => health.succeeded());
      pool.on("connectionError", () => health.failed());
    }
  }

  /** What {@link forward} would refuse without asking the backend. */
  refusal({ headers }: IncomingMessage): Unanswered | null {
    const { connections, origin, bodyLimitBytes } = this.#connections.options;
    if (Number(headers["content-length"] ?? 0) > bodyLimitBytes) {
      return tooLarge(bodyLimitBytes, false);
    }
    if (this.#active < connections) return null;
    const detail = `All ${connections} connections to ${origin} are busy.`;
    return { kind: "unanswered", status: 503, reason: "saturated", detail, sent: false };
  }

  /** Never rejects. */
  async forward(exchange: Exchange): Promise<Delivery> {
    const refusal = this.refusal(exchange.request);
    if (refusal !== null) return refusal;
    this.#active += 1;
    const delivery = await new Promise<Delivery>((resolve) => {
      new Forwarding(exchange, this.#connections, resolve).start();
    });
    this.#active -= 1;
    if (delivery.kind === "delivered") this.#health.succeeded();
    return delivery;
  }

  /** Lets requests finish until `signal` aborts; then they break. */
  async close(signal: AbortSignal): Promise<void> {
    const { kept, fresh } = this.#connections;
    await Promise.all([closePool(kept, signal), closePool(fresh, signal)]);
  }
}

async function closePool(pool: Pool, signal: AbortSignal): Promise<void> {
  const destroy = (): void => void pool.destroy();
  signal.addEventListener("abort", destroy, { once: true });
  if (signal.aborted) destroy();
  if (!pool.destroyed) await pool.close();
  signal.removeEventListener("abort", destroy);
}
