/** Writes and signs the one kind of transaction we send: a call without value (EIP-1559, EIP-155). */
import type { Hex } from "viem";
import { serializeTransaction } from "viem/utils";
import { keccak256 } from "../../x402/keccak.ts";
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

/** The bytes to broadcast and their hash, both with `0x`. Synchronous, see `Draft`. */
export function signTransaction(
  transaction: ContractTransaction,
  account: Account,
): { readonly hash: string; readonly raw: string } {
  const unsigned = describe(transaction);
  const digest = keccak256(bytesOf(serializeTransaction(unsigned)));
  const { r, s, yParity } = account.sign(digest);
  const signature = { r: toHex(r), s: toHex(s), v: 27n + BigInt(yParity), yParity };
  const raw = serializeTransaction(unsigned, signature);
  return { hash: toHex(keccak256(bytesOf(raw))), raw };
}

function describe({ chainId, nonce, fees, gasLimit, to, data }: ContractTransaction) {
  const call = { chainId, nonce, gas: gasLimit, to: asHex(to), data: asHex(`0x${data}`) };
  if (fees.kind === "legacy") return { ...call, type: "legacy", gasPrice: fees.gasPrice } as const;
  const { maxFeePerGas, maxPriorityFeePerGas } = fees;
  return { ...call, type: "eip1559", maxFeePerGas, maxPriorityFeePerGas } as const;
}

function asHex(text: string): Hex {
  return `0x${text.slice(2)}`;
}

function bytesOf(hex: Hex): Uint8Array {
  return Buffer.from(hex.slice(2), "hex");
}

function toHex(bytes: Uint8Array): Hex {
  return `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("hex")}`;
}
