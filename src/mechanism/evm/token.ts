/** An EIP-3009 token: its EIP-712 domain, the calls that a payment makes to it, and its events. */
import { keccak256 } from "../../x402/keccak.ts";
import type { EvmAsset } from "../../x402/network.ts";
import { addressWord, bytesWords, uintWord, WORD } from "./abi.ts";

export interface Token {
  readonly asset: EvmAsset;
  readonly chainId: number;
  /** Lower case, for comparing. */
  readonly address: string;
  /** 32 bytes; what `DOMAIN_SEPARATOR()` answers on the right chain. */
  readonly domainSeparator: Uint8Array;
}

/** Selectors: the first four bytes of the hash of the signature. */
const BALANCE_OF = "70a08231";
const AUTHORIZATION_STATE = "e94a0102";
/** `transferWithAuthorization(…, uint8 v, bytes32 r, bytes32 s)`: every EIP-3009 token has it. */
const TRANSFER_VRS = "e3ee160e";
/** `transferWithAuthorization(…, bytes signature)`: needed for smart wallets, FiatToken 2.2 and later. */
const TRANSFER_BYTES = "cf092995";
/** `cancelAuthorization(address authorizer, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)`. */
const CANCEL_VRS = "5a049a70";
/** ERC-1271 `isValidSignature(bytes32 hash, bytes signature)`, which is also its answer "valid". */
export const IS_VALID_SIGNATURE = "1626ba7e";
export const DOMAIN_SEPARATOR_CALL = "3644e515";
export const DECIMALS_CALL = "313ce567";

/** First topics of the events that prove a payment, lower case with `0x`. */
export const TRANSFER_EVENT = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef";
export const AUTHORIZATION_USED_EVENT =
  "0x98de503528ee59b575ef0c0a2576a82497bfc029a5685b209e9ec333479b10a5";
export const AUTHORIZATION_CANCELED_EVENT =
  "0x1cdd46ff242716cdaa72d159d339a485b3438398348d68f09d7c8c0a59353d81";

const DOMAIN_TYPE_HASH = hashText(
  "EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)",
);
const TRANSFER_TYPE_HASH = hashText(
  "TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)",
);

/** Filled anew for each digest: hashing is synchronous, so no two digests share it at once. */
const struct = Buffer.alloc(7 * 32);
struct.set(TRANSFER_TYPE_HASH);
const envelope = Buffer.alloc(2 + 32 + 32);
envelope.set([0x19, 0x01]);

export function createToken(asset: EvmAsset, chainId: number): Token {
  const { name, version } = asset.eip712;
  const words = Buffer.from(uintWord(chainId) + addressWord(asset.address), "hex");
  const parts = [DOMAIN_TYPE_HASH, hashText(name), hashText(version), words];
  return {
    asset,
    chainId,
    address: asset.address.toLowerCase(),
    domainSeparator: keccak256(Buffer.concat(parts)),
  };
}

/**
 * The EIP-712 digest that the payer signed (protocol section 2.2: `TransferWithAuthorization`).
 * @param words the six members, one ABI word each, in order
 */
export function authorizationDigest(token: Token, words: string): Uint8Array {
  struct.write(words, 32, "hex");
  envelope.set(token.domainSeparator, 2);
  envelope.set(keccak256(struct), 34);
  return keccak256(envelope);
}

export function balanceOfCall(owner: string): string {
  return BALANCE_OF + addressWord(owner);
}

/** @param nonce 32 bytes with `0x` */
export function authorizationStateCall(authorizer: string, nonce: string): string {
  return AUTHORIZATION_STATE + addressWord(authorizer) + nonce.slice(2);
}

/**
 * A cancellation with a signature that no key makes (v is 0). A payer without code is told so by the token,
 * which recovers keys itself; from one with code the token asks for a judgement. It is of a nonce that nobody
 * uses: where that code takes any signature, the payment's own stays as it is.
 */
export function impossibleCancelCall(authorizer: string): string {
  return CANCEL_VRS + addressWord(authorizer) + "f".repeat(WORD) + "0".repeat(3 * WORD);
}

/** What FiatToken says to it where the payer has no code. */
export const IMPOSSIBLE_SIGNATURE = "ECRecover: invalid signature 'v' value";

/**
 * The transfer itself. A proven EOA signature goes as v, r, s, which older tokens understand too; any
 * other as bytes, which the token hands to the payer's contract (ERC-1271).
 */
export function transferCall(words: string, signature: string, proven: boolean): string {
  if (!proven) return TRANSFER_BYTES + words + uintWord(7 * 32) + bytesWords(signature);
  const r = signature.slice(0, WORD);
  const s = signature.slice(WORD, 2 * WORD);
  return TRANSFER_VRS + words + signature.slice(2 * WORD).padStart(WORD, "0") + r + s;
}

/** What the token asks a payer that is a contract (ERC-1271). */
export function isValidSignatureCall(digest: Uint8Array, signature: string): string {
  const hash = Buffer.from(digest).toString("hex");
  return IS_VALID_SIGNATURE + hash + uintWord(0x40) + bytesWords(signature);
}

function hashText(text: string): Uint8Array {
  return keccak256(Buffer.from(text, "utf8"));
}
