/** A receiver of webhooks as its owner would write one: by the library, which says whether a message is ours. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { systemTime, type Time } from "../../../src/time/time.ts";

export const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

export interface Received {
  readonly id: string;
  readonly type: string;
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** What it was answered. */
  readonly status: number;
  readonly request: IncomingMessage;
}

export interface WebhookReceiver extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  /** In the order in which they came. */
  readonly received: readonly Received[];
}

type Answer = (message: Received, response: ServerResponse) => number | undefined;

/** @param answer the status; undefined: it has answered by itself, or never does */
export async function startWebhookReceiver(
  answer: Answer = () => 204,
  { secret = SECRET, port = 0 } = {},
): Promise<WebhookReceiver> {
  const received: Received[] = [];
  const webhook = new Webhook(secret);
  const server = createServer((request, response) => {
    void (async () => {
      const body = await text(request);
      // Throws where the signature is not ours, or was made long ago: then there is no answer at all.
      const payload: unknown = webhook.verify(body, headersOf(request));
      const { type, timestamp, data } = Object(payload);
      const id = String(request.headers["webhook-id"]);
      const message = { id, type, timestamp, data, status: 0, request };
      const status = answer(message, response);
      received.push({ ...message, status: status ?? 0 });
      if (status !== undefined) response.writeHead(status).end();
    })().catch(() => request.socket.destroy());
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("it has no port");
  return {
    url: `http://127.0.0.1:${address.port}/hooks`,
    port: address.port,
    received,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

function headersOf({ headers }: IncomingMessage): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]));
}

/** Pauses are over at once; what is due is by a clock that a test sets forward. */
export class QuickTime implements Time {
  offsetMs = 0;
  /** Longest that anything may take, milliseconds. */
  attemptMs = Infinity;

  now(): number {
    return systemTime.now() + this.offsetMs;
  }

  sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return systemTime.sleep(Math.min(ms, 3), signal);
  }

  timeout(ms: number): AbortSignal {
    return systemTime.timeout(Math.min(ms, this.attemptMs));
  }
}
