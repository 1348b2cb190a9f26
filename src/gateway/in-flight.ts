/** How many requests are being worked on, and when the last of them has ended. */
export class InFlight {
  #count = 0;
  #idle: PromiseWithResolvers<void> | null = null;

  get count(): number {
    return this.#count;
  }

  enter(): void {
    this.#count += 1;
  }

  leave(): void {
    this.#count -= 1;
    if (this.#count > 0) return;
    this.#idle?.resolve();
    this.#idle = null;
  }

  /** Resolves when there are none, at once where there are none now. */
  ended(): Promise<void> {
    if (this.#count === 0) return Promise.resolve();
    this.#idle ??= Promise.withResolvers();
    return this.#idle.promise;
  }
}
