/** The rules for a transaction on Solana, V12 to V22, each from both sides of its edge. */
import { describe, expect, test } from "vitest";
import { associatedAccount } from "../../../../src/mechanism/solana/associated-account.ts";
import {
  ASSOCIATED_TOKEN_PROGRAM,
  COMPUTE_BUDGET_PROGRAM,
  LIGHTHOUSE_PROGRAM,
  MEMO_PROGRAM,
  SYSTEM_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from "../../../../src/mechanism/solana/programs.ts";
import {
  advanceNonce,
  call,
  createAccount,
  destinationOf,
  layOut,
  loadedAccountsLimit,
  memo,
  somePayment,
  sourceOf,
  systemTransfer,
  testKey,
  tokenGuard,
  transfer,
  unitLimit,
  unitPrice,
  walletGuard,
  writable,
  type CreationChanges,
} from "../../../support/solana-messages.ts";
import { judgePlan, PAYMENT, planOf, verdict } from "./judging.ts";

const STRANGER = testKey(9).address;
const OURS_TOO = testKey(8).address;
const PAYER = PAYMENT.payer.address;
const twoOfOurs = { options: { feePayers: new Set([PAYMENT.feePayer, OURS_TOO]) } };

describe("payments as clients make them", () => {
  const layouts = ["x402", "svm", "phantom"] as const;
  const versions = ["legacy", 0, 1] as const;

  test.each(layouts.flatMap((layout) => versions.map((version) => ({ layout, version }))))(
    "$layout in version $version is accepted",
    ({ layout, version }) => {
      const judged = judgePlan(layOut(layout, PAYMENT, { version }));
      expect(judged).toMatchObject({
        ok: true,
        value: { payer: PAYER, source: sourceOf(PAYMENT), tokenProgram: TOKEN_PROGRAM },
      });
    },
  );

  test("Token-2022 is paid with its own program and accounts", () => {
    const payment = somePayment({ tokenProgram: TOKEN_2022_PROGRAM });
    expect(judgePlan(layOut("svm", payment), { payment })).toMatchObject({
      ok: true,
      value: { tokenProgram: TOKEN_2022_PROGRAM, source: sourceOf(payment) },
    });
  });

  test("the transfer is found wherever it stands, and the network fee is told", () => {
    // 45000 units at 0.375 lamports, and two signatures.
    expect(judgePlan(layOut("phantom", PAYMENT))).toMatchObject({
      value: { transferIndex: 5, networkFeeLamports: 10_001n, feePayerKeeps: 655_360n },
    });
    // A part of a lamport is a whole one.
    expect(judgePlan(layOut("x402", PAYMENT))).toMatchObject({
      value: { transferIndex: 2, networkFeeLamports: 10_001n },
    });
  });

  test("accounts may come from lookup tables, in any place and with any rights", () => {
    const entries = [OURS_TOO, destinationOf(PAYMENT), PAYMENT.asset, sourceOf(PAYMENT)];
    const tables = { [STRANGER]: entries, [testKey(10).address]: [PAYMENT.feePayer] };
    expect(judgePlan({ ...layOut("phantom", PAYMENT), tables })).toMatchObject({
      value: { source: sourceOf(PAYMENT) },
    });
  });
});

describe("who signs (V12, V13)", () => {
  test("the fee payer is the one of the requirements, not another one of ours", () => {
    expect(verdict(planOf(), twoOfOurs)).toBe("accepted");
    expect(verdict({ ...planOf(), feePayer: OURS_TOO }, twoOfOurs)).toBe(
      `account 0, which pays the network fee, is ${OURS_TOO}; it must be extra.feePayer, ${PAYMENT.feePayer}`,
    );
  });

  test("neither one signature nor three will do", () => {
    expect(verdict(planOf())).toBe("accepted");
    expect(verdict(planOf({ transfer: [], memo: [] }))).toBe(
      "the transaction requires 1 signatures; exactly 2 are allowed, the fee payer's and the payer's",
    );
    const three = planOf({ memo: [memo("hello", [PAYER, STRANGER])] });
    expect(verdict(three)).toMatch(/requires 3 signatures; exactly 2 are allowed/);
  });
});

describe("the fee payer's account (V16)", () => {
  test("may be read by a Lighthouse assertion only", () => {
    expect(verdict(planOf({ last: [walletGuard(PAYMENT.feePayer)] }))).toBe("accepted");
    for (const opcode of [0, 1, 2, 5, 9, 15, 16, 17, 18, 255]) {
      const other = call(LIGHTHOUSE_PROGRAM, [opcode, 4], [PAYMENT.feePayer]);
      expect(verdict(planOf({ last: [other] }))).toBe(
        "instructions[4] uses the fee payer's account; only a Lighthouse assertion may",
      );
    }
  });

  const { feePayer } = PAYMENT;
  test.each([
    ["pay a stranger", systemTransfer(feePayer, STRANGER, 1n)],
    ["sign a memo", memo("mine", [feePayer])],
    ["fund an account", createAccount(PAYMENT, { funder: feePayer })],
    ["own a new account", createAccount(PAYMENT, { owner: feePayer })],
    ["be named to ComputeBudget", call(COMPUTE_BUDGET_PROGRAM, [4, 0, 0, 1, 0], [feePayer])],
    ["authorize a transfer", transfer(PAYMENT, { authority: feePayer })],
    ["be one more account of a transfer", transfer(PAYMENT, { moreAccounts: [feePayer] })],
  ])("may not %s", (_, instruction) => {
    expect(verdict(planOf({ last: [instruction] }))).toMatch(
      /^instructions\[4\] uses the fee payer's account/,
    );
  });

  test("of another one of ours may be nowhere, not even in an assertion or unused in a table", () => {
    const plan = planOf({ last: [walletGuard(OURS_TOO)] });
    expect(verdict(plan)).toMatch(/^instructions\[4\] is Lighthouse assertion 6 about/);
    expect(verdict(plan, twoOfOurs)).toMatch(
      `is ${OURS_TOO}, a fee payer of this facilitator; only account 0 may be one`,
    );
    const tables = { [STRANGER]: [OURS_TOO] };
    expect(verdict({ ...plan, tables }, twoOfOurs)).toMatch(/a fee payer of this facilitator/);
    // A table that merely lists it takes nothing from it.
    expect(verdict({ ...planOf(), tables }, twoOfOurs)).toBe("accepted");
  });

  test("of another one of ours may not be the payer's", () => {
    const payment = somePayment({ payer: testKey(8) });
    expect(verdict(layOut("svm", payment), { payment })).toBe("accepted");
    expect(verdict(layOut("svm", payment), { payment, ...twoOfOurs })).toMatch(/^account 1 is/);
  });

  test("is told before an instruction that is not allowed, even one that comes earlier", () => {
    const plan = planOf({ last: [call(STRANGER, []), memo("mine", [feePayer])] });
    expect(verdict(plan)).toMatch(/^instructions\[5\] uses the fee payer's account/);
  });
});

describe("programs and their instructions (V17, V26)", () => {
  test.each([
    ["a program that nobody knows", call(STRANGER, [1, 2, 3])],
    ["System", systemTransfer(PAYER, STRANGER, 1n)],
    ["the older Memo", call("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo", [65])],
    ["a nonce that is not first and so no durable one", advanceNonce(STRANGER, PAYER)],
  ])("%s is refused", (_, instruction) => {
    expect(verdict(planOf({ last: [instruction] }))).toMatch(
      /^instructions\[4\] calls \w+; a payment may call/,
    );
  });

  test("a durable nonce is refused by its name", () => {
    expect(verdict(planOf({ first: [advanceNonce(STRANGER, PAYER)] }))).toMatch(
      /^a durable nonce is not allowed/,
    );
  });

  test.each([0, 1, 2, 3, 4, 5, 255])("ComputeBudget instruction %i", (opcode) => {
    const known = [unitLimit(1), unitPrice(1), loadedAccountsLimit(1)];
    const allowed = known.find(({ data }) => data?.[0] === opcode);
    const instruction = allowed ?? call(COMPUTE_BUDGET_PROGRAM, [opcode, 0, 0, 1, 0]);
    const said = verdict(planOf({ budget: [instruction] }));
    if (allowed === undefined) {
      expect(said).toMatch(`instructions[0] is ComputeBudget instruction ${opcode}; only 2`);
    } else expect(said).toBe("accepted");
  });

  test("no other instruction of either token program", () => {
    const accounts = [writable(sourceOf(PAYMENT)), writable(destinationOf(PAYMENT)), PAYER];
    for (const program of [TOKEN_PROGRAM, TOKEN_2022_PROGRAM]) {
      // Transfer, approve, set authority, close account, transfer with fee.
      for (const opcode of [3, 4, 6, 9, 26]) {
        const other = call(program, [opcode, 1, 0, 0, 0, 0, 0, 0, 0], accounts);
        expect(verdict(planOf({ last: [other] }))).toBe(
          `instructions[4] is token instruction ${opcode}; only 12 (TransferChecked) is allowed`,
        );
      }
    }
  });

  test("accounts are created with no data, 0 or 1 only", () => {
    for (const data of [[], [0], [1]]) {
      expect(verdict(planOf({ last: [createAccount(PAYMENT, { data })] }))).toBe("accepted");
    }
    for (const data of [[2], [0, 0], [1, 0]]) {
      expect(verdict(planOf({ last: [createAccount(PAYMENT, { data })] }))).toMatch(
        /^instructions\[4\] is no Create and no CreateIdempotent/,
      );
    }
  });

  test("no data at all is no instruction of ComputeBudget, tokens or Lighthouse", () => {
    for (const program of [COMPUTE_BUDGET_PROGRAM, TOKEN_PROGRAM, LIGHTHOUSE_PROGRAM]) {
      expect(verdict(planOf({ last: [call(program, [])] }))).toMatch(/instruction without data/);
    }
  });
});

const guards = (count: number) =>
  Array.from({ length: count }, () => tokenGuard(sourceOf(PAYMENT)));

describe("Lighthouse (V20)", () => {
  test("four assertions are accepted, five are not", () => {
    expect(verdict(planOf({ last: guards(4) }))).toBe("accepted");
    expect(verdict(planOf({ last: guards(5) }))).toBe(
      "the transaction has 5 Lighthouse assertions; 4 are allowed",
    );
  });

  test.each([0, 1, 2, 15, 16, 17, 255])("instruction %i", (opcode) => {
    const said = verdict(planOf({ first: [call(LIGHTHOUSE_PROGRAM, [opcode, 4], [PAYER])] }));
    expect(said).toBe(
      `instructions[0] is Lighthouse instruction ${opcode}; only 6 and 10, which Phantom adds, are allowed: ` +
        "sign with a wallet that adds no assertions, or with that wallet's protection turned off",
    );
  });

  test("nothing of it is accepted where it is denied", () => {
    const denied = { options: { lighthouse: "deny" } } as const;
    expect(verdict(layOut("svm", PAYMENT), denied)).toBe("accepted");
    expect(verdict(layOut("phantom", PAYMENT), denied)).toMatch(
      /^instructions\[2\] calls Lighthouse, which this facilitator does not allow/,
    );
  });
});

describe("the memo (V21)", () => {
  test("none or any one is accepted where none is asked for, two are not", () => {
    expect(verdict(planOf({ memo: [] }))).toBe("accepted");
    expect(verdict(planOf({ memo: [memo("anything")] }))).toBe("accepted");
    expect(verdict(planOf({ memo: [memo("one"), memo("two")] }))).toBe(
      "the transaction has 2 memos; 1 is allowed",
    );
  });

  test("exactly the one that is asked for is accepted, to the byte", () => {
    const text = "order 7, für Zoë";
    const asked = { memo: text };
    expect(verdict(planOf({ memo: [memo(text)] }), asked)).toBe("accepted");
    expect(verdict(planOf({ memo: [] }), asked)).toMatch(/has no memo; extra\.memo asks for/);
    expect(verdict(planOf({ memo: [memo(text), memo(text)] }), asked)).toMatch(/has 2 memos/);
    const others = ["order 7, für Zoe", `${text} `, "", text.normalize("NFD")];
    for (const other of [...others, Buffer.from(text, "latin1")]) {
      expect(verdict(planOf({ memo: [memo(other)] }), asked)).toMatch(
        /^instructions\[3\], the memo, differs from extra\.memo/,
      );
    }
  });

  test("is signed by the payer or by nobody", () => {
    expect(verdict(planOf({ memo: [memo("mine", [PAYER])] }))).toBe("accepted");
    for (const accounts of [[PAYER, PAYER], [STRANGER], [PAYER, STRANGER]]) {
      expect(verdict(planOf({ memo: [call(MEMO_PROGRAM, [65], accounts)] }))).toBe(
        "instructions[3], the memo, may have no account but the payer's",
      );
    }
  });
});

const created = (changes: CreationChanges = {}) =>
  verdict(planOf({ last: [createAccount(PAYMENT, changes)] }));

describe("the creation of a token account (V22)", () => {
  const other = associatedAccount(STRANGER, PAYMENT.asset, PAYMENT.tokenProgram);
  test("is accepted as it should be, before the transfer and behind it, and twice", () => {
    expect(created()).toBe("accepted");
    const creation = createAccount(PAYMENT);
    expect(verdict(planOf({ first: [creation, creation] }))).toBe("accepted");
  });

  test.each<[string, CreationChanges, string]>([
    ["the new account", { account: other }, destinationOf(PAYMENT)],
    ["its owner", { owner: STRANGER }, PAYMENT.payTo],
    ["the mint", { mint: STRANGER }, PAYMENT.asset],
    ["the System program", { systemProgram: STRANGER }, SYSTEM_PROGRAM],
    ["the token program", { tokenProgram: TOKEN_2022_PROGRAM }, TOKEN_PROGRAM],
  ])("with another address for %s is refused", (name, changes, wanted) => {
    const [given = ""] = Object.values(changes);
    expect(created(changes)).toBe(
      `instructions[4], which creates a token account, has ${given} for ${name}; only ${wanted} is allowed`,
    );
  });

  test("funded by anybody else than the payer is refused", () => {
    const { accounts = [] } = createAccount(PAYMENT);
    const addresses = accounts.map(({ address }, index) => (index === 0 ? STRANGER : address));
    const creation = call(ASSOCIATED_TOKEN_PROGRAM, [1], addresses);
    expect(verdict(planOf({ last: [creation] }))).toMatch(`has ${STRANGER} for the funder; only`);
  });

  test("with other than its six accounts is refused", () => {
    const rent = "SysvarRent111111111111111111111111111111111";
    expect(created({ moreAccounts: [rent] })).toMatch(/has 7 accounts; exactly 6 are allowed/);
  });

  test("of a second account is refused", () => {
    const second = createAccount(PAYMENT, { account: other, owner: STRANGER });
    expect(verdict(planOf({ last: [createAccount(PAYMENT), second] }))).toMatch(
      /^instructions\[5\], which creates/,
    );
  });
});
