/** The account nonces that the SQLite ledger gives out. */
import { isEvmAddress } from "../x402/address.ts";
import type { StoredTransaction } from "./ledger.ts";
import type { SqliteDatabase } from "./sqlite-database.ts";

export interface SigningAccount {
  readonly network: string;
  readonly address: string;
  /** The chain's next nonce. */
  readonly seed: number;
}

/** The account's next nonce, never one given out before; part of the caller's transaction. */
export function allocateNonce(database: SqliteDatabase, account: SigningAccount): number {
  const allocated = database.get(
    `INSERT INTO accounts (network, address, next_nonce) VALUES (:network, :address, :seed + 1)
     ON CONFLICT (network, address) DO UPDATE SET next_nonce = max(next_nonce, :seed) + 1
     RETURNING next_nonce - 1 AS "nonce"`,
    { network: account.network, address: accountName(account.address), seed: account.seed },
  );
  return Number(allocated?.nonce);
}

/** The nonce that {@link allocateNonce} would give, as far as it is stored. */
export function nextNonce(
  database: SqliteDatabase,
  network: string,
  address: string,
): number | undefined {
  const found = database.get(
    `SELECT next_nonce AS "next" FROM accounts WHERE network = :network AND address = :address`,
    { network, address: accountName(address) },
  );
  return found === undefined ? undefined : Number(found.next);
}

/** Bytes for another account or nonce would leave a gap that blocks every later payment. */
export function requireSignedFor(
  { account, accountNonce }: StoredTransaction,
  address: string,
  nonce: number,
): void {
  if (accountName(account) === accountName(address) && accountNonce === nonce) return;
  throw new Error(`signed for ${account} nonce ${accountNonce} instead of ${address} ${nonce}`);
}

/** EVM addresses count nonces together whatever their letter case; other networks' are case-sensitive. */
export function accountName(address: string): string {
  return isEvmAddress(address) ? address.toLowerCase() : address;
}
