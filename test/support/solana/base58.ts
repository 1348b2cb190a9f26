/**
 * Addresses, hashes and signatures between bytes and base58, remembered for a while because a test names
 * the same few again and again, and the conversion is the slowest part of a small answer.
 */
import { getBase58Decoder, getBase58Encoder } from "@solana/kit";

/** Conversions remembered at most, either way. */
const MAX_REMEMBERED = 20_000;

const encoder = getBase58Encoder();
const decoder = getBase58Decoder();
const texts = new Map<string, string>();
const values = new Map<string, Uint8Array>();

export function toBase58(bytes: Uint8Array): string {
  const key = Buffer.from(bytes).toString("latin1");
  let text = texts.get(key);
  if (text === undefined) {
    text = decoder.decode(bytes);
    if (texts.size >= MAX_REMEMBERED) texts.clear();
    texts.set(key, text);
  }
  return text;
}

/** Throws when the text is not base58. The bytes are shared: nobody may change them. */
export function fromBase58(text: string): Uint8Array {
  let bytes = values.get(text);
  if (bytes === undefined) {
    bytes = new Uint8Array(encoder.encode(text));
    if (values.size >= MAX_REMEMBERED) values.clear();
    values.set(text, bytes);
  }
  return bytes;
}
