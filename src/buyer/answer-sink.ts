/**
 * Where the bytes go that were paid for. An answer that breaks off is asked for again with the same payment;
 * what was passed on already is compared with the new one and left out, so that the reader sees one answer.
 */
import { createHash } from "node:crypto";

/** Takes bytes; resolves when it wants more. */
export type WriteBytes = (bytes: Uint8Array) => Promise<void>;

/** The second answer does not begin as the first one did. */
export class AnswerChanged extends Error {
  override readonly name = "AnswerChanged";
}

export class BoughtAnswerSink {
  readonly #write: WriteBytes;
  readonly #isEnough: () => boolean;
  readonly #hash = createHash("sha256");
  #written = 0;

  /** @param isEnough whether an answer is whole for its reader, though it goes on */
  constructor(write: WriteBytes, isEnough = (): boolean => false) {
    this.#write = write;
    this.#isEnough = isEnough;
  }

  /** Bytes that were passed on. */
  get written(): number {
    return this.#written;
  }

  /**
   * Passes a whole answer on, behind what an earlier one has brought.
   * @throws {AnswerChanged} when it begins differently, or is shorter; and whatever cuts the body
   */
  async take(body: AsyncIterable<Uint8Array>): Promise<void> {
    const before = this.#written;
    const seen = createHash("sha256");
    let compared = 0;
    for await (const part of body) {
      const known = part.subarray(0, Math.min(part.length, before - compared));
      if (known.length > 0) {
        seen.update(known);
        compared += known.length;
        if (compared === before) this.#expectSame(seen.digest("hex"));
      }
      const fresh = part.subarray(known.length);
      if (fresh.length === 0) continue;
      await this.#write(fresh);
      this.#hash.update(fresh);
      this.#written += fresh.length;
      if (this.#isEnough()) return;
    }
    if (compared < before) throw new AnswerChanged("the second answer is shorter than the first");
  }

  #expectSame(seen: string): void {
    if (this.#hash.copy().digest("hex") === seen) return;
    throw new AnswerChanged("the second answer begins differently from the first");
  }
}
