/** One receiver of webhooks: a message is signed and posted as Standard Webhooks has it. */
import { Webhook } from "standardwebhooks";
import { H1Pool } from "../http1/pool.ts";
import { ask } from "../http1/small-request.ts";
import type { OutboxMessage } from "../ledger/outbox.ts";
import type { Time } from "../time/time.ts";
import type { EventType } from "../x402/event-type.ts";
import { printable } from "../x402/printable.ts";
import { messageOf } from "../x402/result.ts";

export interface ReceiverSettings {
  readonly name: string;
  /** Absolute http(s) URL. */
  readonly url: string;
  readonly secrets: readonly { reveal(): string }[];
  readonly events: readonly EventType[];
}

/** `gone`: nothing is wanted there any more (410). */
export type Answered =
  | { readonly kind: "delivered" }
  | { readonly kind: "failed"; readonly detail: string; readonly isGone: boolean };

/** Messages that are on their way to one receiver at the same time; also its connections. */
export const SENT_AT_ONCE = 8;
/** Longest that one attempt may take, milliseconds; well below what a message is taken for. */
export const ATTEMPT_MS = 15_000;
/** How long a TCP connection may take, milliseconds. */
const CONNECT_TIMEOUT_MS = 5_000;
/** How long a connection is kept without a request, milliseconds. */
const KEEP_ALIVE_MS = 4_000;
/** Largest head and body of an answer, bytes: nothing but its status counts. */
const MAX_HEAD_BYTES = 16 * 1024;
const MAX_ANSWER_BYTES = 64 * 1024;
/** Longest reason that is kept, characters. */
const MAX_DETAIL = 200;
const GONE = 410;

/** What a message is beside its payload. */
export type Posted = Pick<OutboxMessage, "id" | "type" | "atMs" | "data">;

export class Receiver {
  readonly settings: ReceiverSettings;
  readonly #time: Time;
  readonly #pool: H1Pool;
  readonly #path: string;
  readonly #webhooks: readonly Webhook[];

  constructor(settings: ReceiverSettings, time: Time) {
    const { origin, pathname, search } = new URL(settings.url);
    this.settings = settings;
    this.#time = time;
    this.#path = pathname + search;
    this.#webhooks = settings.secrets.map((secret) => new Webhook(secret.reveal()));
    this.#pool = new H1Pool({
      origin,
      connections: SENT_AT_ONCE,
      queue: SENT_AT_ONCE,
      connectTimeoutMs: CONNECT_TIMEOUT_MS,
      responseTimeoutMs: ATTEMPT_MS,
      idleTimeoutMs: ATTEMPT_MS,
      pauseTimeoutMs: ATTEMPT_MS,
      keepAliveMs: KEEP_ALIVE_MS,
      headLimitBytes: MAX_HEAD_BYTES,
    });
  }

  /** One attempt; redirects are not followed, and what stands behind a status is of no account. Never rejects. */
  async post({ id, type, atMs, data }: Posted, closing?: AbortSignal): Promise<Answered> {
    const timestamp = new Date(atMs).toISOString();
    const body = JSON.stringify({ type, timestamp, data: JSON.parse(data) });
    const limit = this.#time.timeout(ATTEMPT_MS);
    const signal = closing === undefined ? limit : AbortSignal.any([closing, limit]);
    let status: number | undefined;
    const onStatus = (told: number): void => {
      status = told;
    };
    try {
      const headers = ["content-type", "application/json", ...this.#signed(id, body)];
      const question = { method: "POST", path: this.#path, headers, body } as const;
      await ask(this.#pool, question, { signal, maxBytes: MAX_ANSWER_BYTES, onStatus });
    } catch (cause) {
      if (status === undefined) {
        const reason = limit.aborted ? `no answer within ${ATTEMPT_MS / 1000} s` : messageOf(cause);
        return { kind: "failed", detail: printable(reason).slice(0, MAX_DETAIL), isGone: false };
      }
    }
    return answeredBy(status ?? 0);
  }

  /** Waits for what is under way. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  /** The time of the attempt: receivers take nothing that was signed long ago. */
  #signed(id: string, body: string): readonly string[] {
    const now = new Date(this.#time.now());
    const signatures = this.#webhooks.map((webhook) => webhook.sign(id, now, body));
    const seconds = String(Math.floor(now.getTime() / 1000));
    const proof = ["webhook-signature", signatures.join(" ")];
    return ["webhook-id", id, "webhook-timestamp", seconds, ...proof, "user-agent", "coinslot"];
  }
}

function answeredBy(status: number): Answered {
  if (status >= 200 && status < 300) return { kind: "delivered" };
  return { kind: "failed", detail: `it answered ${status}`, isGone: status === GONE };
}
