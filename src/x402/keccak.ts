/**
 * Keccak-256 as Ethereum has it, in WebAssembly: a payment is some ten blocks of it, and a block takes a tenth of what it
 * takes in JavaScript. Node's own SHA3-256 pads otherwise.
 */
import { createKeccak } from "hash-wasm";

/** Used by one call at a time: hashing is synchronous. */
const hasher = await createKeccak(256);

/** @returns 32 bytes of their own */
export function keccak256(bytes: Uint8Array): Uint8Array {
  return hasher.init().update(bytes).digest("binary");
}
