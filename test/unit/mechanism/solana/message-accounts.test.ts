import {
  decompileTransactionMessage,
  getCompiledTransactionMessageDecoder,
  isSignerRole,
  isWritableRole,
  type Instruction,
} from "@solana/kit";
import { describe, expect, test } from "vitest";
import {
  decodeMessage,
  isSigner,
  isWritable,
  resolve,
  type Message,
} from "../../../../src/mechanism/solana/message.ts";
import { readSolanaTransaction } from "../../../../src/x402/solana-transaction.ts";
import { toBase64 } from "./message-encoder.ts";
import { paymentMessage, testKey } from "./payment-message.ts";
import { corpusOf } from "./transaction-corpus.ts";

describe("the accounts of a message", () => {
  test.each(corpusOf(11))("are those that kit finds, with their roles: $name", (member) => {
    const transaction = readSolanaTransaction(toBase64(member.bytes));
    if (!transaction.ok) throw new Error(transaction.error.detail);
    const decoded = decodeMessage(transaction.value);
    if (!decoded.ok) throw new Error(decoded.error.detail);
    const message = resolve(decoded.value, new Map(Object.entries(member.tables)));
    if (message === undefined) throw new Error("a table is missing");
    const kit = decompileTransactionMessage(
      getCompiledTransactionMessageDecoder().decode(transaction.value.message),
      { addressesByLookupTableAddress: member.tables },
    );
    const ours = message.instructions.map(({ program, accounts }) => ({
      programAddress: message.accounts[program],
      accounts: Array.from(accounts, (index) => ({
        address: message.accounts[index],
        isSigner: isSigner(message, index),
        isWritable: isWritable(message, index),
      })),
    }));
    const instructions: readonly Instruction[] = kit.instructions;
    const theirs = instructions.map(({ programAddress, accounts = [] }) => ({
      programAddress,
      accounts: accounts.map(({ address, role }) => ({
        address,
        isSigner: isSignerRole(role),
        isWritable: isWritableRole(role),
      })),
    }));
    expect(ours).toEqual(theirs);
    expect(kit.feePayer.address).toBe(message.accounts[0]);
  });
});

describe("lookup tables", () => {
  const [one, other] = [testKey("one table"), testKey("other table")];
  const message: Message = {
    ...paymentMessage({ version: 0 }),
    lookups: [
      { table: one, writable: Uint8Array.of(2, 0), readonly: Uint8Array.of(1) },
      { table: other, writable: Uint8Array.of(0), readonly: Uint8Array.of(3) },
    ],
  };
  const tables = new Map([
    [one, ["a", "b", "c"].map(testKey)],
    [other, ["d", "e", "f", "g"].map(testKey)],
  ]);

  test("are resolved in the runtime's order: static, writable of all tables, read-only of all", () => {
    const expected = [...message.keys, ...["c", "a", "d", "b", "g"].map(testKey)];
    expect(resolve(message, tables)?.accounts).toEqual(expected);
  });

  test("make accounts writable that are looked up as such, and no signers", () => {
    const roles = Array.from({ length: 14 }, (_, index) => isWritable(message, index));
    expect(roles.slice(7)).toEqual([true, true, true, false, false, false, false]);
    for (let index = 7; index < 12; index += 1) expect(isSigner(message, index)).toBe(false);
  });

  test("are missed when there is none of that address", () => {
    expect(resolve(message, new Map())).toBe(undefined);
    expect(resolve(message, new Map([...tables].slice(0, 1)))).toBe(undefined);
  });

  test("are missed when they are too short", () => {
    const short = new Map(tables).set(other, ["d", "e", "f"].map(testKey));
    expect(resolve(message, short)).toBe(undefined);
  });

  test("must not bring an account a second time, which the runtime refuses", () => {
    const withStatic = new Map(tables).set(one, ["a", "payer", "c"].map(testKey));
    expect(resolve(message, withStatic)).toBe(undefined);
    const withSame = new Map(tables).set(other, ["d", "e", "f", "c"].map(testKey));
    expect(resolve(message, withSame)).toBe(undefined);
  });

  test("are not asked for by a message without lookups", () => {
    for (const version of ["legacy", 0, 1] as const) {
      const plain = paymentMessage({ version });
      expect(resolve(plain, new Map())?.accounts).toEqual(plain.keys);
    }
  });
});
