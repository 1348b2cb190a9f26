/** A seller's answer as an agent is told it: so much of it as was allowed, and what it is. */
import type { WriteBytes } from "../answer-sink.ts";

export interface ToldAnswer {
  /** Of HTTP; null: it is a tool's result. */
  readonly status: number | null;
  readonly contentType: string;
  /** Of the whole answer, or of what was read of it. */
  readonly bytes: number;
  /** What is left out at its end is not kept. */
  readonly isCut: boolean;
  readonly encoding: "text" | "base64";
  readonly body: string;
}

/** The most that is told of one answer, bytes. */
export const MAX_ANSWER_BYTES = 256 * 1024;
/** The most that is read of one: what is not told is read for its length alone. */
export const MAX_READ_BYTES = 64 * 1024 * 1024;
/** Longest content type that is told, characters. */
const MAX_TYPE = 200;

/** Gathers as much as is told, and counts the rest. */
export class AnswerPot {
  readonly #parts: Uint8Array[] = [];
  #kept = 0;
  #bytes = 0;

  readonly write: WriteBytes = async (part) => {
    this.#bytes += part.length;
    const room = MAX_ANSWER_BYTES - this.#kept;
    if (room <= 0) return;
    const kept = part.subarray(0, room);
    this.#kept += kept.length;
    this.#parts.push(kept);
  };

  /** Nothing more is read. */
  get isEnough(): boolean {
    return this.#bytes >= MAX_READ_BYTES;
  }

  told(status: number | null, contentType: string): ToldAnswer {
    const body = Buffer.concat(this.#parts);
    const isCut = this.#bytes > this.#kept;
    const common = {
      status,
      contentType: contentType.slice(0, MAX_TYPE),
      bytes: this.#bytes,
      isCut,
    };
    const words = textOf(body, isCut);
    return words === undefined
      ? { ...common, encoding: "base64", body: body.toString("base64") }
      : { ...common, encoding: "text", body: words };
  }
}

/** Undefined for what is no UTF-8. A character that the cut went through is left out. */
function textOf(body: Buffer, isCut: boolean): string | undefined {
  for (let left = 0; left <= (isCut ? 3 : 0); left += 1) {
    try {
      const decoder = new TextDecoder("utf-8", { fatal: true });
      return decoder.decode(body.subarray(0, body.length - left));
    } catch {
      // A shorter one may be whole.
    }
  }
  return undefined;
}
