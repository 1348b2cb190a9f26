import { inspect } from "node:util";
import * as fc from "fast-check";
import {
  keccak256,
  parseTransaction,
  recoverTransactionAddress,
  type Hex,
  type TransactionSerialized,
} from "viem";
import { describe, expect, test } from "vitest";
import { Account } from "../../../../src/mechanism/evm/account.ts";
import { signTransaction } from "../../../../src/mechanism/evm/transaction.ts";
import { freshAccount } from "../../../support/payer.ts";

const { account: reference, address, privateKey } = freshAccount();
const account = new Account(privateKey);

const wei = fc.bigInt({ min: 0n, max: 2n ** 80n });
const call = fc.record({
  chainId: fc.integer({ min: 1, max: 2 ** 32 }),
  nonce: fc.oneof(fc.nat(300), fc.integer({ min: 0, max: 2 ** 48 })),
  gasLimit: fc.bigInt({ min: 0n, max: 2n ** 40n }),
  to: fc
    .uint8Array({ minLength: 20, maxLength: 20 })
    .map((bytes): Hex => `0x${Buffer.from(bytes).toString("hex")}`),
  data: fc.uint8Array({ maxLength: 700 }).map((bytes) => Buffer.from(bytes).toString("hex")),
});

describe("a signed transaction", () => {
  test("has the bytes of a general implementation (EIP-1559)", async () => {
    await fc.assert(
      fc.asyncProperty(call, wei, wei, async (members, tip, above) => {
        const maxFeePerGas = tip + above;
        const fees = { kind: "eip1559", maxFeePerGas, maxPriorityFeePerGas: tip } as const;
        const { hash, raw } = signTransaction({ ...members, fees }, account);
        const expected = await reference.signTransaction({
          type: "eip1559",
          chainId: members.chainId,
          nonce: members.nonce,
          gas: members.gasLimit,
          to: members.to,
          data: `0x${members.data}`,
          maxFeePerGas,
          maxPriorityFeePerGas: tip,
        });
        expect(raw).toBe(expected);
        expect(hash).toBe(keccak256(expected));
      }),
      { numRuns: 60 },
    );
  });

  test("has the bytes of a general implementation (EIP-155)", async () => {
    await fc.assert(
      fc.asyncProperty(call, wei, async (members, gasPrice) => {
        const { hash, raw } = signTransaction(
          { ...members, fees: { kind: "legacy", gasPrice } },
          account,
        );
        const expected = await reference.signTransaction({
          type: "legacy",
          chainId: members.chainId,
          nonce: members.nonce,
          gas: members.gasLimit,
          to: members.to,
          data: `0x${members.data}`,
          gasPrice,
        });
        expect(raw).toBe(expected);
        expect(hash).toBe(keccak256(expected));
      }),
      { numRuns: 60 },
    );
  });

  test("recovers to our account and carries no value", async () => {
    const fees = { kind: "eip1559", maxFeePerGas: 5n, maxPriorityFeePerGas: 1n } as const;
    const to = "0x036cbd53842c5426634e7929541ec2318f3dcf7e";
    const members = { chainId: 84_532, nonce: 0, gasLimit: 21_000n, to, data: "00" };
    const raw = signTransaction({ ...members, fees }, account).raw as TransactionSerialized;
    expect(await recoverTransactionAddress({ serializedTransaction: raw })).toBe(address);
    expect(parseTransaction(raw).value ?? 0n).toBe(0n);
  });
});

describe("an account", () => {
  test("has the address of its key, with its checksum", () => {
    expect(account.address).toBe(address);
  });

  test("does not show its key", () => {
    const digits = privateKey.slice(2);
    const shown = [
      JSON.stringify(account),
      inspect(account, { depth: 9, showHidden: true }),
      JSON.stringify(Object.getOwnPropertyDescriptors(account)),
    ].join(" ");
    expect(shown).not.toContain(digits);
    expect(shown).not.toContain(Buffer.from(digits, "hex").toString("base64"));
  });

  test.each([
    ["too short", "0x1234"],
    ["without 0x", "11".repeat(32)],
    ["zero", `0x${"00".repeat(32)}`],
    ["beyond the order of the curve", `0x${"ff".repeat(32)}`],
  ])("refuses a key that is %s without repeating it", (_title, key) => {
    expect(() => new Account(key)).toThrow(TypeError);
    expect(() => new Account(key)).not.toThrow(key.slice(2));
  });
});
