/** Turns offsets into lines and columns. */
export class LineIndex {
  readonly #text: string;
  readonly #starts: readonly number[];

  constructor(text: string) {
    this.#text = text;
    const starts = [0];
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", at + 1)) starts.push(at + 1);
    this.#starts = starts;
  }

  position(offset: number): { readonly line: number; readonly column: number } {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offset - (this.#starts[low] ?? 0) + 1 };
  }

  /** Characters from an offset to the end of its line. */
  rest(offset: number): number {
    const end = this.#text.slice(offset, offset + 1000).search(/\s*(?:\r?\n|$)/);
    return end < 0 ? 1000 : end;
  }
}
