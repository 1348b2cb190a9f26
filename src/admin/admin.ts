/**
 * The operator's listener: `/metrics`, `/livez`, `/readyz`. It is never on the public port. Alive means
 * that the event loop turns; ready means that this process would take and settle a payment now.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { CONTENT_TYPES, expose, formatFor } from "../telemetry/exposition.ts";
import type { MetricsSnapshot } from "../telemetry/metric-registry.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";

/** Why a process is not ready, in sentences; empty when it is. */
export type ReadinessCheck = () => Promise<readonly string[]>;

export interface AdminOptions {
  readonly telemetry: Telemetry;
  readonly readiness: ReadinessCheck;
  /** All metrics; default: those of this process. */
  readonly metrics?: () => Promise<MetricsSnapshot>;
}

/** A request listener for a `node:http` server. */
export function createAdminHandler({ telemetry, readiness, ...options }: AdminOptions) {
  const { registry } = telemetry.metrics;
  const metrics = options.metrics ?? (() => registry.snapshot());
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const path = (request.url ?? "").split("?", 1)[0];
    if (request.method !== "GET" && request.method !== "HEAD") {
      response.setHeader("Allow", "GET, HEAD");
      return send(response, 405, "use GET\n");
    }
    switch (path) {
      case "/metrics": {
        const format = formatFor(request.headers.accept);
        response.setHeader("Content-Type", CONTENT_TYPES[format]);
        response.setHeader("Vary", "Accept");
        return send(response, 200, expose(await metrics(), format));
      }
      case "/livez":
        return send(response, 200, "alive\n");
      case "/readyz": {
        const reasons = await readiness();
        if (reasons.length === 0) return send(response, 200, "ready\n");
        return send(response, 503, `not ready\n${reasons.map((text) => `- ${text}\n`).join("")}`);
      }
      default:
        return send(response, 404, "try /metrics, /livez or /readyz\n");
    }
  };
  return (request: IncomingMessage, response: ServerResponse): void => {
    answer(request, response).catch((cause: unknown) => {
      telemetry.logger.error({ err: cause }, "the admin listener failed");
      if (!response.headersSent) send(response, 500, "internal error\n");
    });
  };
}

function send(response: ServerResponse, status: number, body: string): void {
  if (!response.hasHeader("Content-Type")) {
    response.setHeader("Content-Type", "text/plain; charset=utf-8");
  }
  response.setHeader("Cache-Control", "no-store");
  // Once: all metrics are millions of characters.
  const bytes = Buffer.from(body);
  response.writeHead(status, { "Content-Length": bytes.length });
  response.end(bytes);
}
