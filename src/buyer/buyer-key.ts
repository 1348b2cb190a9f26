/**
 * A buyer's key: whose money is spent. The secret stays inside; what is outside is the address, and that it
 * signs for EVM networks or for Solana.
 */
import { randomBytes } from "node:crypto";
import { privateKeyToAccount, type PrivateKeyAccount } from "viem/accounts";
import { Keypair } from "../mechanism/solana/signing.ts";
import { ADDRESS_BYTES, decodeBase58 } from "../x402/solana-address.ts";

export type BuyerKey =
  | { readonly kind: "evm"; readonly address: string; readonly account: PrivateKeyAccount }
  | { readonly kind: "solana"; readonly address: string; readonly keypair: Keypair };

/** Bytes of a secp256k1 key, and of an Ed25519 seed. */
const SECRET_BYTES = 32;
/** Order of the secp256k1 group: a key is from 1 to one less. */
const GROUP_ORDER = BigInt("0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141");

/** From the private key: `0x` and 64 hex digits; for Solana the 128 hex digits of seed and public key. */
export function openPurse(kind: BuyerKey["kind"], key: string): BuyerKey {
  if (kind === "evm") {
    const account = privateKeyToAccount(`0x${key.replace(/^0x/, "")}`);
    return { kind, address: account.address, account };
  }
  const keypair = new Keypair(Buffer.from(key, "hex"));
  return { kind, address: keypair.address, keypair };
}

/** A key that nobody has had before, with the text of the file that keeps it. */
export interface FreshKey {
  readonly address: string;
  /** EVM: `0x` and hex. Solana: the JSON array of 64 numbers that `solana-keygen` writes. */
  readonly text: string;
}

export function freshKey(kind: BuyerKey["kind"]): FreshKey {
  if (kind === "solana") {
    const seed = randomBytes(SECRET_BYTES);
    const { address } = new Keypair(seed);
    const publicKey = decodeBase58(address, ADDRESS_BYTES) ?? new Uint8Array();
    return { address, text: JSON.stringify([...seed, ...publicKey]) };
  }
  const digits = randomDigits();
  return { address: openPurse("evm", digits).address, text: `0x${digits}` };
}

/** One in 2^128 draws is outside of the group. */
function randomDigits(): string {
  for (;;) {
    const digits = randomBytes(SECRET_BYTES).toString("hex");
    const number = BigInt(`0x${digits}`);
    if (number > 0n && number < GROUP_ORDER) return digits;
  }
}
