/** What others were told of, and what they are still to be told. */
import { Counter, Gauge } from "prom-client";
import type { MetricRegistry } from "./metric-registry.ts";

/** How an attempt ended: `given-up`, it was the last one. */
const RESULTS = ["delivered", "failed", "given-up"] as const;

interface Waiting {
  readonly recipient: string;
  readonly waiting: number;
  readonly failed: number;
  /** Milliseconds since the epoch; null: none waits. */
  readonly oldestMs: number | null;
}

export class WebhookMeter {
  readonly #attempts: Counter;
  readonly #dropped: Counter;
  readonly #waiting: Gauge;
  readonly #failed: Gauge;
  readonly #age: Gauge;

  constructor(registry: MetricRegistry) {
    const registers = [registry];
    const labelNames = ["receiver"];
    this.#attempts = new Counter({
      name: "coinslot_webhook_attempts_total",
      help: "Webhooks that were sent, by receiver and result (delivered, failed, given-up: not tried any more)",
      labelNames: ["receiver", "result"],
      registers,
    });
    this.#dropped = new Counter({
      name: "coinslot_webhooks_dropped_total",
      help: "Webhooks that went unsent since they were too old or too many",
      registers,
    });
    this.#waiting = new Gauge({
      name: "coinslot_webhooks_waiting",
      help: "Webhooks that are to be sent, by receiver",
      labelNames,
      registers,
    });
    this.#failed = new Gauge({
      name: "coinslot_webhooks_failed",
      help: "Webhooks that were given up and can be replayed, by receiver",
      labelNames,
      registers,
    });
    this.#age = new Gauge({
      name: "coinslot_webhook_oldest_seconds",
      help: "How long the oldest webhook waits that is to be sent, by receiver; 0: none waits",
      labelNames,
      registers,
    });
  }

  /** There from the beginning: a counter that begins at 1 looks to an alert like one that did not change. */
  begin(receiver: string): void {
    for (const result of RESULTS) this.#attempts.inc({ receiver, result }, 0);
  }

  /** Nobody of that name is told anything any more: an alert about it ends. */
  end(receiver: string): void {
    for (const result of RESULTS) this.#attempts.remove({ receiver, result });
    for (const gauge of [this.#waiting, this.#failed, this.#age]) gauge.remove({ receiver });
  }

  attempt(receiver: string, result: (typeof RESULTS)[number]): void {
    this.#attempts.inc({ receiver, result });
  }

  dropped(count: number): void {
    this.#dropped.inc(count);
  }

  /** @param receivers those that there are, also where nothing waits for them; of others nothing is told */
  waiting(counts: readonly Waiting[], receivers: readonly string[], nowMs: number): void {
    for (const gauge of [this.#waiting, this.#failed, this.#age]) {
      gauge.reset();
      for (const receiver of receivers) gauge.set({ receiver }, 0);
    }
    const known = counts.filter(({ recipient }) => receivers.includes(recipient));
    for (const { recipient: receiver, waiting, failed, oldestMs } of known) {
      this.#waiting.set({ receiver }, waiting);
      this.#failed.set({ receiver }, failed);
      this.#age.set({ receiver }, oldestMs === null ? 0 : Math.max(0, nowMs - oldestMs) / 1000);
    }
  }
}
