/**
 * What can be wrong with a transaction as bytes, by the names that the case files use. A `message` fault is
 * there before the payer signs, so that the signature is good all the same; a `signed` fault comes after;
 * a `text` fault is in the base64.
 */
import { decodeMessage, type Message } from "../../../src/mechanism/solana/message.ts";
import type { Keypair } from "../../../src/mechanism/solana/signing.ts";
import {
  readSolanaTransaction,
  type SolanaTransaction,
} from "../../../src/x402/solana-transaction.ts";
import {
  compactLength,
  join,
  partsOf,
  type Part,
} from "../../unit/mechanism/solana/message-encoder.ts";

const SIGNATURE_BYTES = 64;
/** The order of the group that Ed25519 signatures are made in: adding it to one leaves what it proves. */
const GROUP_ORDER = 2n ** 252n + 27_742_317_777_372_353_535_851_937_790_883_648_493n;
/** A signature is a point of so many bytes, and a number of as many. */
const HALF_SIGNATURE = 32;

type Instruction = Message["instructions"][number];

function withLast(message: Message, change: (instruction: Instruction) => Instruction): Message {
  const { instructions } = message;
  const last = instructions.at(-1);
  if (last === undefined) throw new Error("a message without instructions");
  return { ...message, instructions: [...instructions.slice(0, -1), change(last)] };
}

/** Behind all others, which are read-only. */
function withKey(message: Message, key: string): Message {
  const { keys, readonlyUnsigned } = message;
  return { ...message, keys: [...keys, key], readonlyUnsigned: readonlyUnsigned + 1 };
}

/** All accounts of a message: those that it names, and those that it looks up. */
function countAccounts({ keys, lookups }: Message): number {
  const lookedUp = lookups.map(({ writable, readonly }) => writable.length + readonly.length);
  return keys.length + lookedUp.reduce((sum, count) => sum + count, 0);
}

const UNUSED_KEY = "SysvarC1ock11111111111111111111111111111111";

/** Changes of what the message says, though it is written as it should be. */
const sayings = {
  "an account that nothing uses": (message) => withKey(message, UNUSED_KEY),
  "an account twice": (message) => withKey(message, message.keys.at(-1) ?? ""),
  "an account that is not there": (message) =>
    withLast(message, (last) => ({
      ...last,
      accounts: Uint8Array.of(...last.accounts, countAccounts(message)),
    })),
  "a program that is not there": (message) =>
    withLast(message, (last) => ({ ...last, program: countAccounts(message) })),
  "a program that is looked up": (message) =>
    withLast(message, (last) => ({ ...last, program: message.keys.length })),
  "the fee payer as a program": (message) => withLast(message, (last) => ({ ...last, program: 0 })),
  "no writable signer": (message) => ({ ...message, readonlySigned: message.requiredSignatures }),
  "fewer accounts than its header counts": (message) => ({
    ...message,
    readonlyUnsigned: message.keys.length - 1,
  }),
  "a table that it takes nothing from": (message) => ({
    ...message,
    lookups: message.lookups.map((lookup) => ({
      ...lookup,
      writable: new Uint8Array(),
      readonly: new Uint8Array(),
    })),
  }),
  "an index that the table does not have": (message) => ({
    ...message,
    lookups: message.lookups.map((lookup) => ({
      ...lookup,
      readonly: lookup.readonly.with(lookup.readonly.length - 1, MAX_INDEX),
    })),
  }),
  "the other entry of the table as well": (message) => ({
    ...message,
    lookups: message.lookups.map((lookup) => {
      const known = [...lookup.writable, ...lookup.readonly];
      const other = known.includes(0) ? 1 : 0;
      return { ...lookup, readonly: Uint8Array.of(...lookup.readonly, other) };
    }),
  }),
} satisfies Record<string, (message: Message) => Message>;

/** A table has 256 addresses at most. */
const MAX_INDEX = 255;

function changePart(
  parts: readonly Part[],
  kind: Part["kind"],
  change: (bytes: Uint8Array) => Uint8Array,
): readonly Part[] {
  const place = parts.findIndex((part) => part.kind === kind);
  const part = parts[place];
  if (part === undefined) throw new Error(`a message without ${kind}`);
  return parts.with(place, { kind, bytes: change(part.bytes) });
}

const setBits = (bits: number) => (bytes: Uint8Array) => bytes.with(0, (bytes[0] ?? 0) | bits);
const clearBits = (bits: number) => (bytes: Uint8Array) => bytes.with(0, (bytes[0] ?? 0) & ~bits);

/** Changes of how the message is written. */
const writings = {
  "the number of its accounts in two bytes": (parts) =>
    changePart(parts, "count", ([length = 0]) => compactLength(length, 1)),
  "its last length in two bytes": (parts) =>
    changePart(parts.toReversed(), "count", ([length = 0]) =>
      compactLength(length, 1),
    ).toReversed(),
  "another version": (parts) =>
    changePart(parts, "prefix", ([prefix = 0]) => Uint8Array.of(prefix + 2)),
  "an unknown bit in its mask": (parts) => changePart(parts, "mask", setBits(0b10_0000)),
  "half a priority fee in its mask": (parts) => changePart(parts, "mask", clearBits(0b10)),
  "a byte behind its end": (parts) => [...parts, { kind: "data", bytes: Uint8Array.of(0) }],
  "its last byte missing": (parts) => {
    const bytes = join(parts);
    return [{ kind: "data", bytes: bytes.subarray(0, -1) }];
  },
} satisfies Record<string, (parts: readonly Part[]) => readonly Part[]>;

export type MessageFault = keyof typeof sayings | keyof typeof writings;

/** A transaction and where its signatures are. */
interface Signed {
  readonly bytes: Uint8Array;
  /** Where the first signature begins. */
  readonly offset: number;
  /** How many signatures there are. */
  readonly count: number;
}

/** So many signatures from the front: 0 is the fee payer's, 1 the payer's. */
function signatureOf({ bytes, offset }: Signed, place: number): Uint8Array {
  const start = offset + place * SIGNATURE_BYTES;
  return bytes.slice(start, start + SIGNATURE_BYTES);
}

function withSignature(signed: Signed, place: number, signature: Uint8Array): Uint8Array {
  const bytes = signed.bytes.slice();
  bytes.set(signature, signed.offset + place * SIGNATURE_BYTES);
  return bytes;
}

function plusGroupOrder(signature: Uint8Array): Uint8Array {
  const number = Buffer.from(signature.subarray(HALF_SIGNATURE)).toReversed();
  const sum = BigInt(`0x${Buffer.from(number).toString("hex")}`) + GROUP_ORDER;
  const hex = sum.toString(16).padStart(2 * HALF_SIGNATURE, "0");
  return Buffer.concat([
    signature.subarray(0, HALF_SIGNATURE),
    Buffer.from(Buffer.from(hex, "hex").toReversed()),
  ]);
}

const signedFaults = {
  "something in the fee payer's place": (signed) =>
    withSignature(signed, 0, new Uint8Array(SIGNATURE_BYTES).fill(7)),
  "nothing in the payer's place": (signed) =>
    withSignature(signed, 1, new Uint8Array(SIGNATURE_BYTES)),
  "a bit of the payer's signature flipped": (signed) => {
    const signature = signatureOf(signed, 1);
    return withSignature(signed, 1, signature.with(0, (signature[0] ?? 0) ^ 1));
  },
  "the group order added to the payer's signature": (signed) =>
    withSignature(signed, 1, plusGroupOrder(signatureOf(signed, 1))),
  "the payer's signature in the fee payer's place": (signed) => {
    const moved = withSignature(signed, 0, signatureOf(signed, 1));
    return withSignature({ ...signed, bytes: moved }, 1, signatureOf(signed, 0));
  },
  "a byte of the message changed": ({ bytes, offset, count }) => {
    // The last byte of the message: of the memo's text, where there is one.
    const place = offset === 1 ? bytes.length - 2 : bytes.length - count * SIGNATURE_BYTES - 1;
    return bytes.with(place, (bytes[place] ?? 0) ^ 1);
  },
  "a byte behind its end": ({ bytes }) => Buffer.concat([bytes, Buffer.of(0)]),
  "its last byte missing": ({ bytes }) => bytes.subarray(0, -1),
  "a hundred bytes missing": ({ bytes }) => bytes.subarray(0, -100),
  "half of it missing": ({ bytes }) => bytes.subarray(0, bytes.length / 2),
  "one signature more": ({ bytes }) =>
    Buffer.concat([
      Buffer.of((bytes[0] ?? 0) + 1),
      new Uint8Array(SIGNATURE_BYTES),
      bytes.subarray(1),
    ]),
  "one signature less": ({ bytes }) =>
    Buffer.concat([Buffer.of((bytes[0] ?? 0) - 1), bytes.subarray(1 + SIGNATURE_BYTES)]),
  "the number of signatures in two bytes": ({ bytes, count }) =>
    Buffer.concat([compactLength(count, 1), bytes.subarray(1)]),
} satisfies Record<string, (signed: Signed) => Uint8Array>;

export type SignedFault = keyof typeof signedFaults;

const textFaults = {
  "without padding": (text) => text.replace(/=+$/, ""),
  "in the URL alphabet": (text) => text.replaceAll("+", "-").replaceAll("/", "_"),
  "with a line break": (text) => `${text.slice(0, 76)}\n${text.slice(76)}`,
  "with a space before it": (text) => ` ${text}`,
  "with padding that it does not need": (text) => `${text}====`,
  "with bits that count for nothing": (text) => {
    const last = text.replace(/=+$/, "").at(-1) ?? "";
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const other = alphabet[alphabet.indexOf(last) + 1] ?? "";
    return text.replace(/.(?==+$)/, other);
  },
  "as nothing at all": () => "",
} satisfies Record<string, (text: string) => string>;

export type TextFault = keyof typeof textFaults;

export const MESSAGE_FAULTS = [...Object.keys(sayings), ...Object.keys(writings)] as MessageFault[];
export const SIGNED_FAULTS = Object.keys(signedFaults) as SignedFault[];
export const TEXT_FAULTS = Object.keys(textFaults) as TextFault[];

const isSaying = (fault: MessageFault): fault is keyof typeof sayings => fault in sayings;

/**
 * A transaction with another message, signed anew by those of the signers whom it asks for; the fee payer's
 * place stays empty.
 */
export function spoilMessage(
  transaction: string,
  faults: readonly MessageFault[],
  signers: readonly Keypair[],
): string {
  const read = readOrThrow(transaction);
  const decoded = decodeMessage(read);
  if (!decoded.ok) throw new Error(decoded.error.detail);
  let message = decoded.value;
  for (const fault of faults) if (isSaying(fault)) message = sayings[fault](message);
  // In the older versions the first part is the number of signatures.
  let parts: readonly Part[] = partsOf(message, []).slice(message.version === 1 ? 0 : 1);
  for (const fault of faults) if (!isSaying(fault)) parts = writings[fault](parts);
  const written = join(parts);
  return signedText(message, written, signers);
}

/** Base64 of a message with its signatures, in the order of its version. */
export function signedText(
  { version, requiredSignatures, keys }: Message,
  written: Uint8Array,
  signers: readonly Keypair[],
): string {
  const places = keys.slice(0, requiredSignatures).map((key) => {
    const keypair = signers.find(({ address }) => address === key);
    return keypair?.sign(written) ?? new Uint8Array(SIGNATURE_BYTES);
  });
  const parts =
    version === 1 ? [written, ...places] : [Buffer.of(requiredSignatures), ...places, written];
  return Buffer.concat(parts).toString("base64");
}

/** Each fault finds what the one before has left. */
export function spoilSigned(transaction: string, faults: readonly SignedFault[]): string {
  const { signaturesOffset, signatures } = readOrThrow(transaction);
  const where = { offset: signaturesOffset, count: signatures.length };
  // Not a Buffer: its slices would share its bytes.
  let bytes = new Uint8Array(Buffer.from(transaction, "base64"));
  for (const fault of faults) bytes = new Uint8Array(signedFaults[fault]({ bytes, ...where }));
  return Buffer.from(bytes).toString("base64");
}

/** @throws {Error} where the fault changes nothing */
export function spoilText(transaction: string, fault: TextFault): string {
  const spoiled = textFaults[fault](transaction);
  if (spoiled === transaction) throw new Error(`there is no text ${fault}`);
  return spoiled;
}

function readOrThrow(transaction: string): SolanaTransaction {
  const read = readSolanaTransaction(transaction);
  if (!read.ok) throw new Error(read.error.detail);
  return read.value;
}
