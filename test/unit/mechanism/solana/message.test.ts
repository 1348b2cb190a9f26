import * as fc from "fast-check";
import { FailedTransactionMetadata } from "litesvm";
import { LiteSvm } from "litesvm/dist/internal.js";
import { describe, expect, test } from "vitest";
import { decodeMessage, type Message } from "../../../../src/mechanism/solana/message.ts";
import {
  readSolanaTransaction,
  type SolanaTransaction,
} from "../../../../src/x402/solana-transaction.ts";
import {
  compactLength,
  encodeTransaction,
  join,
  partsOf,
  signaturesOf,
  toBase64,
  type Part,
} from "./message-encoder.ts";
import { paymentMessage, testKey } from "./payment-message.ts";
import { corpusOf } from "./transaction-corpus.ts";

const VERSIONS = ["legacy", 0, 1] as const;
const NOTHING = new Uint8Array(0);

function transactionOf(base64: string): SolanaTransaction {
  const transaction = readSolanaTransaction(base64);
  if (!transaction.ok) throw new Error(transaction.error.detail);
  return transaction.value;
}

/** The decoded message of bytes that are accepted. */
function decoded(bytes: Uint8Array): Message {
  const message = decodeMessage(transactionOf(toBase64(bytes)));
  if (!message.ok) throw new Error(message.error.detail);
  return message.value;
}

/** `accepted`, or the detail of the refusal, which is always `invalid_payload`. */
function judgedBytes(bytes: Uint8Array): string {
  const transaction = readSolanaTransaction(toBase64(bytes));
  const message = transaction.ok ? decodeMessage(transaction.value) : transaction;
  if (message.ok) return "accepted";
  expect(message.error.code).toBe("invalid_payload");
  return message.error.detail;
}

const bytesOf = (message: Message): Uint8Array =>
  join(partsOf(message, signaturesOf(message.requiredSignatures)));
const judged = (message: Message): string => judgedBytes(bytesOf(message));

describe.each(VERSIONS)("a message of version %s", (version) => {
  const message = paymentMessage({ version });

  test("is read as it was written", () => {
    expect(decoded(bytesOf(message))).toEqual(message);
  });

  test("is not copied: accounts and data are views of the transaction", () => {
    const transaction = transactionOf(encodeTransaction(message));
    const result = decodeMessage(transaction);
    for (const { accounts, data } of (result.ok && result.value.instructions) || []) {
      expect(accounts.buffer).toBe(transaction.bytes.buffer);
      expect(data.buffer).toBe(transaction.bytes.buffer);
    }
    expect(result.ok && result.value.instructions).toHaveLength(2);
  });

  test("is refused when it is cut short anywhere", () => {
    const end = message.version === 1 ? -128 : undefined;
    const whole = bytesOf(message).subarray(0, end);
    const trailer = version === 1 ? Buffer.concat(signaturesOf(2)) : NOTHING;
    for (let length = 1; length < whole.length; length += 1) {
      const bytes = new Uint8Array(Buffer.concat([whole.subarray(0, length), trailer]));
      expect(judgedBytes(bytes), `${length}`).not.toBe("accepted");
    }
  });

  test("is refused with anything behind it", () => {
    const parts = partsOf(message, signaturesOf(2));
    const last = parts.findLastIndex(({ kind }) => kind !== "signature");
    for (const extra of [[0], [0, 0, 0], Array.from({ length: 64 }, () => 0)]) {
      const part: Part = { kind: "data", bytes: Uint8Array.from(extra) };
      expect(judgedBytes(join(parts.toSpliced(last + 1, 0, part)))).toMatch(
        `has ${extra.length} bytes left over`,
      );
    }
  });
});

describe("a length", () => {
  const corpus = corpusOf(7).filter(({ bytes }) => decoded(bytes).version !== 1);

  test("is written in the shortest way only, wherever it stands", () => {
    let lengths = 0;
    for (const { bytes, name } of corpus) {
      const message = decoded(bytes);
      const parts = partsOf(message, signaturesOf(message.requiredSignatures));
      for (const [place, { kind, bytes: length }] of parts.entries()) {
        if (kind !== "count") continue;
        lengths += 1;
        const value = ((length[0] ?? 0) % 128) | ((length[1] ?? 0) << 7);
        expect(length).toEqual(compactLength(value));
        for (const spare of [1, 2, 3]) {
          const longer = { kind, bytes: compactLength(value, spare) };
          expect(judgedBytes(join(parts.with(place, longer))), name).not.toBe("accepted");
        }
      }
    }
    expect(lengths).toBeGreaterThan(200);
  });

  test("takes one byte up to 127, two from there on, and never more than 16 bits", () => {
    const message = paymentMessage({ version: 0 });
    for (const memoBytes of [0, 1, 126, 127, 128, 129, 255, 256, 700]) {
      const long = paymentMessage({ version: 0, memoBytes });
      expect(decoded(bytesOf(long))).toEqual(long);
    }
    const parts = partsOf(message, signaturesOf(2));
    const last = parts.findLastIndex(({ kind }) => kind === "count");
    for (const bytes of [[0x80, 0x80, 0x04], [0xff, 0xff, 0xff], [0x80, 0x80, 0x80, 1], [0x80]]) {
      const part: Part = { kind: "count", bytes: Uint8Array.from(bytes) };
      expect(judgedBytes(join(parts.with(last, part)))).toMatch(/uncommon way|cut short/);
    }
  });
});

describe("the configuration mask", () => {
  const message = paymentMessage({ version: 1 });
  const values = {
    priorityFeeLamports: 2n ** 64n - 1n,
    computeUnitLimit: 2 ** 32 - 1,
    loadedAccountsBytes: 2 ** 31,
    heapBytes: 64 * 1024,
  };

  test("says which values there are, in each combination", () => {
    const names = ["priorityFeeLamports", "computeUnitLimit", "loadedAccountsBytes", "heapBytes"];
    for (let chosen = 0; chosen < 16; chosen += 1) {
      const config = Object.fromEntries(
        Object.entries(values).map(([name, value]) => [
          name,
          (chosen & (1 << names.indexOf(name))) === 0 ? null : value,
        ]),
      );
      const configured = { ...message, config: { ...values, ...config } };
      expect(decoded(bytesOf(configured))).toEqual(configured);
    }
  });

  test.each(Array.from({ length: 32 }, (_, bit) => bit))(
    "is refused where bit %i, alone and without a value, is set",
    (bit) => {
      const parts = partsOf(message, signaturesOf(2));
      const place = parts.findIndex(({ kind }) => kind === "mask");
      const mask = Buffer.alloc(4);
      mask.writeUInt32LE(2 ** bit);
      const expected = bit < 2 || bit > 4 ? /mask that is not known/ : /./;
      const answer = judgedBytes(join(parts.with(place, { kind: "mask", bytes: mask })));
      expect(answer).toMatch(expected);
      expect(answer).not.toBe("accepted");
    },
  );
});

/** The runtime's error for what fails its sanitization; LiteSVM has it as a constant enum only. */
const SANITIZE_FAILURE = 13;

/** What the runtime says: `sanitized` for whatever came past its sanitization, however it ended. */
function runtimeSays(message: Message): string {
  const runtime = new LiteSvm();
  runtime.setSigverify(false);
  runtime.setBlockhashCheck(false);
  const result = runtime.sendVersionedTransaction(bytesOf(message));
  if (!(result instanceof FailedTransactionMetadata)) return "sanitized";
  return Number(result.err()) === SANITIZE_FAILURE ? "refused" : "sanitized";
}

const plain = (program: number): Message["instructions"][number] => ({
  program,
  accounts: NOTHING,
  data: NOTHING,
});
const withKeys = (message: Message, count: number): Message => ({
  ...message,
  keys: Array.from({ length: count }, (_, index) => testKey(`key ${index}`)),
});
const times = (count: number, program: number): Message["instructions"] =>
  Array.from({ length: count }, () => plain(program));
const naming = (count: number, account = 0): Message["instructions"] => [
  { ...plain(5), accounts: new Uint8Array(count).fill(account) },
];
const looking = (writable: number, readonly = 0): Message["lookups"] => [
  {
    table: testKey("table"),
    writable: new Uint8Array(writable),
    readonly: new Uint8Array(readonly),
  },
];
const heap = (message: Message, heapBytes: number): Message => ({
  ...message,
  config: message.config === null ? null : { ...message.config, heapBytes },
});
const signed = (message: Message, count: number): Message => ({
  ...withKeys(message, count + 4),
  requiredSignatures: count,
});

const [legacy, v0, v1] = [
  paymentMessage({ version: "legacy" }),
  paymentMessage({ version: 0 }),
  paymentMessage({ version: 1 }),
] as const;

/** Name, message, and what is said of it when it is refused. Seven keys, two signers, five other accounts. */
const RULES: readonly (readonly [string, Message, RegExp])[] = [
  ["no writable signer", { ...legacy, readonlySigned: 2 }, /no writable signer/],
  ["no writable signer, version 1", { ...v1, readonlySigned: 2 }, /no writable signer/],
  ["more read-only signers than signers", { ...v0, readonlySigned: 255 }, /no writable signer/],
  ["more read-only accounts than accounts", { ...legacy, readonlyUnsigned: 6 }, /fewer accounts/],
  ["the same in version 1", { ...v1, readonlyUnsigned: 6 }, /fewer accounts/],
  ["the fee payer as a program", { ...legacy, instructions: times(1, 0) }, /not a static account/],
  ["the fee payer as a program, version 1", { ...v1, instructions: times(1, 0) }, /not a static/],
  ["a program that is not there", { ...legacy, instructions: times(1, 7) }, /not a static account/],
  [
    "a program out of a lookup table",
    { ...v0, instructions: times(1, 7), lookups: looking(1) },
    /instruction 0, a program that is not a static account/,
  ],
  ["a program that is not there, version 1", { ...v1, instructions: times(1, 7) }, /not a static/],
  ["an account that is not there", { ...legacy, instructions: naming(1, 7) }, /not there/],
  [
    "an account behind those that are looked up",
    { ...v0, instructions: naming(1, 10), lookups: looking(1, 2) },
    /an account that is not there/,
  ],
  ["an account that is not there, version 1", { ...v1, instructions: naming(1, 7) }, /not there/],
  ["a lookup of nothing", { ...v0, lookups: looking(0) }, /takes nothing from/],
  ["257 accounts", { ...v0, lookups: looking(200, 50) }, /more than 256 accounts/],
  [
    "65 instructions, version 1",
    { ...v1, instructions: times(65, 5) },
    /more than 64 instructions/,
  ],
  ["65 keys, version 1", withKeys(v1, 65), /more than 64 accounts/],
  ["13 signers, version 1", signed(v1, 13), /more than 12 signatures/],
  ["a heap below 32 KiB", heap(v1, 31 * 1024), /heap/],
  ["a heap above 256 KiB", heap(v1, 257 * 1024), /heap/],
  ["a heap of odd size", heap(v1, 64 * 1024 + 1), /heap/],
  ["a heap of nothing", heap(v1, 0), /heap/],
];

/** The runtime refuses these, too, but later than its sanitization. */
const LATER_RULES: readonly (readonly [string, Message, RegExp])[] = [
  ["a key twice", { ...legacy, keys: legacy.keys.with(4, testKey("payer")) }, /account twice/],
  ["65 instructions", { ...legacy, instructions: times(65, 5) }, /more than 64 instructions/],
  ["256 accounts in an instruction", { ...v0, instructions: naming(256) }, /too many accounts/],
];

const BOUNDARIES: readonly (readonly [string, Message])[] = [
  ["one writable signer", { ...legacy, readonlySigned: 1 }],
  ["every other account read-only", { ...legacy, readonlyUnsigned: 5 }],
  ["the last account as a program", { ...legacy, instructions: times(1, 6) }],
  [
    "the last account that is looked up",
    { ...v0, instructions: naming(1, 9), lookups: looking(1, 2) },
  ],
  ["256 accounts", { ...v0, lookups: looking(200, 49) }],
  ["64 instructions", { ...legacy, instructions: times(64, 5) }],
  ["64 instructions, version 1", { ...v1, instructions: times(64, 5) }],
  ["255 accounts in an instruction", { ...v0, instructions: naming(255) }],
  ["255 accounts in an instruction, version 1", { ...v1, instructions: naming(255) }],
  ["64 keys, version 1", withKeys(v1, 64)],
  ["12 signers, version 1", signed(v1, 12)],
  ["a heap of 32 KiB", heap(v1, 32 * 1024)],
  ["a heap of 256 KiB", heap(v1, 256 * 1024)],
  ["no instruction", { ...legacy, instructions: [] }],
];

describe("a message that the runtime would not run", () => {
  test.each([...RULES, ...LATER_RULES])("is refused: %s", (_, message, detail) => {
    expect(judged(message)).toMatch(detail);
  });

  test.each(RULES)("is refused by the runtime's sanitization, too: %s", (_, message) => {
    expect(runtimeSays(message)).toBe("refused");
  });

  test.each(["legacy", 0, 1] as const)("is refused: version %s with any key twice", (version) => {
    const { keys, ...message } = paymentMessage({ version });
    for (let index = 1; index < keys.length; index += 1) {
      const twice = keys.with(index, keys[index - 1] ?? "");
      expect(judged({ ...message, keys: twice })).toMatch(/account twice/);
    }
  });
});

describe("a message at the edge of the rules", () => {
  test.each(BOUNDARIES)("is accepted, by the runtime's sanitization, too: %s", (_, message) => {
    expect(judged(message)).toBe("accepted");
    expect(runtimeSays(message)).toBe("sanitized");
  });
});

describe("any transaction that can be cut into its parts", () => {
  test("is read or refused, and nothing is thrown", () => {
    const bytes = fc.uint8Array({ maxLength: 200 });
    const transaction = fc.record({
      version: fc.constantFrom(...VERSIONS),
      message: bytes,
      bytes,
      signatures: fc.constant([]),
      signaturesOffset: fc.constant(0),
      feePayer: fc.constant(""),
      payer: fc.constant(undefined),
    });
    fc.assert(
      fc.property(transaction, (each) => {
        const result = decodeMessage(each);
        expect(result.ok || result.error.code).toMatch(/true|invalid_payload/);
      }),
      { numRuns: 5_000 },
    );
  });
});
