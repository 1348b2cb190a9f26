/** What follows from the status of a transaction that is in a block. */
import { describe, expect, test } from "vitest";
import type { Confirmation } from "../../../../src/mechanism/mechanism.ts";
import {
  expired,
  included,
  judgeResult,
  notYet,
} from "../../../../src/mechanism/solana/confirmation.ts";
import type { Message } from "../../../../src/mechanism/solana/message.ts";
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from "../../../../src/mechanism/solana/programs.ts";
import { paymentMessage, testKey } from "./payment-message.ts";

/** The transfer stands first, a memo second. */
function messageOf(tokenProgram: string = TOKEN_PROGRAM): Message {
  const message = paymentMessage({ version: 0 });
  const keys = message.keys.map((key) => (key === testKey("token program") ? tokenProgram : key));
  return { ...message, keys };
}

const message = messageOf();
const at = (index: number, reason: unknown) => ({ InstructionError: [index, reason] });

function codeOf(said: Confirmation): string {
  return said.kind === "failed" ? said.refusal.code : said.kind;
}

describe("an error", () => {
  test.each([TOKEN_PROGRAM, TOKEN_2022_PROGRAM])(
    "1 of the transfer by %s is a lack of funds",
    (program) => {
      const said = judgeResult("a", at(0, { Custom: 1 }), messageOf(program));
      expect(codeOf(said)).toBe("insufficient_funds");
    },
  );

  test.each<[string, unknown]>([
    ["1 of another instruction", at(1, { Custom: 1 })],
    ["1 of no instruction", at(7, { Custom: 1 })],
    ["another of the transfer", at(0, { Custom: 17 })],
    ["a lack of compute units", at(0, "ComputationalBudgetExceeded")],
    ["one of the transaction", "AccountNotFound"],
    ["of rent", { InsufficientFundsForRent: { account_index: 1 } }],
    ["of another shape", { InstructionError: "1" }],
    ["without an index", { InstructionError: [null, { Custom: 1 }] }],
  ])("%s is another failure", (_title, err) => {
    expect(codeOf(judgeResult("a", err, message))).toBe("invalid_transaction_state");
  });

  test("is told, but not at any length", () => {
    const said = judgeResult("a", { Odd: "x".repeat(1_000) }, message);
    const detail = said.kind === "failed" ? (said.refusal.detail ?? "") : "";
    expect(detail).toContain('{"Odd":"xxx');
    expect(detail.length).toBeLessThan(200);
  });

  test("is the same in two looks", () => {
    const status = { slot: 5, err: at(0, { Custom: 1 }), depth: "confirmed" } as const;
    const looks = [1, 2].map(() => included("a", status, [{ message }], "confirmed"));
    expect(looks[0]).toEqual(looks[1]);
  });
});

describe("a submission whose payment cannot be read", () => {
  test("still has a fate of its own", () => {
    expect(notYet([])).toEqual({ payments: [], included: null, isSpent: false });
    expect(expired([])).toEqual({ payments: [], included: null, isSpent: true });
    const status = { slot: 5, err: null, depth: "finalized" } as const;
    expect(included("a", status, [], "confirmed")).toEqual({
      payments: [],
      included: { transaction: "a", confirmations: 32, isFinal: true },
      isSpent: true,
    });
  });
});
