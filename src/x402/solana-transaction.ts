/**
 * The outside of a Solana transaction: base64, signatures, and the message that they sign. What the message
 * says is read by the mechanism; this much is enough to tell payments apart and to name their payer.
 */
import { hash } from "node:crypto";
import { ok, refuse, type Refusal, type Result } from "./result.ts";
import { ADDRESS_BYTES, encodeBase58 } from "./solana-address.ts";
import type { SolanaPayload } from "./x402.ts";

/** The three formats there are: without a version byte, with lookup tables, and SIMD-0385. */
export type TransactionVersion = "legacy" | 0 | 1;

/** A transaction as it was received, cut into its parts; nothing is copied or judged beyond that. */
export interface SolanaTransaction {
  readonly version: TransactionVersion;
  /** The whole transaction. */
  readonly bytes: Uint8Array;
  /** What the signatures sign: a view into `bytes`. */
  readonly message: Uint8Array;
  /** 64 bytes each, in the order of the first account keys: views into `bytes`. */
  readonly signatures: readonly Uint8Array[];
  /** Where signature 0 stands in `bytes` (in version 1 the signatures trail the message). */
  readonly signaturesOffset: number;
  /** Account key 0, base58. */
  readonly feePayer: string;
  /** Account key 1, base58; undefined unless exactly two signatures are required. */
  readonly payer: string | undefined;
}

/** Bytes of a transaction without version, or of version 0: what fits one packet. */
const MAX_TRANSACTION_BYTES = 1232;
/** Bytes of a transaction of version 1 (SIMD-0385). */
const MAX_V1_TRANSACTION_BYTES = 4096;
/** Base64 characters of the largest transaction: 5464. */
export const MAX_TRANSACTION_CHARACTERS = 4 * Math.ceil(MAX_V1_TRANSACTION_BYTES / 3);

/** First byte of a message of that version; a message without version begins with a smaller one. */
const V0_PREFIX = 0x80;
const V1_PREFIX = 0x81;
/** Bytes of an Ed25519 signature. */
const SIGNATURE_BYTES = 64;
/**
 * Where the number of account keys stands in the message: after the header of three bytes, and in version 1
 * also after the configuration mask, the blockhash and the number of instructions.
 */
const KEY_COUNT_OFFSETS = { legacy: 3, 0: 4, 1: 41 } as const;
/** The payer signs second, after the fee payer. */
const PAYER_SIGNATURES = 2;

/**
 * Cuts a transaction into its parts: canonical base64, the size that its version allows, as many signatures
 * as the message's header requires, and keys for each of them. Refusal: `invalid_payload`.
 */
export function readSolanaTransaction(base64: string): Result<SolanaTransaction, Refusal> {
  if (base64.length > MAX_TRANSACTION_CHARACTERS) {
    return unreadable(`is longer than ${MAX_TRANSACTION_CHARACTERS} characters`);
  }
  const bytes = decodeBase64(base64);
  if (bytes === undefined) return unreadable("is not canonical base64");
  const isVersion1 = bytes[0] === V1_PREFIX;
  const most = isVersion1 ? MAX_V1_TRANSACTION_BYTES : MAX_TRANSACTION_BYTES;
  if (bytes.length > most) return unreadable(`is ${bytes.length} bytes long, more than ${most}`);
  return isVersion1 ? readMessageFirst(bytes) : readSignaturesFirst(bytes);
}

/** A view of plain bytes, or undefined for every spelling but the one that encoding them would give. */
function decodeBase64(text: string): Uint8Array | undefined {
  const bytes = Buffer.from(text, "base64");
  if (bytes.toString("base64") !== text) return undefined;
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.length);
}

/** Version 1: the message comes first, and as many signatures as it requires trail it. */
function readMessageFirst(bytes: Uint8Array): Result<SolanaTransaction, Refusal> {
  const required = bytes[1] ?? 0;
  const signaturesOffset = bytes.length - required * SIGNATURE_BYTES;
  if (signaturesOffset < 0) return unreadable("is shorter than its signatures");
  const message = bytes.subarray(0, signaturesOffset);
  return cut({ version: 1, bytes, message, required, signaturesOffset });
}

/** The older formats: the number of signatures, the signatures, and the rest is the message. */
function readSignaturesFirst(bytes: Uint8Array): Result<SolanaTransaction, Refusal> {
  // One byte is enough: a count above 127 would take two, and more room than there is.
  const count = bytes[0] ?? 0;
  const messageOffset = 1 + count * SIGNATURE_BYTES;
  const prefix = bytes[messageOffset];
  if (prefix === undefined) return unreadable("is shorter than its signatures");
  if (prefix > V0_PREFIX) return unreadable("holds a message of another version");
  const version = prefix === V0_PREFIX ? 0 : "legacy";
  const message = bytes.subarray(messageOffset);
  const required = message[version === 0 ? 1 : 0] ?? 0;
  if (required !== count) return unreadable(`has ${count} signatures, and requires ${required}`);
  return cut({ version, bytes, message, required, signaturesOffset: 1 });
}

type Parts = Pick<SolanaTransaction, "version" | "bytes" | "message" | "signaturesOffset"> & {
  readonly required: number;
};

/** Refuses what requires no signature, or more than it has keys for, or has no room for its keys. */
function cut({ required, ...parts }: Parts): Result<SolanaTransaction, Refusal> {
  const { version, bytes, message, signaturesOffset } = parts;
  // One byte is enough in the older formats, too: above 127 keys there would be no room for them.
  const keyCount = message[KEY_COUNT_OFFSETS[version]] ?? 0;
  const keysOffset = KEY_COUNT_OFFSETS[version] + 1;
  if (required === 0 || required > keyCount) {
    return unreadable(`requires ${required} signatures, and names ${keyCount} accounts`);
  }
  if (keysOffset + keyCount * ADDRESS_BYTES > message.length) return unreadable("is cut short");
  const keyAt = (index: number): string => {
    const start = keysOffset + index * ADDRESS_BYTES;
    return encodeBase58(message.subarray(start, start + ADDRESS_BYTES));
  };
  const signatures = Array.from({ length: required }, (_, index) => {
    const start = signaturesOffset + index * SIGNATURE_BYTES;
    return bytes.subarray(start, start + SIGNATURE_BYTES);
  });
  const payer = required === PAYER_SIGNATURES ? keyAt(1) : undefined;
  return ok({ ...parts, signatures, feePayer: keyAt(0), payer });
}

function unreadable(detail: string): Result<never, Refusal> {
  return refuse("invalid_payload", `payload.transaction ${detail}`);
}

/** Lower-case hex of sha256(message bytes): what makes a Solana payment one payment. */
export function messageHash({ message }: SolanaTransaction): string {
  return hash("sha256", message, "hex");
}

/** A payload as it is decoded: its transaction is read when it is asked for first, and once. */
export class DecodedSolanaPayload implements SolanaPayload {
  readonly transaction: string;
  #read: Result<SolanaTransaction, Refusal> | undefined;

  constructor(transaction: string) {
    this.transaction = transaction;
  }

  get read(): Result<SolanaTransaction, Refusal> {
    return (this.#read ??= readSolanaTransaction(this.transaction));
  }
}

/** {@link readSolanaTransaction} of a payload. */
export function transactionOf(payload: SolanaPayload): Result<SolanaTransaction, Refusal> {
  const isDecoded = payload instanceof DecodedSolanaPayload;
  return isDecoded ? payload.read : readSolanaTransaction(payload.transaction);
}
