/**
 * What the public client library (`@solana/kit`) reads in a transaction, in our own terms; and the rules that
 * we hold besides, judged on what it read.
 */
import {
  getCompiledTransactionMessageDecoder,
  getCompiledTransactionMessageEncoder,
  getTransactionDecoder,
  getTransactionEncoder,
  type CompiledTransactionMessage,
  type CompiledTransactionMessageWithLifetime,
} from "@solana/kit";
import type { Message, MessageConfig } from "../../../../src/mechanism/solana/message.ts";

/** A transaction that kit accepts. */
export interface KitReading {
  readonly message: Message;
  readonly messageBytes: Uint8Array;
  /** By address; null for 64 zeros. */
  readonly signatures: ReadonlyMap<string, Uint8Array | null>;
  /** Version 1 only. */
  readonly mask: number;
  /** Bytes of the message that kit did not look at. */
  readonly left: number;
  /** Whether kit writes the same bytes again. */
  isReproduced(): boolean;
}

type Compiled = CompiledTransactionMessage & CompiledTransactionMessageWithLifetime;

const transactionDecoder = getTransactionDecoder();
const transactionEncoder = getTransactionEncoder();
const messageDecoder = getCompiledTransactionMessageDecoder();
const messageEncoder = getCompiledTransactionMessageEncoder();

/** Undefined for what kit refuses. */
export function readWithKit(bytes: Uint8Array): KitReading | undefined {
  try {
    const transaction = transactionDecoder.decode(bytes);
    const messageBytes = new Uint8Array(transaction.messageBytes);
    const [compiled, end] = messageDecoder.read(messageBytes, 0);
    const signatures = new Map(
      Object.entries(transaction.signatures).map(([signer, signature]) => [
        signer,
        signature === null ? null : new Uint8Array(signature),
      ]),
    );
    return {
      message: messageOf(compiled),
      messageBytes,
      signatures,
      mask: compiled.version === 1 ? compiled.configMask : 0,
      left: messageBytes.length - end,
      isReproduced: () => isReproduced(bytes, transaction, compiled),
    };
  } catch {
    return undefined;
  }
}

function isReproduced(
  bytes: Uint8Array,
  transaction: ReturnType<typeof transactionDecoder.decode>,
  compiled: Compiled,
): boolean {
  try {
    const messageBytes = messageEncoder.encode(compiled);
    const written = transactionEncoder.encode(Object.assign({}, transaction, { messageBytes }));
    return Buffer.compare(Uint8Array.from(written), bytes) === 0;
  } catch {
    return false;
  }
}

function messageOf(compiled: Compiled): Message {
  const { header, staticAccounts, lifetimeToken } = compiled;
  const shared = {
    requiredSignatures: header.numSignerAccounts,
    readonlySigned: header.numReadonlySignerAccounts,
    readonlyUnsigned: header.numReadonlyNonSignerAccounts,
    keys: staticAccounts,
    blockhash: lifetimeToken,
  };
  if (compiled.version === 1) {
    const instructions = compiled.instructionHeaders.map(({ programAccountIndex }, index) => ({
      program: programAccountIndex,
      accounts: Uint8Array.from(
        compiled.instructionPayloads[index]?.instructionAccountIndices ?? [],
      ),
      data: Uint8Array.from(compiled.instructionPayloads[index]?.instructionData ?? []),
    }));
    return { ...shared, version: 1, instructions, lookups: [], config: configOf(compiled) };
  }
  const instructions = compiled.instructions.map(
    ({ programAddressIndex, accountIndices = [], data = [] }) => ({
      program: programAddressIndex,
      accounts: Uint8Array.from(accountIndices),
      data: Uint8Array.from(data),
    }),
  );
  const tables = compiled.version === 0 ? (compiled.addressTableLookups ?? []) : [];
  const lookups = tables.map(({ lookupTableAddress, writableIndexes, readonlyIndexes }) => ({
    table: lookupTableAddress,
    writable: Uint8Array.from(writableIndexes),
    readonly: Uint8Array.from(readonlyIndexes),
  }));
  return { ...shared, version: compiled.version, instructions, lookups, config: null };
}

/** Kit lists the values that there are, in the order of the mask's bits. */
function configOf({ configMask, configValues }: Extract<Compiled, { version: 1 }>): MessageConfig {
  const values = configValues.map(({ value }) => value);
  const next = (bit: number): bigint | number | null =>
    (configMask & bit) === 0 ? null : (values.shift() ?? null);
  const long = next(0b1);
  return {
    priorityFeeLamports: long === null ? null : BigInt(long),
    computeUnitLimit: short(next(0b100)),
    loadedAccountsBytes: short(next(0b1000)),
    heapBytes: short(next(0b10000)),
  };
}

function short(value: bigint | number | null): number | null {
  return value === null ? null : Number(value);
}

type Rule = (reading: KitReading, bytes: Uint8Array) => boolean;

const accountCount = ({ keys, lookups }: Message): number =>
  lookups.reduce(
    (sum, lookup) => sum + lookup.writable.length + lookup.readonly.length,
    keys.length,
  );

/**
 * What we refuse and kit accepts: each rule says whether a transaction breaks it. All are the runtime's own
 * (agave's sanitization, packet sizes, SIMD-0160, SIMD-0385, SIMD-0406), or keep one payment from having two
 * spellings.
 */
const STRICTER_RULES: Readonly<Record<string, Rule>> = {
  "longer than its version allows": ({ message }, bytes) =>
    bytes.length > (message.version === 1 && bytes[0] === 0x81 ? 4096 : 1232),
  "bytes left over": ({ left }) => left > 0,
  "no signature required": ({ message }) => message.requiredSignatures === 0,
  "a key twice": ({ message }) => new Set(message.keys).size < message.keys.length,
  "no writable signer": ({ message }) => message.readonlySigned >= message.requiredSignatures,
  "fewer keys than its header counts": ({ message }) =>
    message.requiredSignatures + message.readonlyUnsigned > message.keys.length,
  "unknown bits in the mask": ({ mask }) => mask > 0b11111,
  "more than 64 keys (version 1)": ({ message }) =>
    message.version === 1 && message.keys.length > 64,
  "more than 12 signatures (version 1)": ({ message }) =>
    message.version === 1 && message.requiredSignatures > 12,
  "a heap size that is not allowed": ({ message }) => {
    const heap = message.config?.heapBytes ?? 32_768;
    return heap < 32_768 || heap > 262_144 || heap % 1024 !== 0;
  },
  "more than 64 instructions": ({ message }) => message.instructions.length > 64,
  "more than 256 accounts": ({ message }) => accountCount(message) > 256,
  "a lookup of nothing": ({ message }) =>
    message.lookups.some(({ writable, readonly }) => writable.length + readonly.length === 0),
  "the fee payer as a program": ({ message }) =>
    message.instructions.some(({ program }) => program === 0),
  "a program that is not static": ({ message }) =>
    message.instructions.some(({ program }) => program >= message.keys.length),
  "more than 255 accounts in an instruction": ({ message }) =>
    message.instructions.some(({ accounts }) => accounts.length > 255),
  "an account that is not there": ({ message }) =>
    message.instructions.some(({ accounts }) =>
      accounts.some((account) => account >= accountCount(message)),
    ),
  "other bytes when it is written again": (reading) => !reading.isReproduced(),
};

/** The first rule that a transaction breaks; undefined for one that has to be accepted. */
export function brokenRule(reading: KitReading, bytes: Uint8Array): string | undefined {
  return Object.entries(STRICTER_RULES).find(([, isBroken]) => isBroken(reading, bytes))?.[0];
}
