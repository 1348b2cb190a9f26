/** The one transfer of a payment on Solana, V23 to V25, each rule from both sides of its edge. */
import { describe, expect, test } from "vitest";
import { formatAmount } from "../../../../src/x402/amount.ts";
import { associatedAccount } from "../../../../src/mechanism/solana/associated-account.ts";
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from "../../../../src/mechanism/solana/programs.ts";
import {
  destinationOf,
  layOut,
  somePayment,
  sourceOf,
  testKey,
  transfer,
  type TransferChanges,
} from "../../../support/solana-messages.ts";
import { judgePlan, PAYMENT, planOf, verdict } from "./judging.ts";

const STRANGER = testKey(9).address;
const OURS_TOO = testKey(8).address;
const paying = (changes: TransferChanges) => planOf({ transfer: [transfer(PAYMENT, changes)] });

describe("the transfer's form (V23)", () => {
  test("comes exactly once", () => {
    expect(verdict(planOf())).toBe("accepted");
    const one = transfer(PAYMENT);
    for (const transfers of [[], [one, one], [one, transfer(PAYMENT, { amount: 1n })]]) {
      expect(verdict(planOf({ transfer: transfers }))).toBe(
        `the transaction has ${transfers.length} token transfers; exactly 1 is needed, a TransferChecked`,
      );
    }
    const second = transfer(PAYMENT, { program: TOKEN_2022_PROGRAM });
    expect(verdict(planOf({ transfer: [one, second] }))).toMatch(/has 2 token transfers/);
  });

  test("has ten bytes of data", () => {
    const data = [...(transfer(PAYMENT).data ?? [])];
    for (const bytes of [data.slice(0, 9), [...data, 0], [12]]) {
      const other = { ...transfer(PAYMENT), data: Uint8Array.from(bytes) };
      expect(verdict(planOf({ transfer: [other] }))).toBe(
        `instructions[2] has ${bytes.length} bytes of data and 4 accounts; a TransferChecked has 10 and 4`,
      );
    }
  });

  test("has four accounts: not those of a multisignature or of a hook, nor fewer", () => {
    const { accounts = [] } = transfer(PAYMENT);
    const cut = { ...transfer(PAYMENT), accounts: accounts.slice(0, 3) };
    expect(verdict(planOf({ transfer: [cut] }))).toMatch(/10 bytes of data and 3 accounts/);
    expect(verdict(paying({ moreAccounts: [STRANGER] }))).toMatch(
      /10 bytes of data and 5 accounts/,
    );
  });
});

describe("what the transfer moves (V24)", () => {
  test("exactly the required amount", () => {
    expect(verdict(paying({ amount: 10_000n }))).toBe("accepted");
    for (const amount of [9_999n, 10_001n, 0n, 2n ** 64n - 1n, 10_000n << 8n]) {
      expect(verdict(paying({ amount }))).toBe(
        `instructions[2], the token transfer, moves ${amount} atomic units ($${formatAmount(amount, 6)}); it must be exactly 10000 atomic units ($0.01)`,
      );
    }
  });

  test("the largest amount there is", () => {
    const payment = somePayment({ amount: 2n ** 64n - 1n });
    expect(verdict(layOut("svm", payment), { payment })).toBe("accepted");
  });

  test("is authorized by the second signer", () => {
    expect(verdict(paying({ authority: PAYMENT.payer.address }))).toBe("accepted");
    const { accounts = [] } = transfer(PAYMENT);
    const foreign = {
      ...transfer(PAYMENT),
      accounts: accounts.toSpliced(3, 1, ...accounts.slice(1, 2)),
    };
    expect(verdict(planOf({ transfer: [foreign] }))).toBe(
      `instructions[2], the token transfer, is authorized by ${PAYMENT.asset}; it must be the second signer, ${PAYMENT.payer.address}`,
    );
  });

  test("of the asset's mint, by the program that owns it, with its decimals", () => {
    expect(verdict(paying({ mint: STRANGER }))).toMatch(
      `moves tokens of the mint ${STRANGER}; the asset is ${PAYMENT.asset}`,
    );
    expect(verdict(paying({ program: TOKEN_2022_PROGRAM }))).toMatch(
      `calls ${TOKEN_2022_PROGRAM}; the program of the asset's mint is ${TOKEN_PROGRAM}`,
    );
    expect(verdict(paying({ decimals: 6 }))).toBe("accepted");
    for (const decimals of [5, 7, 0, 255]) {
      expect(verdict(paying({ decimals }))).toMatch(`states ${decimals} decimals; the mint has 6`);
    }
  });

  test("to payTo's associated account and nowhere else", () => {
    expect(verdict(paying({ destination: destinationOf(PAYMENT) }))).toBe("accepted");
    const ofOtherProgram = associatedAccount(PAYMENT.payTo, PAYMENT.asset, TOKEN_2022_PROGRAM);
    for (const destination of [PAYMENT.payTo, STRANGER, ofOtherProgram]) {
      expect(verdict(paying({ destination }))).toBe(
        `instructions[2], the token transfer, pays ${destination}; payTo's associated account for the asset is ${destinationOf(PAYMENT)}`,
      );
    }
  });

  test("from any account but the one that it pays", () => {
    expect(judgePlan(paying({ source: STRANGER }))).toMatchObject({ value: { source: STRANGER } });
    expect(verdict(paying({ source: destinationOf(PAYMENT) }))).toBe(
      "instructions[2], the token transfer, pays the account that it takes from",
    );
  });
});

describe("whose tokens the transfer moves (V25)", () => {
  test("not those of any fee payer of ours, as far as their address tells", () => {
    const ours = associatedAccount(PAYMENT.feePayer, PAYMENT.asset, TOKEN_PROGRAM);
    const oursToo = associatedAccount(OURS_TOO, PAYMENT.asset, TOKEN_PROGRAM);
    const options = { feePayers: new Set([PAYMENT.feePayer, OURS_TOO]) };
    expect(verdict(paying({ source: sourceOf(PAYMENT) }), { options })).toBe("accepted");
    for (const source of [ours, oursToo]) {
      expect(verdict(paying({ source }), { options })).toBe(
        `the tokens would come from ${source}, which belongs to this facilitator`,
      );
    }
    expect(verdict(paying({ source: oursToo }))).toBe("accepted");
  });
});

describe("an asset whose mint is not known", () => {
  test("is no fault of the payment's while it has not been read", () => {
    const { asset: address, decimals } = PAYMENT;
    const tokens = new Map([[address, { address, symbol: "USDC", decimals, program: null }]]);
    expect(judgePlan(planOf(), { options: { tokens } })).toMatchObject({
      ok: false,
      error: { code: "unexpected_verify_error" },
    });
  });

  test("is refused where it is not served", () => {
    expect(judgePlan(planOf(), { options: { tokens: new Map() } })).toMatchObject({
      ok: false,
      error: { code: "invalid_payment_requirements" },
    });
  });
});
