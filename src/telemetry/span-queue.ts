/**
 * Ended spans on their way to the collector: a bounded queue that is emptied in batches. A collector that is slow or
 * gone costs spans, which are counted, and nothing else.
 */
import type { ReadableSpan, SpanExporter, SpanProcessor } from "@opentelemetry/sdk-trace";
import type { SpanMeter } from "./span-meter.ts";

/** `ExportResultCode.SUCCESS`, of a package that is not ours to import. */
const EXPORTED = 0;
/** `TraceFlags.SAMPLED`. */
const SAMPLED_FLAG = 1;

export interface SpanQueueOptions {
  readonly exporter: SpanExporter;
  readonly meter: Pick<SpanMeter, "count">;
  /** Spans that wait at most; those beyond are dropped. */
  readonly maxQueued: number;
  /** Spans that are sent at once, at most. */
  readonly maxBatch: number;
  /** Longest that a span waits for others, milliseconds. */
  readonly delayMs: number;
  /** Longest that one batch may take, milliseconds; and all that is left at the end. */
  readonly timeoutMs: number;
}

export class SpanQueue implements SpanProcessor {
  readonly #options: SpanQueueOptions;
  #queued: ReadableSpan[] = [];
  #timer: NodeJS.Timeout | undefined;
  #sending: Promise<void> | undefined;
  #isClosed = false;

  constructor(options: SpanQueueOptions) {
    this.#options = options;
  }

  onStart(): void {
    // What has only begun is nobody's business yet.
  }

  onEnd(span: ReadableSpan): void {
    if ((span.spanContext().traceFlags & SAMPLED_FLAG) === 0) return;
    const { maxQueued, maxBatch, meter, delayMs } = this.#options;
    if (this.#isClosed || this.#queued.length >= maxQueued) return meter.count("dropped", 1);
    this.#queued.push(span);
    if (this.#sending !== undefined) return;
    if (this.#queued.length >= maxBatch) void this.#send();
    else this.#timer ??= setTimeout(() => void this.#send(), delayMs).unref();
  }

  /** Resolves when all that waited was sent, or given up. */
  async forceFlush(): Promise<void> {
    while (this.#queued.length > 0 || this.#sending !== undefined) await this.#send();
  }

  async shutdown(): Promise<void> {
    const { timeoutMs, exporter, meter } = this.#options;
    const late = Promise.withResolvers<void>();
    const timer = setTimeout(late.resolve, timeoutMs);
    await Promise.race([this.forceFlush(), late.promise]);
    clearTimeout(timer);
    this.#isClosed = true;
    meter.count("dropped", this.#queued.length);
    this.#queued = [];
    clearTimeout(this.#timer);
    await exporter.shutdown();
  }

  /** One batch after the other. */
  #send(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
    return this.#sending;
  }

  async #sendAll(): Promise<void> {
    const { maxBatch, meter } = this.#options;
    while (this.#queued.length > 0 && !this.#isClosed) {
      const batch = this.#queued.splice(0, maxBatch);
      const isTaken = await this.#sendBatch(batch);
      meter.count(isTaken ? "exported" : "failed", batch.length);
    }
  }

  #sendBatch(batch: ReadableSpan[]): Promise<boolean> {
    const { exporter, timeoutMs } = this.#options;
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), timeoutMs);
      timer.unref();
      exporter.export(batch, (result) => {
        clearTimeout(timer);
        const code: number = result.code;
        resolve(code === EXPORTED);
      });
    });
  }
}
