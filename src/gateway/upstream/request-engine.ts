/** Requests to one target: who is let in, how many run, and what their fate says of the target's health. */
import type { Unanswered } from "../../http/unanswered.ts";
import { Forwarding } from "./forwarding.ts";
import type { InboundRequest } from "../message/inbound.ts";
import { tooLarge } from "./unanswered.ts";
import type { UpstreamClient } from "./upstream-client.ts";
import type { UpstreamHealth } from "./upstream-health.ts";
import type { Delivery, UpstreamExchange, UpstreamOptions } from "./upstream.ts";

export class RequestEngine {
  readonly #options: UpstreamOptions;
  readonly #client: UpstreamClient;
  readonly #health: UpstreamHealth;
  #active = 0;

  constructor(options: UpstreamOptions, client: UpstreamClient, health: UpstreamHealth) {
    this.#options = options;
    this.#client = client;
    this.#health = health;
  }

  /** Exchanges that run. */
  get active(): number {
    return this.#active;
  }

  /** What {@link forward} would refuse without asking the backend. */
  refusal({ headers }: InboundRequest): Unanswered | null {
    const { connections, origin, bodyLimitBytes } = this.#options;
    if (Number(headers["content-length"] ?? 0) > bodyLimitBytes) {
      return tooLarge(bodyLimitBytes, false);
    }
    if (this.#active < connections) return null;
    return {
      kind: "unanswered",
      status: 503,
      reason: "saturated",
      detail: `All ${connections} connections to ${origin} are busy.`,
      sent: false,
      retriable: true,
    };
  }

  /** Never rejects. */
  async forward(exchange: UpstreamExchange): Promise<Delivery> {
    const refusal = this.refusal(exchange.request);
    if (refusal !== null) return refusal;
    this.#active += 1;
    const delivery = await new Promise<Delivery>((resolve) => {
      new Forwarding(exchange, this.#client, this.#options, resolve).start();
    });
    this.#active -= 1;
    if (delivery.kind === "delivered") this.#health.succeeded();
    return delivery;
  }

  close(signal: AbortSignal): Promise<void> {
    return this.#client.close(signal);
  }
}
