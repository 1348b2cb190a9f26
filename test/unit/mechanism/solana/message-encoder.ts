/**
 * Writes Solana transactions part by part, as the formats are described and not as the decoder reads them;
 * what is not valid can be written, too. Each part carries its kind, so that a test can spoil it on purpose.
 */
import { getBase58Encoder } from "@solana/kit";
import type { Message } from "../../../../src/mechanism/solana/message.ts";

export type PartKind =
  | "signature"
  | "prefix"
  | "header"
  | "mask"
  | "value"
  | "count"
  | "key"
  | "blockhash"
  | "index"
  | "data";

/** Bytes that mean one thing. */
export interface Part {
  readonly kind: PartKind;
  readonly bytes: Uint8Array;
}

const SIGNATURE_BYTES = 64;
const base58 = getBase58Encoder();
/** Values that have been written before: the library is slow, and tests write the same ones again and again. */
const written = new Map<string, ArrayLike<number>>();

/** Seven bits a byte, least significant first; `spare` more bytes than it needs. */
export function compactLength(value: number, spare = 0): Uint8Array {
  const bytes: number[] = [];
  for (let rest = value; bytes.length === 0 || rest > 0; rest >>>= 7) bytes.push(rest & 0x7f);
  for (let added = 0; added < spare; added += 1) bytes.push(0);
  return Uint8Array.from(bytes, (byte, index) => (index < bytes.length - 1 ? byte | 0x80 : byte));
}

function littleEndian(value: number | bigint, bytes: number): Uint8Array {
  let rest = BigInt(value);
  return Uint8Array.from({ length: bytes }, () => {
    const byte = Number(rest & 0xffn);
    rest >>= 8n;
    return byte;
  });
}

const part = (kind: PartKind, bytes: ArrayLike<number>): Part => ({
  kind,
  bytes: Uint8Array.from(bytes),
});

function address(kind: PartKind, text: string): Part {
  const bytes = written.get(text) ?? base58.encode(text);
  written.set(text, bytes);
  return part(kind, bytes);
}

const count = (value: number): Part => part("count", compactLength(value));
const counted = (kind: PartKind, bytes: Uint8Array): Part[] => [
  count(bytes.length),
  part(kind, bytes),
];

/** The parts of a transaction with that message and those signatures, in the order of its version. */
export function partsOf(message: Message, signatures: readonly Uint8Array[]): Part[] {
  const signed = signatures.map((signature) => part("signature", signature));
  return message.version === 1
    ? [...version1Parts(message), ...signed]
    : [count(signatures.length), ...signed, ...olderParts(message)];
}

function headerOf(message: Message): Part[] {
  const { requiredSignatures, readonlySigned, readonlyUnsigned } = message;
  return [requiredSignatures, readonlySigned, readonlyUnsigned].map((byte) =>
    part("header", [byte]),
  );
}

function olderParts(message: Message): Part[] {
  const { keys, instructions, lookups } = message;
  return [
    ...(message.version === 0 ? [part("prefix", [0x80])] : []),
    ...headerOf(message),
    count(keys.length),
    ...keys.map((key) => address("key", key)),
    address("blockhash", message.blockhash),
    count(instructions.length),
    ...instructions.flatMap(({ program, accounts, data }) => [
      part("index", [program]),
      ...counted("index", accounts),
      ...counted("data", data),
    ]),
    ...(message.version === 0 ? [count(lookups.length)] : []),
    ...lookups.flatMap(({ table, writable, readonly }) => [
      address("key", table),
      ...counted("index", writable),
      ...counted("index", readonly),
    ]),
  ];
}

function version1Parts(message: Message): Part[] {
  const { keys, instructions, config } = message;
  const values = [
    { bits: 0b11, bytes: 8, value: config?.priorityFeeLamports ?? null },
    { bits: 0b100, bytes: 4, value: config?.computeUnitLimit ?? null },
    { bits: 0b1000, bytes: 4, value: config?.loadedAccountsBytes ?? null },
    { bits: 0b10000, bytes: 4, value: config?.heapBytes ?? null },
  ].flatMap(({ value, ...rest }) => (value === null ? [] : [{ ...rest, value }]));
  const mask = values.reduce((sum, { bits }) => sum | bits, 0);
  return [
    part("prefix", [0x81]),
    ...headerOf(message),
    part("mask", littleEndian(mask, 4)),
    address("blockhash", message.blockhash),
    part("count", [instructions.length]),
    part("count", [keys.length]),
    ...keys.map((key) => address("key", key)),
    ...values.map(({ value, bytes }) => part("value", littleEndian(value, bytes))),
    ...instructions.flatMap(({ program, accounts, data }) => [
      part("index", [program]),
      part("count", [accounts.length]),
      part("count", littleEndian(data.length, 2)),
    ]),
    ...instructions.flatMap(({ accounts, data }) => [part("index", accounts), part("data", data)]),
  ];
}

export function join(parts: readonly Part[]): Uint8Array {
  return new Uint8Array(Buffer.concat(parts.map(({ bytes }) => bytes)));
}

export function toBase64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString("base64");
}

/** Base64 of a transaction; signature `n` is 64 bytes of `n + 1`, and there are as many as the header requires. */
export function encodeTransaction(
  message: Message,
  signatures: readonly Uint8Array[] = signaturesOf(message.requiredSignatures),
): string {
  return toBase64(join(partsOf(message, signatures)));
}

export function signaturesOf(count: number): Uint8Array[] {
  return Array.from({ length: count }, (_, index) =>
    new Uint8Array(SIGNATURE_BYTES).fill(index + 1),
  );
}
