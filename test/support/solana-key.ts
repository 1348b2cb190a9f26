/** Accounts on Solana that nobody else has, in the form in which wallets export them. */
import { generateKeyPairSync } from "node:crypto";
import { encodeBase58 } from "../../src/x402/solana-address.ts";

export interface SolanaKey {
  readonly address: string;
  /** Base58 of 64 bytes: the seed and the public key. */
  readonly secret: string;
}

/** An account that does not exist on any chain yet. */
export function freshSolanaKey(): SolanaKey {
  const { d = "", x = "" } = generateKeyPairSync("ed25519").privateKey.export({ format: "jwk" });
  const publicKey = Buffer.from(x, "base64url");
  const secret = encodeBase58(Buffer.concat([Buffer.from(d, "base64url"), publicKey]));
  return { address: encodeBase58(publicKey), secret };
}
