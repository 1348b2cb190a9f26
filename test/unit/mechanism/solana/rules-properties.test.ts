/** What holds for payments on Solana in whatever order their instructions come, and with whatever is added. */
import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  LIGHTHOUSE_PROGRAM,
  MEMO_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from "../../../../src/mechanism/solana/programs.ts";
import {
  call,
  createAccount,
  loadedAccountsLimit,
  memo,
  sourceOf,
  testKey,
  tokenGuard,
  transfer,
  unitLimit,
  unitPrice,
  walletGuard,
} from "../../../support/solana-messages.ts";
import { judgePlan, PAYMENT, planOf, verdict } from "./judging.ts";

const payer = PAYMENT.payer.address;
const extras = [
  unitLimit(100_000),
  // Within the cap even at the largest limit.
  unitPrice(60_000),
  loadedAccountsLimit(65_536),
  memo("hello", [payer]),
  createAccount(PAYMENT),
  createAccount(PAYMENT, { data: [] }),
  walletGuard(PAYMENT.feePayer),
  walletGuard(payer),
  tokenGuard(sourceOf(PAYMENT)),
];

/** The transfer among any of the others, in any order. */
const payments = fc
  .subarray(extras)
  .chain((chosen) =>
    fc.shuffledSubarray([transfer(PAYMENT), ...chosen], { minLength: chosen.length + 1 }),
  );
const withInstructions = (instructions: readonly (typeof extras)[number][]) =>
  planOf({ first: instructions, budget: [], transfer: [], memo: [] });

test("any of the instructions that are allowed may come, in any order", () => {
  fc.assert(
    fc.property(payments, fc.constantFrom("legacy" as const, 0 as const), (all, version) => {
      const plan = { ...withInstructions(all), version };
      expect(verdict(plan)).toBe("accepted");
      expect(judgePlan(plan)).toMatchObject({
        value: { transferIndex: all.findIndex(({ data }) => data?.[0] === 12) },
      });
    }),
  );
});

const KNOWN = new Set([
  COMPUTE_BUDGET_PROGRAM,
  TOKEN_PROGRAM,
  TOKEN_2022_PROGRAM,
  MEMO_PROGRAM,
  LIGHTHOUSE_PROGRAM,
  ASSOCIATED_TOKEN_PROGRAM,
]);

test("one instruction of another program refuses the whole payment, wherever it stands", () => {
  const programs = fc.constantFrom(
    testKey(20).address,
    "11111111111111111111111111111111",
    "BPFLoaderUpgradeab1e11111111111111111111111",
    "Ed25519SigVerify111111111111111111111111111",
    "Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo",
  );
  fc.assert(
    fc.property(
      payments,
      programs,
      fc.uint8Array({ maxLength: 20 }),
      fc.nat(),
      (all, program, data, at) => {
        expect(KNOWN.has(program)).toBe(false);
        const instructions = all.toSpliced(at % (all.length + 1), 0, call(program, data, [payer]));
        expect(verdict(withInstructions(instructions))).not.toBe("accepted");
      },
    ),
  );
});

test("one more instruction of a known program, of any data, never gets the fee payer's account", () => {
  fc.assert(
    fc.property(
      payments,
      fc.constantFrom(...KNOWN),
      fc.uint8Array({ maxLength: 4 }),
      fc.nat(),
      (all, program, data, at) => {
        const added = call(program, data, [PAYMENT.feePayer]);
        const instructions = all.toSpliced(at % (all.length + 1), 0, added);
        // Short as these are, none of them is an assertion that a wallet would add.
        expect(verdict(withInstructions(instructions))).not.toBe("accepted");
      },
    ),
  );
});
