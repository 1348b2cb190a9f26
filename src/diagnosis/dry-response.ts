/** An answer that nobody is sent: it keeps what the gateway writes. */
import type { InboundResponse } from "../gateway/message/inbound.ts";

export interface DryAnswer {
  readonly status: number;
  /** Raw `name, value` pairs. */
  readonly lines: readonly string[];
  /** As a GET would get it: to HEAD only the head is sent. */
  readonly body: string;
}

export class DryResponse implements InboundResponse {
  readonly destroyed = false;
  readonly writableLength = 0;
  #status = 0;
  #lines: readonly string[] = [];
  #body = "";
  #isEnded = false;

  /** Null where the gateway wrote nothing. */
  get answer(): DryAnswer | null {
    if (!this.headersSent) return null;
    return { status: this.#status, lines: this.#lines, body: this.#body };
  }

  get headersSent(): boolean {
    return this.#status !== 0;
  }

  get writableEnded(): boolean {
    return this.#isEnded;
  }

  get writableFinished(): boolean {
    return this.#isEnded;
  }

  writeHead(status: number, second: string | string[], third: string[] = []): void {
    this.#status = status;
    this.#lines = typeof second === "string" ? third : second;
  }

  end(chunk: Uint8Array | string = "", _encoding?: BufferEncoding): void {
    this.#body += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString("utf8");
    this.#isEnded = true;
  }

  write(chunk: Uint8Array): boolean {
    this.#body += Buffer.from(chunk).toString("utf8");
    return true;
  }

  writeContinue(): void {}
  flushHeaders(): void {}
  addTrailers(): void {}
  destroy(): void {}
  on(): void {}
  once(): void {}
  off(): void {}
}
