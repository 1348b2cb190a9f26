/** Signatures as programs write them, and what of it tokens and wallets take. All of it is hex without `0x`, lower case. */
import { readBytesArgument } from "./abi.ts";

/** The last 32 bytes of a signature that ERC-6492 wraps. */
const MARK = "6492".repeat(16);
/** Which argument the wallet's own is, behind a factory and what it would be called with. */
const SIGNATURE_ARGUMENT = 2;

/** What tokens take in place of the parity, which some libraries write as the last byte. */
const V_OF_PARITY: ReadonlyMap<string, string> = new Map([
  ["00", "1b"],
  ["01", "1c"],
]);
/** Hex digits of a key's. */
export const SIGNATURE_DIGITS = 130;

/**
 * What the wallet's own code takes for a signature: programs wrap it as ERC-6492 has it also where the wallet is deployed.
 * Nothing is deployed with the rest, so that it is dropped; what is not wrapped, or not as it should be, is left as it is.
 */
export function ownSignature(signature: string): string {
  if (!signature.endsWith(MARK)) return signature;
  const wrapped = signature.slice(0, -MARK.length);
  return readBytesArgument(wrapped, SIGNATURE_ARGUMENT) ?? signature;
}

/** Undefined where it does not end with a parity. */
export function withV(signature: string): string | undefined {
  if (signature.length !== SIGNATURE_DIGITS) return undefined;
  const v = V_OF_PARITY.get(signature.slice(-2));
  return v === undefined ? undefined : signature.slice(0, -2) + v;
}
