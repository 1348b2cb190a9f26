/** A map that forgets what was not used for longest, so that what is remembered has a limit. */

export class LeastRecent<Value> {
  readonly #limit: number;
  readonly #onForgotten: (key: string, value: Value) => void;
  readonly #values = new Map<string, Value>();

  /** @param onForgotten told of what had to go, not of what was deleted */
  constructor(limit: number, onForgotten: (key: string, value: Value) => void = () => undefined) {
    this.#limit = limit;
    this.#onForgotten = onForgotten;
  }

  get size(): number {
    return this.#values.size;
  }

  /** Counts as a use. */
  get(key: string): Value | undefined {
    const value = this.#values.get(key);
    if (value === undefined) return undefined;
    this.#values.delete(key);
    this.#values.set(key, value);
    return value;
  }

  /** Does not count as a use. */
  peek(key: string): Value | undefined {
    return this.#values.get(key);
  }

  set(key: string, value: Value): void {
    this.#values.delete(key);
    this.#values.set(key, value);
    if (this.#values.size <= this.#limit) return;
    for (const [oldest, forgotten] of this.#values) {
      this.#values.delete(oldest);
      this.#onForgotten(oldest, forgotten);
      return;
    }
  }

  delete(key: string): void {
    this.#values.delete(key);
  }
}
