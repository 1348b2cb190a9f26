/**
 * Reads messages whole, and no more of them at a time than there is memory for: a client may say most of a large one, and
 * the rest as slowly as he is allowed to.
 */

/** Of all messages of one command that have come in part, bytes; two of the largest in any case. Slow ones make room. */
export const READING_BYTES = 64 * 1024 * 1024;

export type MessageRead =
  | { readonly kind: "whole"; readonly bytes: Buffer }
  | { readonly kind: "large" }
  /** Others have come meanwhile, and this one was the oldest that had not. */
  | { readonly kind: "slow" };

interface Reading {
  held: number;
  parts: Buffer[];
  isOver: boolean;
}

export class MessageReading {
  /** The oldest first. */
  readonly #readings = new Set<Reading>();
  #held = 0;

  /**
   * What is too large, or has to make room, is read to its end all the same, and not kept.
   * @throws when the request is cut
   */
  async read(request: AsyncIterable<Buffer>, most: number): Promise<MessageRead> {
    const reading: Reading = { held: 0, parts: [], isOver: false };
    let bytes = 0;
    this.#readings.add(reading);
    try {
      for await (const part of request) {
        bytes += part.length;
        if (bytes > most) this.#drop(reading);
        if (reading.isOver) continue;
        reading.parts.push(part);
        reading.held += part.length;
        this.#held += part.length;
        this.#makeRoom(Math.max(READING_BYTES, 2 * most));
      }
      if (!reading.isOver) return { kind: "whole", bytes: Buffer.concat(reading.parts) };
      return { kind: bytes > most ? "large" : "slow" };
    } finally {
      this.#drop(reading);
    }
  }

  #makeRoom(most: number): void {
    for (const reading of this.#readings) {
      if (this.#held <= most) return;
      this.#drop(reading);
    }
  }

  #drop(reading: Reading): void {
    this.#held -= reading.held;
    [reading.held, reading.parts, reading.isOver] = [0, [], true];
    this.#readings.delete(reading);
  }
}
