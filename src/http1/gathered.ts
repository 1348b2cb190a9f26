/**
 * Bytes that come in parts, as one piece. However small the parts are it holds about as much as they do: a list of them
 * would have some hundred bytes of ours for each, and whoever sends single ones decides how many there are.
 */
export class Gathered {
  readonly #expected: number;
  /** The first part as it came, or our own with room behind what is there. */
  #bytes: Buffer | undefined;
  #isOwn = false;
  #length = 0;

  /** @param expected bytes that there will be; fine where there are more or fewer */
  constructor(expected = 0) {
    this.#expected = expected;
  }

  get length(): number {
    return this.#length;
  }

  add(part: Buffer): void {
    const before = this.#bytes;
    const length = this.#length + part.length;
    if (before === undefined) this.#bytes = part;
    else if (this.#isOwn && length <= before.length) part.copy(before, this.#length);
    else {
      const bytes = Buffer.allocUnsafe(Math.max(length, this.#expected, 2 * this.#length));
      before.copy(bytes, 0, 0, this.#length);
      part.copy(bytes, this.#length);
      this.#bytes = bytes;
      this.#isOwn = true;
    }
    this.#length = length;
  }

  /** All of them; nothing is added afterwards. */
  whole(): Buffer {
    return this.#bytes?.subarray(0, this.#length) ?? Buffer.alloc(0);
  }
}
