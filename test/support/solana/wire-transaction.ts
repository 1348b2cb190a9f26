/**
 * Reads a transaction of any version from its wire bytes, strictly: whatever does not parse to the end is
 * refused here, because the runtime below ends the whole process on bytes that it cannot read.
 */
import { createHash, createPublicKey, verify, type KeyObject } from "node:crypto";
import { fromBase58, toBase58 } from "./base58.ts";

const SIGNATURE_BYTES = 64;
const KEY_BYTES = 32;
/** Largest transaction on the wire, bytes: legacy and v0, and v1 (SIMD-0296, SIMD-0385). */
export const MAX_PACKET_BYTES = 1232;
export const MAX_V1_BYTES = 4096;
/** High bit of the first message byte: a version follows; else it is the legacy header. */
const VERSION_FLAG = 0x80;
const V1_FIRST_BYTE = 0x81;
/** Bits of a v1 configuration mask: priority fee (two), compute units, loaded bytes, heap. */
const V1_KNOWN_BITS = 0b1_1111;
const V1_PRIORITY_BITS = 0b11;
const V1_COMPUTE_BIT = 0b100;
/** DER prefix of an Ed25519 public key. */
const ED25519_SPKI = Buffer.from("302a300506032b6570032100", "hex");

export interface WireInstruction {
  readonly programIndex: number;
  readonly accounts: readonly number[];
  readonly data: Uint8Array;
}

export interface WireLookup {
  readonly table: string;
  readonly writable: readonly number[];
  readonly readonly: readonly number[];
}

export interface WireTransaction {
  /** Without what trails it. */
  readonly bytes: Uint8Array;
  readonly version: "legacy" | 0 | 1;
  readonly signatures: readonly Uint8Array[];
  /** The bytes that are signed. */
  readonly message: Uint8Array;
  readonly header: {
    readonly signers: number;
    readonly readonlySigners: number;
    readonly readonlyOthers: number;
  };
  /** Addresses in base58. */
  readonly staticKeys: readonly string[];
  readonly blockhash: string;
  /** Where the blockhash lies in `bytes`. */
  readonly blockhashOffset: number;
  readonly instructions: readonly WireInstruction[];
  readonly lookups: readonly WireLookup[];
  /** v1 only: from the message's own configuration. */
  readonly v1: { readonly priorityFee: bigint; readonly computeUnits: number } | null;
  /** A node takes a transaction with bytes behind it; a block producer does not. */
  readonly hasTrailingBytes: boolean;
}

/** The bytes are not a transaction. */
export class WireError extends Error {
  override readonly name = "WireError";
}

/** Throws `WireError`. */
export function readTransaction(all: Uint8Array): WireTransaction {
  const reader = new Reader(all);
  if (all[0] === V1_FIRST_BYTE) {
    const message = readV1Message(reader);
    const end = reader.offset;
    const signatures = readSignatures(reader, message.header.signers);
    return finish(all, { ...message, signatures, start: 0, end, total: reader.offset });
  }
  const signatures = readSignatures(reader, reader.shortLength());
  const start = reader.offset;
  const message = readMessage(reader);
  return finish(all, { ...message, signatures, start, end: reader.offset, total: reader.offset });
}

/** A message alone, as `getFeeForMessage` takes it, with room for signatures where they belong. */
export function readMessageAlone(message: Uint8Array): WireTransaction {
  if (message[0] === V1_FIRST_BYTE) {
    const signers = message[1] ?? 0;
    return readTransaction(Buffer.concat([message, new Uint8Array(signers * SIGNATURE_BYTES)]));
  }
  const signers = ((message[0] ?? 0) & VERSION_FLAG) === 0 ? message[0] : message[1];
  const count = signers ?? 0;
  const empty = new Uint8Array(count * SIGNATURE_BYTES);
  return readTransaction(Buffer.concat([new Uint8Array([count]), empty, message]));
}

/** The same transaction with another blockhash; its signatures no longer fit. */
export function withBlockhash(wire: WireTransaction, blockhash: string): WireTransaction {
  const bytes = wire.bytes.slice();
  bytes.set(fromBase58(blockhash), wire.blockhashOffset);
  return readTransaction(bytes);
}

/** What a validator remembers a processed transaction by. */
export function messageKey(wire: WireTransaction): string {
  return createHash("sha256").update(wire.message).digest("base64");
}

/** The first signature, base58: the transaction's name. */
export function signatureOf(wire: WireTransaction): string {
  const [first] = wire.signatures;
  if (first === undefined) throw new WireError("a transaction without signatures");
  return toBase58(first);
}

/** Whether every required signature is there and right. */
export function isSigned(wire: WireTransaction): boolean {
  if (wire.signatures.length !== wire.header.signers) return false;
  return wire.signatures.every((signature, index) => {
    const address = wire.staticKeys[index];
    return address !== undefined && verify(null, wire.message, publicKey(address), signature);
  });
}

export function isWritable(wire: WireTransaction, index: number): boolean {
  const { signers, readonlySigners, readonlyOthers } = wire.header;
  if (index < signers) return index < signers - readonlySigners;
  return index < wire.staticKeys.length - readonlyOthers;
}

type Message = Pick<
  WireTransaction,
  "version" | "header" | "staticKeys" | "blockhash" | "instructions" | "lookups" | "v1"
> & { readonly blockhashOffset: number };

function readMessage(reader: Reader): Message {
  const first = reader.byte();
  const isVersioned = (first & VERSION_FLAG) !== 0;
  if (isVersioned && first !== VERSION_FLAG) throw new WireError("an unknown message version");
  const header = readHeader(reader, isVersioned ? reader.byte() : first);
  const staticKeys = readKeys(reader, reader.shortLength());
  const blockhashOffset = reader.offset;
  const blockhash = toBase58(reader.take(KEY_BYTES));
  const instructions = Array.from({ length: reader.shortLength() }, () => ({
    programIndex: reader.byte(),
    accounts: [...reader.take(reader.shortLength())],
    data: reader.take(reader.shortLength()),
  }));
  const lookups = Array.from({ length: isVersioned ? reader.shortLength() : 0 }, () => ({
    table: toBase58(reader.take(KEY_BYTES)),
    writable: [...reader.take(reader.shortLength())],
    readonly: [...reader.take(reader.shortLength())],
  }));
  const version = isVersioned ? 0 : "legacy";
  const v1 = null;
  return { version, header, staticKeys, blockhash, blockhashOffset, instructions, lookups, v1 };
}

/** SIMD-0385: counts first, then the keys, the configuration, all instruction heads, all bodies. */
function readV1Message(reader: Reader): Message {
  reader.byte();
  const header = readHeader(reader, reader.byte());
  const mask = reader.number(4);
  const priority = mask & V1_PRIORITY_BITS;
  if ((mask & ~V1_KNOWN_BITS) !== 0 || priority === 1 || priority === 2) {
    throw new WireError("an unknown configuration mask");
  }
  const blockhashOffset = reader.offset;
  const blockhash = toBase58(reader.take(KEY_BYTES));
  const instructionCount = reader.byte();
  const staticKeys = readKeys(reader, reader.byte());
  const priorityFee = priority === 0 ? 0n : reader.long();
  const computeUnits = (mask & V1_COMPUTE_BIT) === 0 ? 0 : reader.number(4);
  for (const bit of [0b1000, 0b1_0000]) if ((mask & bit) !== 0) reader.take(4);
  const heads = Array.from({ length: instructionCount }, () => ({
    programIndex: reader.byte(),
    accounts: reader.byte(),
    data: reader.number(2),
  }));
  const instructions = heads.map(({ programIndex, accounts, data }) => ({
    programIndex,
    accounts: [...reader.take(accounts)],
    data: reader.take(data),
  }));
  const v1 = { priorityFee, computeUnits };
  const shared = { header, staticKeys, blockhash, blockhashOffset, instructions };
  return { ...shared, version: 1, lookups: [], v1 };
}

function finish(
  all: Uint8Array,
  read: Message & {
    readonly signatures: readonly Uint8Array[];
    readonly start: number;
    readonly end: number;
    readonly total: number;
  },
): WireTransaction {
  const { start, end, total, ...message } = read;
  return {
    ...message,
    bytes: all.subarray(0, total),
    message: all.subarray(start, end),
    hasTrailingBytes: all.length > total,
  };
}

function readHeader(reader: Reader, signers: number): WireTransaction["header"] {
  return { signers, readonlySigners: reader.byte(), readonlyOthers: reader.byte() };
}

function readKeys(reader: Reader, count: number): string[] {
  return Array.from({ length: count }, () => toBase58(reader.take(KEY_BYTES)));
}

function readSignatures(reader: Reader, count: number): Uint8Array[] {
  return Array.from({ length: count }, () => reader.take(SIGNATURE_BYTES));
}

function publicKey(address: string): KeyObject {
  const key = Buffer.concat([ED25519_SPKI, fromBase58(address)]);
  return createPublicKey({ key, format: "der", type: "spki" });
}

class Reader {
  offset = 0;
  readonly #bytes: Buffer;

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }

  take(length: number): Uint8Array {
    const end = this.offset + length;
    if (end > this.#bytes.length) throw new WireError("unexpected end of file");
    const part = new Uint8Array(this.#bytes.subarray(this.offset, end));
    this.offset = end;
    return part;
  }

  byte(): number {
    return this.number(1);
  }

  /** Little-endian, up to four bytes. */
  number(length: number): number {
    return Buffer.from(this.take(length)).readUIntLE(0, length);
  }

  long(): bigint {
    return Buffer.from(this.take(8)).readBigUInt64LE(0);
  }

  /** Seven bits a byte, three bytes at most, in the shortest form only. */
  shortLength(): number {
    let value = 0;
    for (let position = 0; position < 3; position += 1) {
      const byte = this.byte();
      if (byte === 0 && position > 0) throw new WireError("a length in more bytes than it needs");
      value |= (byte & 0x7f) << (7 * position);
      if ((byte & 0x80) === 0) {
        if (value > 0xffff) throw new WireError("a length of more than 16 bits");
        return value;
      }
    }
    throw new WireError("a length of more than three bytes");
  }
}
