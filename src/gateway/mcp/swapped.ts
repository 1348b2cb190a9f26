/** Bytes on their way, in which one text is put in place of another the first time that it comes. */
export class Swapped {
  readonly #find: Buffer | null;
  readonly #put: Buffer;
  /** May be the beginning of what is looked for. */
  #held = Buffer.alloc(0);
  #isOver: boolean;

  /** @param instead what is looked for, and what is put there; undefined: nothing is */
  constructor(instead?: readonly [find: string, put: string]) {
    this.#find = instead === undefined ? null : Buffer.from(instead[0]);
    this.#put = Buffer.from(instead?.[1] ?? "");
    this.#isOver = instead === undefined;
  }

  /** Nothing is looked for any more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** What is passed on by now. */
  take(chunk: Uint8Array): Uint8Array {
    const find = this.#find;
    if (this.#isOver || find === null) return chunk;
    const all = Buffer.concat([this.#held, chunk]);
    const at = all.indexOf(find);
    if (at >= 0) {
      this.#isOver = true;
      this.#held = Buffer.alloc(0);
      return Buffer.concat([all.subarray(0, at), this.#put, all.subarray(at + find.length)]);
    }
    const kept = Math.min(all.length, find.length - 1);
    this.#held = all.subarray(all.length - kept);
    return all.subarray(0, all.length - kept);
  }

  /** Nothing comes any more. */
  rest(): Buffer {
    const held = this.#held;
    this.#held = Buffer.alloc(0);
    this.#isOver = true;
    return held;
  }
}
