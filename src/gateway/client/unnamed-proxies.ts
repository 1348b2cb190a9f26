/** Proxies that the configuration does not name: what they say of their clients is not read, and somebody should know. */
import type { Logger } from "../../telemetry/logger.ts";
import type { InboundRequest } from "../message/inbound.ts";
import { peerAddress } from "./client.ts";
import type { TrustedProxies } from "./trusted-proxies.ts";

/** Pause before it is said again, milliseconds: any client may write such a line. */
const SAY_PAUSE_MS = 3_600_000;

export class UnnamedProxies {
  readonly #logger: Pick<Logger, "warn">;
  #saidAt = Number.NEGATIVE_INFINITY;

  constructor(logger: Pick<Logger, "warn">) {
    this.#logger = logger;
  }

  /** Says so where the peer of that request tells of a client and is not trusted. */
  see({ headers, socket }: InboundRequest, trusted: TrustedProxies): void {
    if (headers["x-forwarded-for"] === undefined) return;
    const peer = peerAddress(socket.remoteAddress);
    const now = performance.now();
    if (trusted.has(peer) || now - this.#saidAt < SAY_PAUSE_MS) return;
    this.#saidAt = now;
    const message =
      "a peer that trustedProxies does not name sends X-Forwarded-For: if it is a proxy of yours, all its clients are one";
    this.#logger.warn({ peer }, message);
  }
}
