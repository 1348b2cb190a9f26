/** How many each has of something; nothing is kept of those that have none. */
export class Counts {
  readonly #counts = new Map<string, number>();
  #total = 0;

  /** What all have together. */
  get total(): number {
    return this.#total;
  }

  of(name: string): number {
    return this.#counts.get(name) ?? 0;
  }

  /**
   * Whether there is one more for it of so many: it may have as many as are free, so that one alone has half of them at
   * the most, the next one half of the rest, and so on.
   */
  hasShare(name: string, most: number): boolean {
    return this.of(name) < most - this.#total;
  }

  change(name: string, by: 1 | -1): void {
    const count = this.of(name) + by;
    this.#total += by;
    if (count > 0) this.#counts.set(name, count);
    else this.#counts.delete(name);
  }
}
