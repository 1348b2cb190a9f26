/** An account of ours: it signs, and does not show its key to a logger, a debugger's dump or JSON. */
import { checksumAddress } from "../../x402/address.ts";
import { secp256k1, type RecoverableSignature } from "./signature.ts";

const PRIVATE_KEY = /^0x[0-9a-fA-F]{64}$/;

export class Account {
  /** EIP-55 checksummed. */
  readonly address: string;
  readonly #key: Uint8Array;

  /** Throws a `TypeError` that does not repeat the text when it is not a private key. */
  constructor(privateKey: string) {
    if (!PRIVATE_KEY.test(privateKey)) {
      throw new TypeError("a private key must be 0x and 64 hex digits");
    }
    this.#key = Buffer.from(privateKey.slice(2), "hex");
    try {
      this.address = checksumAddress(secp256k1.addressOf(this.#key));
    } catch {
      throw new TypeError("a private key must be between 1 and the order of the curve");
    }
  }

  sign(digest: Uint8Array): RecoverableSignature {
    return secp256k1.sign(digest, this.#key);
  }
}
