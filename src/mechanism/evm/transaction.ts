/** Writes and signs the one kind of transaction we send: a call without value (EIP-1559, EIP-155). */
import { keccak_256 } from "@noble/hashes/sha3.js";
import type { Account } from "./account.ts";
import type { Fees } from "./fees.ts";

export interface ContractTransaction {
  readonly chainId: number;
  /** The account's nonce. */
  readonly nonce: number;
  readonly fees: Fees;
  readonly gasLimit: bigint;
  /** With `0x`. */
  readonly to: string;
  /** Hex without `0x`. */
  readonly data: string;
}

/** EIP-2718 type of an EIP-1559 transaction. */
const DYNAMIC_FEE = Buffer.from([2]);

type Rlp = Uint8Array | readonly Rlp[];

/** The bytes to broadcast and their hash, both with `0x`. */
export function signTransaction(
  transaction: ContractTransaction,
  account: Account,
): { readonly hash: string; readonly raw: string } {
  const bytes =
    transaction.fees.kind === "legacy"
      ? signLegacy(transaction, transaction.fees.gasPrice, account)
      : signDynamicFee(transaction, transaction.fees, account);
  return { hash: toHex(keccak_256(bytes)), raw: toHex(bytes) };
}

function signDynamicFee(
  transaction: ContractTransaction,
  fees: Extract<Fees, { kind: "eip1559" }>,
  account: Account,
): Buffer {
  const fields: readonly Rlp[] = [
    integer(transaction.chainId),
    integer(transaction.nonce),
    integer(fees.maxPriorityFeePerGas),
    integer(fees.maxFeePerGas),
    ...callFields(transaction),
    [], // access list
  ];
  const { r, s, yParity } = account.sign(keccak_256(Buffer.concat([DYNAMIC_FEE, rlp(fields)])));
  const signed = [...fields, integer(yParity), trimmed(r), trimmed(s)];
  return Buffer.concat([DYNAMIC_FEE, rlp(signed)]);
}

function signLegacy(transaction: ContractTransaction, gasPrice: bigint, account: Account): Buffer {
  const fields: readonly Rlp[] = [
    integer(transaction.nonce),
    integer(gasPrice),
    ...callFields(transaction),
  ];
  const chain = [integer(transaction.chainId), integer(0), integer(0)];
  const { r, s, yParity } = account.sign(keccak_256(rlp([...fields, ...chain])));
  const v = transaction.chainId * 2 + 35 + yParity;
  return rlp([...fields, integer(v), trimmed(r), trimmed(s)]);
}

/** Gas limit, recipient, value (always zero) and data: the same in both forms. */
function callFields({ gasLimit, to, data }: ContractTransaction): readonly Rlp[] {
  return [integer(gasLimit), fromHex(to.slice(2)), integer(0), fromHex(data)];
}

/** Recursive length prefix (Yellow Paper, appendix B). */
function rlp(value: Rlp): Buffer {
  if (value instanceof Uint8Array) {
    const [first] = value;
    if (value.length === 1 && first !== undefined && first < 0x80) return Buffer.from(value);
    return Buffer.concat([lengthPrefix(value.length, 0x80), value]);
  }
  const body = Buffer.concat(value.map(rlp));
  return Buffer.concat([lengthPrefix(body.length, 0xc0), body]);
}

function lengthPrefix(length: number, base: number): Buffer {
  if (length < 56) return Buffer.from([base + length]);
  const digits = integer(length);
  return Buffer.concat([Buffer.from([base + 55 + digits.length]), digits]);
}

/** Big-endian without leading zeros; zero is empty. */
function integer(value: bigint | number): Buffer {
  const digits = value.toString(16);
  return digits === "0"
    ? Buffer.alloc(0)
    : fromHex(digits.padStart(digits.length + (digits.length % 2), "0"));
}

function trimmed(bytes: Uint8Array): Uint8Array {
  const start = bytes.findIndex((byte) => byte !== 0);
  return start < 0 ? new Uint8Array() : bytes.subarray(start);
}

function fromHex(digits: string): Buffer {
  return Buffer.from(digits, "hex");
}

function toHex(bytes: Uint8Array): string {
  return `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("hex")}`;
}
