/**
 * A handler whose answer is told on only when it is stored that it sells nothing, where that is so: a client that
 * has it may try again at once, at another process. What comes meanwhile is kept, and no more is read.
 */
import type { ClientController, ClientHandler } from "./upstream-client.ts";
import type { Sale } from "./upstream.ts";

export class RefusalFirst implements ClientHandler {
  readonly #to: ClientHandler;
  readonly #sale: Pick<Sale, "judge" | "refused">;
  /** What is told later; null: all is told at once. */
  #later: (() => void)[] | null = null;

  constructor(to: ClientHandler, sale: Pick<Sale, "judge" | "refused">) {
    this.#to = to;
    this.#sale = sale;
  }

  onRequestStart(controller: ClientController): void {
    this.#to.onRequestStart(controller);
  }

  onInterim(status: number, lines: readonly string[]): void {
    this.#to.onInterim?.(status, lines);
  }

  onResponseStart(
    controller: ClientController,
    status: number,
    lines: readonly string[],
    statusText: string,
  ): void {
    const isHeld = this.#sale.judge(status, lines) === "nothing";
    if (isHeld) this.#later = [];
    this.#tell(() => this.#to.onResponseStart(controller, status, lines, statusText));
    if (!isHeld) return;
    controller.pause();
    void this.#sale.refused().finally(() => {
      // First: whoever is told pauses anew where its client is behind.
      controller.resume();
      for (const event of this.#later ?? []) event();
      this.#later = null;
    });
  }

  onResponseData(controller: ClientController, chunk: Buffer): void {
    this.#tell(() => this.#to.onResponseData(controller, chunk));
  }

  onResponseEnd(controller: ClientController, trailers: readonly string[]): void {
    this.#tell(() => this.#to.onResponseEnd(controller, trailers));
  }

  onResponseError(controller: unknown, error: Error): void {
    this.#tell(() => this.#to.onResponseError(controller, error));
  }

  #tell(event: () => void): void {
    if (this.#later === null) event();
    else this.#later.push(event);
  }
}
