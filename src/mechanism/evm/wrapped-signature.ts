/**
 * Signatures of smart wallets as ERC-6492 wraps them, with what would deploy the wallet: `abi.encode(address factory,
 * bytes data, bytes signature)` and a mark behind it. Wallets' programs write them also where the wallet is deployed.
 */
import { readBytesArgument } from "./abi.ts";

/** The last 32 bytes of a wrapped signature. */
const MARK = "6492".repeat(16);
/** Which argument the wallet's own signature is. */
const SIGNATURE_ARGUMENT = 2;

/**
 * What the wallet's own code takes for a signature. Nothing is deployed with the rest, so that it is dropped; what is not
 * wrapped, or not as it should be, is left as it is. Hex without `0x`, lower case, as it comes.
 */
export function ownSignature(signature: string): string {
  if (!signature.endsWith(MARK)) return signature;
  const wrapped = signature.slice(0, -MARK.length);
  return readBytesArgument(wrapped, SIGNATURE_ARGUMENT) ?? signature;
}
