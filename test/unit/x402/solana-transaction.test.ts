import { createHash } from "node:crypto";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Message } from "../../../src/mechanism/solana/message.ts";
import { parsePaymentPayload } from "../../../src/x402/schema.ts";
import {
  messageHash,
  readSolanaTransaction,
  DecodedSolanaPayload,
  transactionOf,
  type SolanaTransaction,
} from "../../../src/x402/solana-transaction.ts";
import {
  encodeTransaction,
  join,
  partsOf,
  signaturesOf,
  toBase64,
} from "../mechanism/solana/message-encoder.ts";
import { paymentMessage, testKey } from "../mechanism/solana/payment-message.ts";

function read(base64: string): SolanaTransaction {
  const result = readSolanaTransaction(base64);
  if (!result.ok) throw new Error(result.error.detail);
  return result.value;
}

/** The detail of a refusal, which is always `invalid_payload`. */
function refusal(base64: string): string {
  const result = readSolanaTransaction(base64);
  if (result.ok) return "accepted";
  expect(result.error.code).toBe("invalid_payload");
  return result.error.detail;
}

/** What the wire schema says of a payment with that transaction. */
function parsed(transaction: string): string {
  const payload = { transaction };
  const json = { x402Version: 1, scheme: "exact", network: "solana", payload };
  const result = parsePaymentPayload(json, 1);
  return result.ok ? "accepted" : `${result.error.code}: ${result.error.detail}`;
}

const bytesOf = (message: Message, signatures = signaturesOf(message.requiredSignatures)) =>
  join(partsOf(message, signatures));
const VERSIONS = ["legacy", 0, 1] as const;

describe.each(VERSIONS)("a transaction of version %s", (version) => {
  const message = paymentMessage({ version });
  const bytes = bytesOf(message);
  const transaction = read(toBase64(bytes));

  test("is cut into signatures and message, which are views of it", () => {
    expect(transaction.version).toBe(version);
    expect(transaction.bytes).toEqual(bytes);
    expect(transaction.signatures).toEqual(signaturesOf(2));
    const signedPart = version === 1 ? bytes.subarray(0, -128) : bytes.subarray(129);
    expect(transaction.message).toEqual(signedPart);
    expect(transaction.signaturesOffset).toBe(version === 1 ? bytes.length - 128 : 1);
    for (const view of [transaction.message, ...transaction.signatures]) {
      expect(view.buffer).toBe(transaction.bytes.buffer);
    }
  });

  test("names fee payer and payer", () => {
    expect(transaction.feePayer).toBe(message.keys[0]);
    expect(transaction.payer).toBe(message.keys[1]);
  });

  test.each([1, 3, 4])("names no payer where %i signatures are required", (requiredSignatures) => {
    const other = read(encodeTransaction({ ...message, requiredSignatures }));
    expect(other.feePayer).toBe(message.keys[0]);
    expect(other.payer).toBe(undefined);
    expect(other.signatures).toHaveLength(requiredSignatures);
  });

  test("is the payment of its message: the hash is that of the signed bytes", () => {
    const expected = createHash("sha256").update(transaction.message).digest("hex");
    expect(messageHash(transaction)).toBe(expected);
  });

  test("is refused where it requires no signature", () => {
    expect(refusal(toBase64(bytesOf({ ...message, requiredSignatures: 0 })))).toMatch(
      /requires 0 signatures/,
    );
  });

  test("is refused where it requires more signatures than it has keys", () => {
    const keys = message.keys.slice(0, 2);
    expect(refusal(encodeTransaction({ ...message, keys, requiredSignatures: 3 }))).toMatch(
      /requires 3 signatures, and names 2 accounts/,
    );
  });

  test("is refused where it ends before its keys do", () => {
    const headerBytes = { legacy: 1 + 128 + 4, 0: 1 + 128 + 5, 1: 42 + 128 }[version];
    const end = headerBytes + message.keys.length * 32;
    expect(refusal(toBase64(bytes.subarray(0, end)))).toBe("accepted");
    for (let length = 0; length < end; length += 1) {
      expect(refusal(toBase64(bytes.subarray(0, length))), `${length}`).toMatch(
        /cut short|shorter than its signatures|signatures, and/,
      );
    }
  });

  test("is read up to its largest size, and not beyond", () => {
    const most = version === 1 ? 4096 : 1232;
    const [first] = message.instructions;
    if (first === undefined) throw new Error("there is no instruction");
    const withData = (length: number): Uint8Array =>
      bytesOf({ ...message, instructions: [{ ...first, data: new Uint8Array(length) }] });
    const room = 200 + most - withData(200).length;
    expect(withData(room)).toHaveLength(most);
    expect(refusal(toBase64(withData(room)))).toBe("accepted");
    expect(refusal(toBase64(withData(room + 1)))).toMatch(`more than ${most}`);
  });
});

describe("base64", () => {
  const text = encodeTransaction(paymentMessage({ version: 0, memoBytes: 33 }));

  test("of a transaction has one spelling", () => {
    for (const memoBytes of [31, 32, 33]) {
      const canonical = encodeTransaction(paymentMessage({ version: 0, memoBytes }));
      expect(refusal(canonical)).toBe("accepted");
      const bare = canonical.replace(/=+$/, "");
      const spare = `${bare.slice(0, -1)}${String.fromCharCode(bare.charCodeAt(bare.length - 1) + 1)}`;
      const others = [
        `${canonical}=`,
        `${canonical}====`,
        `${canonical}AAAA=`,
        ` ${canonical}`,
        `${canonical}\n`,
        `${canonical.slice(0, 76)}\n${canonical.slice(76)}`,
        `${canonical.slice(0, 40)}-${canonical.slice(40)}`,
        `${canonical}\u{1f4b0}`,
        `${canonical}\ud83d`,
        ...(bare === canonical ? [] : [bare, `${bare}=A`, spare + canonical.slice(bare.length)]),
      ];
      for (const other of others) expect(refusal(other)).toMatch(/not canonical base64/);
    }
  });

  test("in the URL-safe alphabet is refused", () => {
    const safe = text.replaceAll("+", "-").replaceAll("/", "_");
    expect(safe).not.toBe(text);
    expect(refusal(safe)).toMatch(/not canonical base64/);
  });

  test("longer than the largest transaction is refused by reader and wire schema, and that one by neither", () => {
    const largest = toBase64(new Uint8Array(4096));
    expect(largest).toHaveLength(5464);
    expect(parsed(largest)).toBe("accepted");
    const longer = toBase64(new Uint8Array(4099));
    expect(parsed(longer)).toBe("invalid_payload: payload.transaction is too long");
    expect(refusal(longer)).toMatch(/longer than 5464 characters/);
  });

  test("of 4097 and 4098 bytes is as long as that of 4096, and refused all the same", () => {
    const [first] = paymentMessage({ version: 1 }).instructions;
    if (first === undefined) throw new Error("there is no instruction");
    const empty = bytesOf({ ...paymentMessage({ version: 1 }), instructions: [first] });
    for (const length of [4097, 4098]) {
      const data = new Uint8Array(first.data.length + length - empty.length);
      const bytes = bytesOf({
        ...paymentMessage({ version: 1 }),
        instructions: [{ ...first, data }],
      });
      expect(toBase64(bytes)).toHaveLength(5464);
      expect(refusal(toBase64(bytes))).toMatch("more than 4096");
    }
  });
});

describe("other transactions", () => {
  const legacy = paymentMessage({ version: "legacy" });

  test("with another number of signatures than required are refused", () => {
    for (const version of ["legacy", 0] as const) {
      for (const count of [0, 1, 3]) {
        const text = toBase64(bytesOf({ ...legacy, version }, signaturesOf(count)));
        expect(refusal(text)).toMatch(`has ${count} signatures, and requires 2`);
      }
    }
  });

  test("of a version that is not known are refused, wherever they say it", () => {
    const bytes = bytesOf({ ...legacy, version: 0 });
    for (const prefix of [0x82, 0x83, 0xff]) {
      expect(refusal(toBase64(bytes.with(129, prefix)))).toMatch(/another version/);
      expect(refusal(toBase64(bytes.with(0, prefix)))).not.toBe("accepted");
    }
    expect(refusal(toBase64(bytes.with(0, 0x80)))).not.toBe("accepted");
  });

  test("of version 1 behind signatures are refused: there they are not signed as they are sent", () => {
    const { message } = read(encodeTransaction(paymentMessage({ version: 1 })));
    const text = toBase64(Buffer.concat([Uint8Array.of(2), ...signaturesOf(2), message]));
    expect(refusal(text)).toMatch(/another version/);
  });

  test("of version 1 are refused when they are shorter than their signatures", () => {
    const message = paymentMessage({ version: 1 });
    const keys = Array.from({ length: 12 }, (_, index) => testKey(`signer ${index}`));
    const bytes = bytesOf({ ...message, keys, requiredSignatures: 12 });
    for (let length = 2; length < 12 * 64; length += 1) {
      expect(refusal(toBase64(bytes.subarray(0, length)))).toMatch(/shorter than its signatures/);
    }
  });

  test("are refused, and nothing is thrown, whatever the text", () => {
    const texts = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.base64String({ maxLength: 600 }),
      fc.uint8Array({ maxLength: 300 }).map(toBase64),
      fc
        .uint8Array({ minLength: 1, maxLength: 200 })
        .map((rest) => toBase64(Uint8Array.of(0x81, ...rest))),
    );
    fc.assert(
      fc.property(texts, (text) => {
        const result = readSolanaTransaction(text);
        expect(result.ok || result.error.code).toMatch(/true|invalid_payload/);
      }),
      { numRuns: 3_000 },
    );
  });
});

describe("the transaction of a payload", () => {
  test("is read once where it was decoded, and is written as it came", () => {
    for (const transaction of [encodeTransaction(paymentMessage({ version: 0 })), "AA=="]) {
      const payload = new DecodedSolanaPayload(transaction);
      expect(transactionOf(payload)).toBe(transactionOf(payload));
      expect(transactionOf({ transaction })).toEqual(transactionOf(payload));
      expect(JSON.stringify(payload)).toBe(JSON.stringify({ transaction }));
    }
  });
});
