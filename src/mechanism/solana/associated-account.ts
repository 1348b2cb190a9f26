/**
 * Derives associated token accounts: where a wallet's tokens of one mint are by convention. Derivation takes
 * about half a millisecond, as it looks for an address that no key can sign for; so results are kept.
 */
import { PublicKey } from "@solana/web3.js";
import { ASSOCIATED_TOKEN_PROGRAM } from "./programs.ts";

/** Accounts kept at most: our payees' and fee payers', and those of others who settle here. */
const MAX_ACCOUNTS = 4_096;
const accounts = new Map<string, string>();

/**
 * The associated token account of an owner, who may also be a program's account, for a mint of that token
 * program. All are valid addresses in base58.
 */
export function associatedAccount(owner: string, mint: string, program: string): string {
  const key = `${owner} ${mint} ${program}`;
  const known = accounts.get(key);
  if (known !== undefined) return known;
  const seeds = [owner, program, mint].map((address) => new PublicKey(address).toBytes());
  const [address] = PublicKey.findProgramAddressSync(
    seeds,
    new PublicKey(ASSOCIATED_TOKEN_PROGRAM),
  );
  const derived = address.toBase58();
  if (accounts.size >= MAX_ACCOUNTS) accounts.clear();
  accounts.set(key, derived);
  return derived;
}
