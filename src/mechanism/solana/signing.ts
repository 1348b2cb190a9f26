/**
 * Ed25519 as Solana uses it, by Node's own cryptography: our fee payers' keys, the check of a payer's
 * signature, and where ours goes in a transaction that somebody else has built.
 */
import {
  createPrivateKey,
  createPublicKey,
  sign,
  verify,
  type JsonWebKey,
  type KeyObject,
} from "node:crypto";
import { ADDRESS_BYTES, decodeBase58, encodeBase58 } from "../../x402/solana-address.ts";
import type { SolanaTransaction } from "../../x402/solana-transaction.ts";
import { isStrictPoint, isStrictSignature } from "./strict-signature.ts";

/** Bytes of the secret that a key is derived from. */
const SEED_BYTES = 32;
/** Bytes of a key file: the seed and the public key behind it. */
const SECRET_BYTES = SEED_BYTES + ADDRESS_BYTES;
/** Bytes of an Ed25519 signature. */
const SIGNATURE_BYTES = 64;
/** What stands before a seed in a DER private key (PKCS #8, RFC 8410). */
const PKCS8_PREFIX = Buffer.from("302e020100300506032b657004220420", "hex");

/**
 * Payers' keys kept at most. Reading one takes a fifth of a verification, and each payment is verified at
 * least twice.
 */
const MAX_KEYS = 1_024;
const keys = new Map<string, KeyObject>();

/** A key pair of ours. The secret stays inside, and is in no message. */
export class Keypair {
  /** The public key, base58. */
  readonly address: string;
  readonly #key: KeyObject;

  /**
   * From 64 bytes, as Solana's own tools write them (seed, public key), or from the seed of 32 bytes.
   * @throws {TypeError} for another length, and where the public key is not the seed's
   */
  constructor(secret: Uint8Array) {
    if (secret.length !== SECRET_BYTES && secret.length !== SEED_BYTES) {
      throw new TypeError(
        `a Solana key has ${SECRET_BYTES} bytes, or ${SEED_BYTES} without its public key; this one has ${secret.length}`,
      );
    }
    const key = Buffer.concat([PKCS8_PREFIX, secret.subarray(0, SEED_BYTES)]);
    this.#key = createPrivateKey({ key, format: "der", type: "pkcs8" });
    const { x = "" } = createPublicKey(this.#key).export({ format: "jwk" });
    const address = Buffer.from(x, "base64url");
    if (secret.length === SECRET_BYTES && !address.equals(secret.subarray(SEED_BYTES))) {
      throw new TypeError(
        "the last 32 bytes of a Solana key must be the public key of its first 32 bytes; these are not",
      );
    }
    this.address = encodeBase58(address);
  }

  /** 64 bytes. */
  sign(message: Uint8Array): Uint8Array {
    return sign(null, message, this.#key);
  }
}

/**
 * Whether the holder of an address signed exactly these bytes (V14), as strictly as the chain sees it: keys and
 * commitments of small order, and values in a second spelling, are refused whatever OpenSSL says of them.
 * False also for what is no address and no signature.
 */
export function isSignedBy(message: Uint8Array, signature: Uint8Array, address: string): boolean {
  if (!isStrictSignature(signature)) return false;
  const key = publicKey(address);
  return key !== undefined && verify(null, message, key, signature);
}

/** The transaction with another first signature, everything else byte for byte as received (S4). */
export function withFirstSignature(
  transaction: SolanaTransaction,
  signature: Uint8Array,
): Uint8Array {
  if (signature.length !== SIGNATURE_BYTES) {
    throw new RangeError(`a signature has ${SIGNATURE_BYTES} bytes, not ${signature.length}`);
  }
  const bytes = Uint8Array.from(transaction.bytes);
  bytes.set(signature, transaction.signaturesOffset);
  return bytes;
}

function publicKey(address: string): KeyObject | undefined {
  const known = keys.get(address);
  if (known !== undefined) return known;
  const bytes = decodeBase58(address, ADDRESS_BYTES);
  if (bytes === undefined || !isStrictPoint(bytes)) return undefined;
  const jwk: JsonWebKey = {
    kty: "OKP",
    crv: "Ed25519",
    x: Buffer.from(bytes).toString("base64url"),
  };
  const key = createPublicKey({ key: jwk, format: "jwk" });
  if (keys.size >= MAX_KEYS) keys.clear();
  keys.set(address, key);
  return key;
}
