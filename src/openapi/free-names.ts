/** Names that have to differ: one that is taken gets a number. */
export class FreeNames {
  readonly #taken = new Set<string>();
  /** Where to go on counting: a description may have one name any number of times. */
  readonly #next = new Map<string, number>();

  /** `wanted`, or `wanted_2` and so on; nobody gets it again. */
  take(wanted: string): string {
    let name = wanted;
    let number = this.#next.get(wanted) ?? 2;
    for (; this.#taken.has(name); number += 1) name = `${wanted}_${number}`;
    this.#next.set(wanted, number);
    this.#taken.add(name);
    return name;
  }
}
