/** Those in this process who wait for something that has a name, until it is woken. */

export class Waiters {
  readonly #most: number;
  readonly #waiting = new Map<string, Set<() => void>>();
  #count = 0;

  /** Holds at most that many waits. */
  constructor(most: number) {
    this.#most = most;
  }

  get isFull(): boolean {
    return this.#count >= this.#most;
  }

  /** Whether anybody waits for that name. */
  has(name: string): boolean {
    return this.#waiting.has(name);
  }

  /** Resolves at the next wake of that name, or when the signal ends. Never rejects. */
  async wait(name: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const wake = (): void => resolve();
    const waiting = this.#waiting.get(name) ?? new Set();
    this.#waiting.set(name, waiting.add(wake));
    this.#count += 1;
    signal.addEventListener("abort", wake, { once: true });
    await promise;
    signal.removeEventListener("abort", wake);
    this.#count -= 1;
    waiting.delete(wake);
    if (waiting.size === 0 && this.#waiting.get(name) === waiting) this.#waiting.delete(name);
  }

  wake(name: string): void {
    for (const wake of this.#waiting.get(name) ?? []) wake();
  }

  wakeAll(): void {
    for (const name of this.#waiting.keys()) this.wake(name);
  }
}
