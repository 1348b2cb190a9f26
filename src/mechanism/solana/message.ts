/**
 * The inside of a Solana transaction: what its message says. Strict: whatever is accepted here encodes to the
 * same bytes again, and has passed the sanitization that the runtime would do before it runs anything.
 */
import { ok, refuse, type Refusal, type Result } from "../../x402/result.ts";
import { ADDRESS_BYTES, encodeBase58 } from "../../x402/solana-address.ts";
import type { SolanaTransaction, TransactionVersion } from "../../x402/solana-transaction.ts";

/** One call of a program. */
export interface Instruction {
  /** Index of the program among the static keys. */
  readonly program: number;
  /** Indices into the resolved accounts: a view into the transaction. */
  readonly accounts: Uint8Array;
  /** A view into the transaction. */
  readonly data: Uint8Array;
}

/** What a message of version 0 takes from one lookup table: indices into the table, views. */
export interface Lookup {
  /** Address of the table, base58. */
  readonly table: string;
  readonly writable: Uint8Array;
  readonly readonly: Uint8Array;
}

/** Version 1 only: what ComputeBudget instructions say in the older versions. Null = not set. */
export interface MessageConfig {
  /** For the whole transaction, not per unit. */
  readonly priorityFeeLamports: bigint | null;
  readonly computeUnitLimit: number | null;
  readonly loadedAccountsBytes: number | null;
  readonly heapBytes: number | null;
}

/** A message whose lookups are not resolved as yet. */
export interface Message {
  readonly version: TransactionVersion;
  readonly requiredSignatures: number;
  /** So many of the last signers are read-only. */
  readonly readonlySigned: number;
  /** So many of the last static keys are read-only. */
  readonly readonlyUnsigned: number;
  /** Static account keys, base58, each once. */
  readonly keys: readonly string[];
  /** Base58; the nonce's value where a durable nonce is used. */
  readonly blockhash: string;
  readonly instructions: readonly Instruction[];
  /** Version 0 only. */
  readonly lookups: readonly Lookup[];
  /** Version 1 only. */
  readonly config: MessageConfig | null;
}

/** A message whose lookups are resolved: all account keys in the runtime's order (static, writable lookups, readonly lookups). */
export interface ResolvedMessage extends Message {
  readonly accounts: readonly string[];
}

/** Accounts that a message may name, looked-up ones included: an index is one byte. */
const MAX_ACCOUNTS = 256;
/** Instructions of a transaction (SIMD-0160, and SIMD-0385 for version 1). */
const MAX_INSTRUCTIONS = 64;
/** Accounts that one instruction may name (SIMD-0406). */
const MAX_INSTRUCTION_ACCOUNTS = 255;
/** Static keys, and signatures, of a message of version 1 (SIMD-0385). */
const MAX_V1_KEYS = 64;
const MAX_V1_SIGNATURES = 12;
/** Heap that a message of version 1 may ask for: whole kibibytes between these. */
const MIN_HEAP_BYTES = 32 * 1024;
const MAX_HEAP_BYTES = 256 * 1024;
const HEAP_UNIT_BYTES = 1024;

/** Bits of version 1's configuration mask; the priority fee takes two words, so it has two. */
const PRIORITY_FEE_BITS = 0b11;
const COMPUTE_UNIT_BIT = 0b100;
const LOADED_ACCOUNTS_BIT = 0b1000;
const HEAP_BIT = 0b10000;
const KNOWN_BITS = 0b11111;

/**
 * Reads a message from its first byte to its last. A read beyond the end gives zeros and still moves on: so
 * nothing throws, and one look at the end tells whether all was there and nothing was left over.
 */
class Reader {
  readonly #bytes: Uint8Array;
  #offset: number;
  /** The first thing that is wrong with what was read, apart from its end. */
  #fault: string | undefined;

  constructor(bytes: Uint8Array, offset: number) {
    this.#bytes = bytes;
    this.#offset = offset;
  }

  /** What is wrong, once everything has been read. */
  get fault(): string | undefined {
    const left = this.#bytes.length - this.#offset;
    if (this.#fault !== undefined || left === 0) return this.#fault;
    return left < 0 ? "is cut short" : `has ${left} bytes left over`;
  }

  fail(fault: string): void {
    this.#fault ??= fault;
  }

  byte(): number {
    const byte = this.#bytes[this.#offset];
    this.#offset += 1;
    return byte ?? 0;
  }

  u16(): number {
    return this.byte() | (this.byte() << 8);
  }

  u32(): number {
    return (this.u16() | (this.u16() << 16)) >>> 0;
  }

  u64(): bigint {
    return BigInt(this.u32()) | (BigInt(this.u32()) << 32n);
  }

  /** A view of so many bytes; of fewer at the end. */
  bytes(count: number): Uint8Array {
    const start = this.#offset;
    this.#offset += count;
    return this.#bytes.subarray(start, this.#offset);
  }

  /**
   * A length of seven bits a byte ("compact-u16"), in the shortest spelling only. A third byte would mean
   * 16,384 and more, which is longer than any transaction.
   */
  length(): number {
    const low = this.byte();
    if (low < 0x80) return low;
    const high = this.byte();
    if (high === 0 || high >= 0x80) this.fail("spells a length in an uncommon way");
    return (low & 0x7f) | (high << 7);
  }

  /** Bytes behind their length. */
  prefixed(): Uint8Array {
    return this.bytes(this.length());
  }

  /** So many values, which take a byte at least; where there are fewer, one is read beyond the end. */
  times<Value>(count: number, read: () => Value): Value[] {
    const values: Value[] = [];
    while (values.length < count && this.#offset <= this.#bytes.length) values.push(read());
    return values;
  }
}

/** A message as it is written: not sanitized, and its keys still bytes. */
type Raw = Omit<Message, "keys" | "blockhash"> & {
  readonly keys: Uint8Array;
  readonly blockhash: Uint8Array;
};

/**
 * The inner half of V11: strict; whatever it accepts encodes to the same bytes again, and would pass the
 * runtime's sanitization. Refusal: `invalid_payload`.
 */
export function decodeMessage(transaction: SolanaTransaction): Result<Message, Refusal> {
  const { version, message } = transaction;
  const reader = new Reader(message, version === "legacy" ? 0 : 1);
  const raw = version === 1 ? readVersion1(reader) : readOlder(reader, version);
  const fault = reader.fault ?? faultOf(raw);
  if (fault !== undefined) return refuse("invalid_payload", `the transaction's message ${fault}`);
  const keys: string[] = [];
  for (let start = 0; start < raw.keys.length; start += ADDRESS_BYTES) {
    keys.push(encodeBase58(raw.keys.subarray(start, start + ADDRESS_BYTES)));
  }
  if (new Set(keys).size < keys.length) {
    return refuse("invalid_payload", "the transaction's message names an account twice");
  }
  return ok({ ...raw, keys, blockhash: encodeBase58(raw.blockhash) });
}

/** Without version, and version 0: they differ in the prefix and in the lookups at the end. */
function readOlder(reader: Reader, version: "legacy" | 0): Raw {
  const header = readHeader(reader);
  const keys = reader.bytes(reader.length() * ADDRESS_BYTES);
  const blockhash = reader.bytes(ADDRESS_BYTES);
  const instructions = reader.times(reader.length(), () => ({
    program: reader.byte(),
    accounts: reader.prefixed(),
    data: reader.prefixed(),
  }));
  const tables = version === 0 ? reader.length() : 0;
  const lookups = reader.times(tables, () => ({
    table: encodeBase58(reader.bytes(ADDRESS_BYTES)),
    writable: reader.prefixed(),
    readonly: reader.prefixed(),
  }));
  return { version, ...header, keys, blockhash, instructions, lookups, config: null };
}

/** Version 1 (SIMD-0385): all counts come before what they count, and lengths are fixed integers. */
function readVersion1(reader: Reader): Raw {
  const header = readHeader(reader);
  const mask = reader.u32();
  const blockhash = reader.bytes(ADDRESS_BYTES);
  const count = reader.byte();
  const keys = reader.bytes(reader.byte() * ADDRESS_BYTES);
  const config = readConfig(reader, mask);
  const shapes = reader.times(count, () => ({
    program: reader.byte(),
    accounts: reader.byte(),
    data: reader.u16(),
  }));
  const instructions = shapes.map(({ program, accounts, data }) => ({
    program,
    accounts: reader.bytes(accounts),
    data: reader.bytes(data),
  }));
  return { version: 1, ...header, keys, blockhash, instructions, lookups: [], config };
}

function readHeader(
  reader: Reader,
): Pick<Message, "requiredSignatures" | "readonlySigned" | "readonlyUnsigned"> {
  return {
    requiredSignatures: reader.byte(),
    readonlySigned: reader.byte(),
    readonlyUnsigned: reader.byte(),
  };
}

function readConfig(reader: Reader, mask: number): MessageConfig {
  const priorityFee = mask & PRIORITY_FEE_BITS;
  if (mask > KNOWN_BITS || (priorityFee !== 0 && priorityFee !== PRIORITY_FEE_BITS)) {
    reader.fail("has a configuration mask that is not known");
  }
  return {
    priorityFeeLamports: priorityFee === 0 ? null : reader.u64(),
    computeUnitLimit: (mask & COMPUTE_UNIT_BIT) === 0 ? null : reader.u32(),
    loadedAccountsBytes: (mask & LOADED_ACCOUNTS_BIT) === 0 ? null : reader.u32(),
    heapBytes: (mask & HEAP_BIT) === 0 ? null : reader.u32(),
  };
}

/** The first rule of the runtime's sanitization that a message breaks, apart from an account named twice. */
function faultOf(raw: Raw): string | undefined {
  const keyCount = raw.keys.length / ADDRESS_BYTES;
  const accountCount = keyCount + lookedUp(raw, "writable") + lookedUp(raw, "readonly");
  if (raw.readonlySigned >= raw.requiredSignatures) return "has no writable signer";
  if (raw.requiredSignatures + raw.readonlyUnsigned > keyCount) {
    return "has fewer accounts than its header counts";
  }
  if (accountCount > MAX_ACCOUNTS) return `names more than ${MAX_ACCOUNTS} accounts`;
  if (raw.lookups.some(({ writable, readonly }) => writable.length + readonly.length === 0))
    return "has a lookup table that it takes nothing from";
  if (raw.instructions.length > MAX_INSTRUCTIONS) {
    return `has more than ${MAX_INSTRUCTIONS} instructions`;
  }
  const fault = raw.config === null ? undefined : version1Fault(raw, raw.config, keyCount);
  return fault ?? instructionFault(raw.instructions, keyCount, accountCount);
}

function version1Fault(
  { requiredSignatures }: Raw,
  { heapBytes }: MessageConfig,
  keyCount: number,
): string | undefined {
  if (keyCount > MAX_V1_KEYS) return `names more than ${MAX_V1_KEYS} accounts`;
  if (requiredSignatures > MAX_V1_SIGNATURES) {
    return `requires more than ${MAX_V1_SIGNATURES} signatures`;
  }
  if (
    heapBytes === null ||
    (heapBytes >= MIN_HEAP_BYTES &&
      heapBytes <= MAX_HEAP_BYTES &&
      heapBytes % HEAP_UNIT_BYTES === 0)
  )
    return undefined;
  return "asks for a heap of a size that is not allowed";
}

function instructionFault(
  instructions: readonly Instruction[],
  keyCount: number,
  accountCount: number,
): string | undefined {
  for (const [index, { program, accounts }] of instructions.entries()) {
    const where = (fault: string): string => `has, in instruction ${index}, ${fault}`;
    // The fee payer cannot be a program; and a program must be known before tables are read.
    if (program === 0 || program >= keyCount)
      return where("a program that is not a static account");
    if (accounts.length > MAX_INSTRUCTION_ACCOUNTS) return where("too many accounts");
    for (const account of accounts) {
      if (account >= accountCount) return where("an account that is not there");
    }
  }
  return undefined;
}

function lookedUp({ lookups }: Pick<Message, "lookups">, kind: "writable" | "readonly"): number {
  return lookups.reduce((sum, lookup) => sum + lookup[kind].length, 0);
}

/** Whether the account of that index signs the message; one that is looked up never does. */
export function isSigner(message: Message, index: number): boolean {
  return index < message.requiredSignatures;
}

/**
 * Whether the message asks for the account of that index, static or looked up, to be writable. The runtime
 * still makes programs and sysvars read-only.
 */
export function isWritable(message: Message, index: number): boolean {
  const { keys, requiredSignatures, readonlySigned, readonlyUnsigned } = message;
  if (index < requiredSignatures) return index < requiredSignatures - readonlySigned;
  if (index < keys.length) return index < keys.length - readonlyUnsigned;
  return index < keys.length + lookedUp(message, "writable");
}

/**
 * Puts the looked-up accounts behind the static ones. `tables`: the addresses of each lookup table by its
 * address. Undefined where a table or an index is missing, and where an account comes up twice, which the
 * runtime refuses ("account loaded twice").
 */
export function resolve(
  message: Message,
  tables: ReadonlyMap<string, readonly string[]>,
): ResolvedMessage | undefined {
  if (message.lookups.length === 0) return { ...message, accounts: message.keys };
  const accounts = [...message.keys];
  for (const kind of ["writable", "readonly"] as const) {
    for (const lookup of message.lookups) {
      for (const index of lookup[kind]) {
        const address = tables.get(lookup.table)?.[index];
        if (address === undefined) return undefined;
        accounts.push(address);
      }
    }
  }
  return new Set(accounts).size < accounts.length ? undefined : { ...message, accounts };
}

/** An instruction with its addresses. */
export interface Found {
  /** Its place in the message, from 0. */
  readonly index: number;
  /** Base58. */
  readonly program: string;
  /** Base58, in the program's order. */
  readonly accounts: readonly string[];
  readonly data: Uint8Array;
}
