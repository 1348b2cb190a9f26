/**
 * Solana keypairs: 64 bytes, an Ed25519 seed and the public key that belongs to it. `solana-keygen` writes
 * them as a JSON array, wallets export them in base58. What a text holds is never part of a message.
 */
import { createPrivateKey, createPublicKey, type KeyObject } from "node:crypto";
import { err, ok, type Result } from "../../x402/result.ts";
import { ADDRESS_BYTES, decodeBase58 } from "../../x402/solana-address.ts";
import type { Fault } from "../reading/problem.ts";
import { fault } from "../reading/reading.ts";

export const KEYPAIR_BYTES = 64;
/** Of the seed, which is the first half of a keypair. */
const SEED_BYTES = 32;
/** Longest JSON array that is looked at, characters: 64 numbers with white space around each. */
const MAX_LIST = 4_096;
/** What stands before the seed in the PKCS #8 form of an Ed25519 key (RFC 8410, section 7). */
const PKCS8_HEAD = Buffer.from("302e020100300506032b657004220420", "hex");

const MALFORMED = "malformed-key";
const AS_WRITTEN = "as solana-keygen writes it or a wallet exports it";
const HALF = `these are 32 bytes, half a keypair or an address: a keypair has 64, ${AS_WRITTEN}`;
const HEX = `32 bytes in hex are an EVM key or half a keypair: a keypair has 64, ${AS_WRITTEN}`;

/** How a message begins that says what a text is: there may be a reference between. */
export interface Wording {
  readonly is: string;
  readonly isNot: string;
}

/** The 64 bytes in lower-case hex. */
export function readKeypair(text: string, { is, isNot }: Wording): Result<string, Fault> {
  const bytes = bytesOf(text);
  if (bytes?.length !== KEYPAIR_BYTES) {
    const message = `${isNot} a Solana keypair: a JSON array of 64 numbers, or base58 of 64 bytes`;
    return err(fault(MALFORMED, message, hintFor(text)));
  }
  if (ownsItsPublicHalf(bytes)) return ok(Buffer.from(bytes).toString("hex"));
  const message = `${is} a Solana keypair whose public half does not belong to its secret half`;
  return err(fault(MALFORMED, message, "a number or letter is mistyped: export the key again"));
}

/** Whether a text has the form of a keypair, in which case it is to be kept secret. */
export function isKeypair(text: string): boolean {
  return bytesOf(text)?.length === KEYPAIR_BYTES;
}

/** Whether the second half of 64 bytes is the public key to the seed in the first half. */
export function ownsItsPublicHalf(keypair: Uint8Array): boolean {
  const spki = createPublicKey(ed25519Key(keypair)).export({ format: "der", type: "spki" });
  return spki.subarray(-ADDRESS_BYTES).equals(keypair.subarray(SEED_BYTES));
}

/** The private key whose seed is the first half of a keypair. */
export function ed25519Key(keypair: Uint8Array): KeyObject {
  const seed = keypair.subarray(0, SEED_BYTES);
  return createPrivateKey({
    key: Buffer.concat([PKCS8_HEAD, seed]),
    format: "der",
    type: "pkcs8",
  });
}

/** The bytes of a JSON array of numbers; undefined where a text is none, or a number is no byte. */
export function readByteList(text: string): Uint8Array | undefined {
  if (text.length > MAX_LIST || !/^\[[\d\s,]*\]$/.test(text)) return undefined;
  const numbers = text
    .slice(1, -1)
    .trim()
    .split(/\s*,\s*/);
  const areBytes = numbers.every((each) => /^\d{1,3}$/.test(each) && Number(each) <= 255);
  return areBytes ? Uint8Array.from(numbers, Number) : undefined;
}

function bytesOf(text: string): Uint8Array | undefined {
  return readByteList(text) ?? decodeBase58(text, KEYPAIR_BYTES);
}

function hintFor(text: string): string | undefined {
  if (/^(?:0x)?[0-9a-fA-F]{64}$/.test(text)) return HEX;
  if (decodeBase58(text, SEED_BYTES) !== undefined) return HALF;
  const listed = readByteList(text)?.length;
  if (listed === SEED_BYTES) return HALF;
  if (listed !== undefined) return `${listed} numbers are given`;
  if (/^(?:[a-z]{3,8}\s+){11,23}[a-z]{3,8}$/.test(text)) {
    return "these are words: solana-keygen recover makes a keypair of them";
  }
  return undefined;
}
