/** Transactions that live on a durable nonce instead of a recent blockhash. */
import { toBase58 } from "./base58.ts";
import type { StoredAccount } from "./runtime.ts";
import type { WireTransaction } from "./wire-transaction.ts";

const SYSTEM_PROGRAM = "11111111111111111111111111111111";
/** The System program's instruction that a nonce transaction begins with. */
const ADVANCE_NONCE_ACCOUNT = 4;
/** A nonce account: version, state, authority, nonce, fee; bytes. */
const NONCE_ACCOUNT_BYTES = 80;
const NONCE_OFFSET = 40;
const STATE_OFFSET = 4;
const INITIALIZED = 1;

/** Whether the transaction begins by advancing a nonce account that holds what it names as blockhash. */
export function isUsableNonce(
  wire: WireTransaction,
  account: (address: string) => StoredAccount | null,
): boolean {
  const first = wire.instructions[0];
  if (first === undefined || wire.staticKeys[first.programIndex] !== SYSTEM_PROGRAM) return false;
  const data = Buffer.from(first.data);
  if (data.length < 4 || data.readUInt32LE(0) !== ADVANCE_NONCE_ACCOUNT) return false;
  const nonceAddress = wire.staticKeys[first.accounts[0] ?? -1];
  const nonce = nonceAddress === undefined ? null : account(nonceAddress);
  if (nonce === null || nonce.owner !== SYSTEM_PROGRAM) return false;
  const state = Buffer.from(nonce.data);
  if (state.length !== NONCE_ACCOUNT_BYTES) return false;
  if (state.readUInt32LE(STATE_OFFSET) !== INITIALIZED) return false;
  return toBase58(state.subarray(NONCE_OFFSET, NONCE_OFFSET + 32)) === wire.blockhash;
}
