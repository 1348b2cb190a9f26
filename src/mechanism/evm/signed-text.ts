/** Who has signed a text of ours (EIP-191): the key of an address, or the code that is there (ERC-1271). */
import { keccak256 } from "../../x402/keccak.ts";
import type { SignedText } from "../mechanism.ts";
import { RpcRefusal, type Rpc } from "../rpc.ts";
import { bytesWords, parseHexData, toQuantity, uintWord } from "./abi.ts";
import { EXECUTION_FAILED } from "./inspection.ts";
import { secp256k1 } from "./signature.ts";
import { ownSignature, withV } from "./written-signature.ts";

/** Texts about which code is asked at a time, and that wait for that. */
export const MAX_CODE_CALLS = 4;
export const MAX_CODE_WAITING = 12;
/** What code may take for its answer: as much as it may for a payment's. */
const MAX_CODE_GAS = 300_000;

/** `isValidSignature(bytes32,bytes)`, which is its good answer as well, padded. */
const IS_VALID_SIGNATURE = "1626ba7e";

/** Whether the key of the address has signed it. */
export function hasKeySigned({ address, message, signature }: SignedText): boolean {
  const bytes = parseHexData(signature);
  if (bytes === undefined) return false;
  const written = Buffer.from(withV(bytes) ?? bytes, "hex");
  const signer = secp256k1.recover(digestOf(message), written);
  return signer === address.toLowerCase();
}

/** Whether the code at the address takes it for its own. @throws {ChainError} when the chain cannot be asked */
export async function askCode(
  rpc: Rpc,
  { address, message, signature }: SignedText,
  signal: AbortSignal,
): Promise<boolean> {
  const bytes = parseHexData(signature);
  if (bytes === undefined) return false;
  const digest = Buffer.from(digestOf(message)).toString("hex");
  const data = `0x${IS_VALID_SIGNATURE}${digest}${uintWord(0x40)}${bytesWords(ownSignature(bytes))}`;
  const call = { to: address, data, gas: toQuantity(MAX_CODE_GAS) };
  try {
    const answer = parseHexData(await rpc.call("eth_call", [call, "latest"], signal));
    return answer === IS_VALID_SIGNATURE.padEnd(64, "0");
  } catch (failure) {
    if (failure instanceof RpcRefusal && EXECUTION_FAILED.test(failure.rpcMessage)) return false;
    throw failure;
  }
}

function digestOf(message: string): Uint8Array {
  const text = Buffer.from(message, "utf8");
  const prefix = Buffer.from(`\u0019Ethereum Signed Message:\n${text.length}`, "utf8");
  return keccak256(Buffer.concat([prefix, text]));
}
