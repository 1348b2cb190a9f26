/** Two ends of a connection in one process: what crosses is copied as between processes. */
import type { Port } from "../../../src/workers/port.ts";

class End implements Port {
  other: End | undefined;
  /** Messages that crossed from here. */
  sent = 0;
  readonly #messages: ((message: unknown, handle: unknown) => void)[] = [];
  readonly #closes: (() => void)[] = [];
  #isClosed = false;

  send(message: object, handle?: unknown, onSent?: () => void): void {
    const copy: unknown = structuredClone(message);
    this.sent += 1;
    setImmediate(() => {
      if (!this.#isClosed) this.other?.hear(copy, handle);
      onSent?.();
    });
  }

  hear(message: unknown, handle: unknown): void {
    if (this.#isClosed) return;
    for (const listener of this.#messages) listener(message, handle);
  }

  onMessage(listener: (message: unknown, handle: unknown) => void): void {
    this.#messages.push(listener);
  }

  onClose(listener: () => void): void {
    this.#closes.push(listener);
  }

  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    setImmediate(() => {
      for (const listener of this.#closes) listener();
      this.other?.close();
    });
  }
}

export function portPair(): readonly [End, End] {
  const [left, right] = [new End(), new End()];
  left.other = right;
  right.other = left;
  return [left, right];
}
