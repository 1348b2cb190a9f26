/** What is made of a node's answers, also of those that a real node gives too rarely to wait for. */
import { beforeEach, describe, expect, test } from "vitest";
import { ChainError } from "../../../../src/mechanism/mechanism.ts";
import { Inspection } from "../../../../src/mechanism/solana/inspection.ts";
import { LookupTables } from "../../../../src/mechanism/solana/lookup-tables.ts";
import {
  checkPayment,
  type SolanaAuthorization,
} from "../../../../src/mechanism/solana/payment.ts";
import { TOKEN_PROGRAM } from "../../../../src/mechanism/solana/programs.ts";
import type { RuleOptions, SolanaToken } from "../../../../src/mechanism/solana/rules.ts";
import { RpcRefusal, type Rpc } from "../../../../src/mechanism/rpc.ts";
import {
  destinationOf,
  layOut,
  SOME_BLOCKHASH,
  sourceOf,
  testKey,
} from "../../../support/solana-messages.ts";
import { devnet, devnetPayment, never, requestFor } from "../../../support/solana-requests.ts";
import { encodeTokenAccount, type TokenAccount } from "../../../support/solana/token-layout.ts";

const payment = devnetPayment();
const [feePayer, payer] = [payment.feePayer, payment.payer.address];
/** Where the transfer stands in what `@x402/svm` builds: behind limit and price. */
const TRANSFER_INDEX = 2;

/** Whose tokens may not pay: somebody else's, and the payer's own, of whom whoever sells asks. */
const DENIED = testKey(33).address;

const tokens = new Map<string, SolanaToken>();
const rules: RuleOptions = {
  tokens,
  feePayers: new Set([feePayer]),
  payTo: null,
  maxFeeLamports: 100_000n,
  lighthouse: "assertions",
  isDenied: (owner) => owner === DENIED,
};

let noted: (readonly [string, number])[] = [];
let inspection: Inspection;
beforeEach(() => {
  noted = [];
  setProgram(TOKEN_PROGRAM);
  inspection = new Inspection({
    rules,
    tables: new LookupTables(),
    notedValid: (blockhash, slot) => noted.push([blockhash, slot]),
  });
});

function setProgram(program: string | null): void {
  const { address, symbol, decimals } = devnet().asset;
  tokens.set(address, { address, symbol, decimals, program });
}

interface Question {
  readonly method: string;
  readonly params: readonly unknown[];
}

/** A node that gives these answers, one after the other; an `Error` is thrown. */
function node(...answers: readonly unknown[]): Rpc & { readonly questions: readonly Question[] } {
  const questions: Question[] = [];
  return {
    host: "node.example",
    questions,
    async call(method, params) {
      questions.push({ method, params });
      const answer = answers[questions.length - 1];
      if (answer instanceof Error) throw answer;
      return answer;
    },
    async close() {},
  };
}

function refusal(code: number, message: string): RpcRefusal {
  return new RpcRefusal("simulateTransaction at node.example", { code, message, data: undefined });
}

/** A token account of the payer's, as a node shows it. */
function account(members: Partial<TokenAccount> = {}, program: string = TOKEN_PROGRAM): unknown {
  const bytes = encodeTokenAccount({
    mint: payment.asset,
    owner: payer,
    amount: 0n,
    delegate: null,
    delegatedAmount: 0n,
    state: "initialized",
    nativeReserve: null,
    closeAuthority: null,
    extensions: [],
    ...members,
  });
  const data = [Buffer.from(bytes).toString("base64"), "base64"];
  return { lamports: 2_039_280, owner: program, data, executable: false, rentEpoch: 0, space: 165 };
}

function simulated(err: unknown, accounts: unknown = [err === null ? account() : null]): unknown {
  return { context: { slot: 77 }, value: { err, logs: [], unitsConsumed: 5, accounts } };
}

function authorization(plan = layOut("svm", payment)): SolanaAuthorization {
  const checked = checkPayment(requestFor(plan, payment), "solana-devnet", rules);
  if (!checked.ok || checked.value.fault !== null) throw new Error("not a good payment");
  return checked.value.authorization;
}

/** "valid", or the code and the detail of the refusal. */
async function inspect(rpc: Rpc, subject = authorization()): Promise<string> {
  const verdict = await inspection.inspect(rpc, subject, never);
  return verdict.ok ? "valid" : `${verdict.error.code}: ${verdict.error.detail}`;
}

describe("a simulation that succeeds", () => {
  test("is asked about the received bytes, with nothing replaced, and shows the source", async () => {
    const rpc = node(simulated(null));
    const subject = authorization();
    expect(await inspect(rpc, subject)).toBe("valid");
    expect(rpc.questions).toEqual([
      {
        method: "simulateTransaction",
        params: [
          Buffer.from(subject.transaction.bytes).toString("base64"),
          {
            encoding: "base64",
            commitment: "processed",
            sigVerify: false,
            replaceRecentBlockhash: false,
            accounts: { encoding: "base64", addresses: [sourceOf(payment)] },
          },
        ],
      },
    ]);
  });

  test("tells that the blockhash was valid at that slot, and a failed one does not", async () => {
    await inspect(node(simulated(null)));
    expect(noted).toEqual([[SOME_BLOCKHASH, 77]]);
    await inspect(node(simulated("BlockhashNotFound")));
    expect(noted).toHaveLength(1);
  });

  test("is refused when the tokens are ours, whoever may move them", async () => {
    const ours = account({ owner: feePayer, delegate: payer, delegatedAmount: 10_000n });
    expect(await inspect(node(simulated(null, [ours])))).toMatch(
      /^invalid_payload: .*facilitator$/,
    );
  });

  test("is good when the payer moves somebody else's tokens as a delegate", async () => {
    const lent = account({ owner: testKey(30).address, delegate: payer });
    expect(await inspect(node(simulated(null, [lent])))).toBe("valid");
  });

  test("is refused when a delegate moves tokens of somebody who may not pay", async () => {
    const lent = account({ owner: DENIED, delegate: payer, delegatedAmount: 10_000n });
    const said = await inspect(node(simulated(null, [lent])));
    expect(said).toMatch(/^invalid_payload: tokens from .* are not taken here/);
    expect(said).not.toContain(DENIED);
  });

  test("is good when the payer moves his own, whatever lists say of him", async () => {
    const own = new Inspection({
      rules: { ...rules, isDenied: () => true },
      tables: new LookupTables(),
      notedValid: () => undefined,
    });
    expect(await own.inspect(node(simulated(null)), authorization(), never)).toMatchObject({
      ok: true,
    });
  });

  test.each([
    ["no account", [null]],
    ["an account of another program", [account({}, testKey(31).address)]],
    ["an account of another token", [account({ mint: testKey(32).address })]],
    ["an account without tokens", [{ lamports: 1, owner: TOKEN_PROGRAM, data: ["", "base64"] }]],
  ])("is refused when it shows %s", async (_what, accounts) => {
    expect(await inspect(node(simulated(null, accounts)))).toMatch(
      /^invalid_transaction_state: the simulation does not show/,
    );
  });
});

function transferFails(reason: unknown): unknown {
  return simulated({ InstructionError: [TRANSFER_INDEX, reason] });
}

describe("a simulation that fails", () => {
  test.each([
    ["BlockhashNotFound", /^invalid_transaction_state: .*BlockhashNotFound.*sign a fresh/],
    ["AlreadyProcessed", /^invalid_transaction_state: .*AlreadyProcessed.*executed before/],
    [
      { InsufficientFundsForRent: { account_index: 1 } },
      /^invalid_transaction_state: .*InsufficientFundsForRent of account 1$/,
    ],
    [{ DuplicateInstruction: 3 }, /^invalid_transaction_state: .*DuplicateInstruction/],
    [{ InstructionError: [0, "InvalidAccountData"] }, /^invalid_transaction_state: .*\[0\]$/],
    // The number of a transfer that finds too little, but of another program.
    [
      { InstructionError: [3, { Custom: 1 }] },
      /^invalid_transaction_state: .*Custom 1 in .*\[3\]$/,
    ],
    [{}, /^invalid_transaction_state: .*\{\}$/],
    [17, /^invalid_transaction_state: .*17$/],
    [{ InstructionError: "what" }, /^invalid_transaction_state: /],
  ])("with %j is the payment's fault", async (error, expected) => {
    const rpc = node(simulated(error));
    expect(await inspect(rpc)).toMatch(expected);
    expect(rpc.questions).toHaveLength(1);
  });

  test.each([
    [{ Custom: 1 }, /^insufficient_funds: the payer's token account \w+ has less than 10000/],
    [{ Custom: 17 }, /^invalid_transaction_state: .*Custom 17.*frozen$/],
    [{ Custom: 4 }, /^invalid_transaction_state: .*Custom 4.*may not move/],
    [{ Custom: 99 }, /^invalid_transaction_state: .*Custom 99 in instructions\[2\]$/],
    ["ComputationalBudgetExceeded", /^invalid_transaction_state: .*ComputationalBudgetExceeded in/],
    [{ BorshIoError: "x".repeat(5_000) }, /^invalid_transaction_state: .{0,400}$/],
  ])("in the transfer with %j is told as such", async (reason, expected) => {
    expect(await inspect(node(transferFails(reason)))).toMatch(expected);
  });

  test.each([
    "AccountNotFound",
    "InsufficientFundsForFee",
    "InvalidAccountForFee",
    { InsufficientFundsForRent: { account_index: 0 } },
  ])("with %j is our own fault, and nobody else's", async (error) => {
    const failed = inspect(node(simulated(error)));
    await expect(failed).rejects.toMatchObject({ code: "CHAIN_GAS" });
    await expect(failed).rejects.toThrow(
      `${feePayer} cannot pay the network fee of 10001 lamports`,
    );
  });

  test("for want of an account takes one more call to tell whose", async () => {
    const invalid = transferFails("InvalidAccountData");
    const [mine, theirs] = [account(), account({ owner: payment.payTo })];
    const asked = async (...value: readonly unknown[]): Promise<string> => {
      const rpc = node(invalid, { context: { slot: 77 }, value });
      const verdict = await inspect(rpc);
      expect(rpc.questions[1]).toEqual({
        method: "getMultipleAccounts",
        params: [
          [sourceOf(payment), destinationOf(payment)],
          { commitment: "processed", encoding: "base64", dataSlice: { offset: 0, length: 166 } },
        ],
      });
      return verdict;
    };
    expect(await asked(null, theirs)).toMatch(/^insufficient_funds: .*no token account/);
    expect(await asked(null, null)).toMatch(/^insufficient_funds: /);
    expect(await asked(mine, null)).toMatch(
      /^invalid_transaction_state: the seller's token account \w+ does not exist/,
    );
    expect(await asked(mine, account({}, testKey(31).address))).toMatch(/does not exist/);
    expect(await asked(mine, theirs)).toMatch(
      /^invalid_transaction_state: .*InvalidAccountData in instructions\[2\]$/,
    );
  });
});

describe("a node that does not do what it is asked", () => {
  test.each([
    ["nothing", null],
    ["no value", { context: { slot: 7 } }],
    ["no slot", { value: { err: null, accounts: [account()] } }],
    ["no error, not even none", { context: { slot: 7 }, value: { accounts: [account()] } }],
    ["no accounts", simulated(null, null)],
    ["two accounts", simulated(null, [account(), account()])],
    ["an account that is none", simulated(null, ["tokens"])],
  ])("and answers %s is not believed", async (_what, answer) => {
    await expect(inspect(node(answer))).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
    expect(noted).toEqual([]);
  });

  test("because of the transaction refuses the payment", async () => {
    const words =
      "invalid transaction: Transaction loads an address table account that doesn't exist";
    expect(await inspect(node(refusal(-32_602, words)))).toBe(
      `invalid_transaction_state: the network does not take the transaction: ${words}`,
    );
  });

  test.each([
    [-32_602, "Invalid params: unknown field `accounts`."],
    [-32_005, "Node is unhealthy: transaction history is behind"],
    [-32_603, "Internal error"],
  ])("for another reason (%i) says nothing about the payment", async (code, message) => {
    await expect(inspect(node(refusal(code, message)))).rejects.toBeInstanceOf(RpcRefusal);
  });

  test("as it cannot be reached says nothing about the payment either", async () => {
    const lost = new ChainError("CHAIN_UNREACHABLE", "no connection");
    await expect(inspect(node(lost))).rejects.toBe(lost);
    const invalid = simulated({ InstructionError: [TRANSFER_INDEX, "InvalidAccountData"] });
    await expect(inspect(node(invalid, lost))).rejects.toBe(lost);
  });
});

describe("a payment that could not be judged by what it says alone", () => {
  const table = testKey(40).address;
  const looking = { ...layOut("svm", payment), tables: { [table]: [payment.asset] } };

  test("is judged once its mint has been read", async () => {
    setProgram(null);
    const subject = authorization();
    await expect(inspect(node(), subject)).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
    setProgram(TOKEN_PROGRAM);
    expect(await inspection.inspect(node(simulated(null)), subject, never)).toMatchObject({
      value: { judged: { payer, transferIndex: TRANSFER_INDEX } },
    });
  });

  test("is refused, without a simulation, when its lookup table is not there", async () => {
    const subject = authorization(looking);
    const rpc = node({ context: { slot: 7 }, value: [null] });
    expect(await inspect(rpc, subject)).toMatch(/^invalid_payload: .*lookup table/);
    expect(rpc.questions).toHaveLength(1);
  });

  test("is an operational fault when its lookup table cannot be read", async () => {
    const lost = new ChainError("CHAIN_TIMEOUT", "no answer");
    await expect(inspect(node(lost), authorization(looking))).rejects.toBe(lost);
  });
});
