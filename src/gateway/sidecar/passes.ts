/**
 * Paid requests that a proxy was told to let pass, and of which it will report how its backend answered. One of
 * which no report comes in time counts as served: the proxy let it pass, and whoever asks again would have it twice.
 */
import { randomBytes } from "node:crypto";

const ID_BYTES = 16;
/** What a request counts as that nobody reports about. */
const SERVED = 200;

interface Open {
  readonly end: (status: number) => void;
  readonly timer: NodeJS.Timeout;
}

export class Passes {
  readonly #open = new Map<string, Open>();
  readonly #withinMs: number;
  readonly #onUnreported: () => void;

  /** @param onUnreported called for each pass of which no report has come in time */
  constructor(withinMs: number, onUnreported: () => void) {
    this.#withinMs = withinMs;
    this.#onUnreported = onUnreported;
  }

  /** `status`: what the client got, as reported, or as assumed. */
  open(): { readonly id: string; readonly status: Promise<number> } {
    const id = randomBytes(ID_BYTES).toString("hex");
    const { promise: status, resolve } = Promise.withResolvers<number>();
    const timer = setTimeout(() => {
      this.#onUnreported();
      this.report(id, SERVED);
    }, this.#withinMs);
    this.#open.set(id, { end: resolve, timer });
    return { id, status };
  }

  /** False where no pass of that name is open: it was reported before, or too late. */
  report(id: string, status: number): boolean {
    const pass = this.#open.get(id);
    if (pass === undefined) return false;
    this.#open.delete(id);
    clearTimeout(pass.timer);
    pass.end(status);
    return true;
  }

  /** No report can come any more. */
  close(): void {
    for (const id of this.#open.keys()) this.report(id, SERVED);
  }
}
