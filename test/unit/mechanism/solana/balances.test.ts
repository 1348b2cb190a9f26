import { expect, test } from "vitest";
import {
  BASE_FEE_LAMPORTS,
  FeeBalances,
  RENT_EXEMPT_LAMPORTS,
} from "../../../../src/mechanism/solana/balances.ts";

const [ONE, OTHER] = ["one", "other"];
const SOL = 1_000_000_000n;
const MAX_FEE = 100_000n;
const LOW = RENT_EXEMPT_LAMPORTS + 20n * MAX_FEE;

let nowMs = 1_000_000;

function open(...accounts: readonly string[]): FeeBalances {
  const time = { now: () => nowMs };
  return new FeeBalances({ network: "solana", accounts, maxFeeLamports: MAX_FEE, time });
}

test("a balance pays as often as it can, and the rent stays", () => {
  const balances = open(ONE);
  balances.noted(ONE, RENT_EXEMPT_LAMPORTS + 2n * BASE_FEE_LAMPORTS);
  balances.reserve(ONE, BASE_FEE_LAMPORTS);
  balances.reserve(ONE, BASE_FEE_LAMPORTS);
  expect(balances.canPay(ONE, 1n)).toBe(false);
  expect(() => balances.reserve(ONE, BASE_FEE_LAMPORTS)).toThrow(
    expect.objectContaining({
      code: "CHAIN_GAS",
      message:
        "solana: one has 890880 lamports left for network fees, " +
        "the next settlement may cost 10000, and 890880 must stay; send it SOL",
    }),
  );
});

test("an account that was never read may pay, since the simulation says whether it can", () => {
  const balances = open(ONE);
  balances.reserve(ONE, SOL);
  expect(balances.preferred).toBe(ONE);
});

test("what was promised just before a reading still counts, what was promised earlier does not", () => {
  const balances = open(ONE);
  balances.noted(ONE, SOL);
  balances.reserve(ONE, SOL / 2n);
  nowMs += 5_000;
  balances.noted(ONE, SOL);
  expect(balances.canPay(ONE, (SOL * 2n) / 3n)).toBe(false);
  nowMs += 20_000;
  balances.noted(ONE, SOL);
  expect(balances.canPay(ONE, (SOL * 2n) / 3n)).toBe(true);
});

test("buyers are told the first account that is not low, else the richest", () => {
  const balances = open(ONE, OTHER);
  expect(balances.preferred).toBe(ONE);
  balances.noted(ONE, LOW);
  balances.noted(OTHER, SOL);
  expect(balances.preferred).toBe(ONE);
  balances.reserve(ONE, 1n);
  expect(balances.preferred).toBe(OTHER);
  balances.noted(OTHER, LOW - 2n);
  expect(balances.preferred).toBe(ONE);
  balances.notedShort(ONE);
  expect(balances.preferred).toBe(OTHER);
});

test("an account of which the chain says that it cannot pay does not, until it is read again", () => {
  const balances = open(ONE);
  balances.noted(ONE, SOL);
  balances.notedShort(ONE);
  expect(balances.canPay(ONE, BASE_FEE_LAMPORTS)).toBe(false);
  balances.noted(ONE, SOL);
  expect(balances.canPay(ONE, BASE_FEE_LAMPORTS)).toBe(true);
});

test("a settlement costs two signatures, until others have paid priority fees", () => {
  const balances = open(ONE);
  expect(balances.settlementLamports).toBe(10_000n);
  balances.reserve(ONE, 10_001n);
  balances.reserve(ONE, 10_004n);
  expect(balances.settlementLamports).toBe(10_003n);
  for (let count = 0; count < 20; count += 1) balances.reserve(ONE, 30_000n);
  expect(balances.settlementLamports).toBe(30_000n);
});

test("however much is promised without a reading, all of it counts", () => {
  const balances = open(ONE);
  balances.noted(ONE, SOL);
  for (let count = 0; count < 2_000; count += 1) {
    balances.reserve(ONE, 10_000n);
    nowMs += 1_000;
  }
  expect(balances.canPay(ONE, SOL - RENT_EXEMPT_LAMPORTS - 20_000_000n)).toBe(true);
  expect(balances.canPay(ONE, SOL - RENT_EXEMPT_LAMPORTS - 20_000_000n + 1n)).toBe(false);
});

test("what an assertion wants an account to keep leaves room for a hundred settlements that come first", () => {
  const balances = open(ONE);
  expect(balances.willKeep(ONE, 0n)).toBe(false);
  balances.noted(ONE, 3_000_000n);
  expect(balances.willKeep(ONE, 2_000_000n)).toBe(true);
  expect(balances.willKeep(ONE, 2_000_001n)).toBe(false);
  balances.reserve(ONE, 100_000n);
  expect(balances.willKeep(ONE, 1_900_000n)).toBe(true);
  expect(balances.willKeep(ONE, 1_900_001n)).toBe(false);
});
