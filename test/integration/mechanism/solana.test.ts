/** Verifying and settling on the local node. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { RENT_EXEMPT_LAMPORTS } from "../../../src/mechanism/solana/balances.ts";
import { TOKEN_2022_PROGRAM } from "../../../src/mechanism/solana/programs.ts";
import {
  buildTransaction,
  createAccount,
  destinationOf,
  layOut,
  sourceOf,
  testKey,
  transfer,
  unitLimit,
  type Payment,
} from "../../support/solana-messages.ts";
import {
  never,
  requestOf,
  requirementsOf,
  secretOf,
  type SolanaMechanism,
} from "../../support/solana-requests.ts";
import { FEE_PAYER, FUNDS, MINT, openBench, SOL, type Bench } from "./solana-bench.ts";

let bench: Bench;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());
beforeEach(() => bench.renew());

describe("a payment", () => {
  test("is verified by one call", async () => {
    expect(await bench.verify(bench.plan())).toBe("valid");
    expect(bench.node.calls()).toEqual({ simulateTransaction: 1 });
  });

  test.each([
    ["x402", 0],
    ["x402", "legacy"],
    ["svm", 0],
    ["svm", 1],
    ["phantom", 0],
  ] as const)(
    "by %s, version %s, is paid once, for exactly the network fee",
    async (layout, version) => {
      const built = layOut(layout, bench.payment, { version });
      const checked = bench.accept({ ...built, blockhash: bench.node.blockhash });
      const before = bench.node.lamportsOf(FEE_PAYER);
      const ready = await bench.inspect(checked);
      expect(bench.node.calls()).toEqual({ simulateTransaction: 1 });
      const signed = await bench.sign(ready);
      expect(bench.node.calls()).toEqual({ simulateTransaction: 1 });
      const said = await bench.settle(checked, signed);
      expect(said).toEqual({ kind: "confirmed", transaction: signed.transaction });
      expect(await bench.node.tokenBalanceOf(bench.payment.payTo, MINT)).toBe(bench.payment.amount);
      expect(await bench.node.tokenBalanceOf(bench.payment.payer.address, MINT)).toBe(
        FUNDS - bench.payment.amount,
      );
      const fee = checked.authorization.judged?.networkFeeLamports;
      expect(before - bench.node.lamportsOf(FEE_PAYER)).toBe(fee);
      expect(new Set(bench.node.sent)).toEqual(new Set([signed.raw]));
    },
  );

  test("in a token of Token-2022 is paid all the same", async () => {
    const token = bench.node.createMint({ decimals: 6, program: "token-2022" });
    const other: Payment = { ...bench.payment, asset: token, tokenProgram: TOKEN_2022_PROGRAM };
    await bench.node.fundToken({ mint: token, owner: other.payer.address, amount: FUNDS });
    const asset = { symbol: "PYUSD", address: token, decimals: 6, tokenProgram: null };
    const by = bench.mechanism({ assets: [asset] });
    await by.probe(never);
    const signed = bench.plan({ instructions: [createAccount(other), transfer(other)] }, other);
    expect(await bench.verify(signed, by, other)).toMatch(/^invalid_transaction_state: .*\[0\]$/);
    bench.node.fundSol(other.payer.address, SOL);
    const checked = bench.accept(signed, by, other);
    const ready = await bench.inspect(checked, by);
    const said = await bench.settle(checked, await bench.sign(ready, by), by);
    expect(said.kind).toBe("confirmed");
    expect(await bench.node.tokenBalanceOf(other.payTo, token)).toBe(other.amount);
  });

  test("is one and the same with another signature in the fee payer's place", async () => {
    const first = bench.plan();
    const checked = bench.accept(first);
    const signed = await bench.sign(await bench.inspect(checked));
    const bytes = Buffer.from(buildTransaction(first), "base64");
    bytes.fill(7, 1, 65);
    const varied = bench.solana.check(
      requestOf(bytes.toString("base64"), requirementsOf(bench.payment)),
      0,
    );
    if (!varied.ok) throw new Error(varied.error.detail);
    expect(await bench.sign(await bench.inspect(varied.value))).toEqual(signed);
    await bench.settle(checked, signed);
    const again = await bench.solana.inspect(varied.value, never);
    expect(again).toMatchObject({ error: { code: "invalid_transaction_state" } });
    expect(await bench.node.tokenBalanceOf(bench.payment.payTo, MINT)).toBe(bench.payment.amount);
  });

  test("may be made by a delegate, who is then its payer", async () => {
    const owner = bench.freshKey().address;
    const source = await bench.node.fundToken({ mint: MINT, owner, amount: FUNDS });
    bench.node.approve(source, bench.payment.payer.address, bench.payment.amount);
    const checked = bench.accept(
      bench.plan({ instructions: [transfer(bench.payment, { source })] }),
    );
    await bench.inspect(checked);
    expect(checked.payer).toBe(bench.payment.payer.address);
    bench.node.approve(source, bench.payment.payer.address, bench.payment.amount - 1n);
    expect(await bench.solana.inspect(checked, never)).toMatchObject({
      error: { code: "insufficient_funds" },
    });
  });
});

describe("a payment that the chain would not execute is refused", () => {
  test("for too little in the payer's account", async () => {
    const dear = { ...bench.payment, amount: FUNDS + 1n };
    expect(await bench.verify(bench.plan({}, dear), bench.solana, dear)).toBe(
      `insufficient_funds: the payer's token account ${sourceOf(bench.payment)} has less than 1000001 atomic units ($1.000001) to give`,
    );
    expect(bench.node.calls()).toEqual({ simulateTransaction: 1 });
  });

  test("for want of the payer's account", async () => {
    const poor = { ...bench.payment, payer: bench.freshKey() };
    expect(await bench.verify(bench.plan({}, poor), bench.solana, poor)).toBe(
      `insufficient_funds: the payer has no token account at ${sourceOf(poor)}, so no tokens to give`,
    );
    expect(bench.node.calls()).toEqual({ simulateTransaction: 1, getMultipleAccounts: 1 });
  });

  test("for want of the payee's account, unless the buyer creates it", async () => {
    const fresh = { ...bench.payment, payTo: bench.freshKey().address };
    expect(await bench.verify(bench.plan({}, fresh), bench.solana, fresh)).toBe(
      `invalid_transaction_state: the seller's token account ${destinationOf(fresh)} does not exist; ` +
        `it has to be created for ${fresh.payTo} first`,
    );
    bench.node.fundSol(bench.payment.payer.address, SOL);
    const creating = bench.plan({ instructions: [createAccount(fresh), transfer(fresh)] }, fresh);
    expect(await bench.verify(creating, bench.solana, fresh)).toBe("valid");
  });

  test.each([
    ["payer's", sourceOf],
    ["payee's", destinationOf],
  ] as const)("for a frozen account of the %s", async (_whose, accountOf) => {
    bench.node.freeze(accountOf(bench.payment));
    expect(await bench.verify(bench.plan())).toMatch(
      /^invalid_transaction_state: .*Custom 17.*frozen$/,
    );
  });

  test("for a blockhash that is too old, or of another cluster", async () => {
    const early = bench.plan();
    bench.node.tick(160);
    const stale = /^invalid_transaction_state: .*BlockhashNotFound.*sign a fresh transaction$/;
    expect(await bench.verify(early)).toMatch(stale);
    expect(await bench.verify(bench.plan({ blockhash: testKey(200).address }))).toMatch(stale);
  });

  test("for a limit of compute units that is too low", async () => {
    const [, ...others] = bench.plan().instructions;
    expect(await bench.verify(bench.plan({ instructions: [unitLimit(500), ...others] }))).toMatch(
      /^invalid_transaction_state: .* in instructions\[\d\]$/,
    );
  });

  test("for tokens that are ours, though the payer may move them", async () => {
    const source = bench.freshKey().address;
    const ours = await bench.node.fundToken({ mint: MINT, owner: FEE_PAYER, amount: FUNDS });
    bench.node.approve(ours, bench.payment.payer.address, FUNDS);
    const account = bench.node.account(ours);
    if (account === null) throw new Error("no account");
    bench.node.setAccount(source, account);
    expect(
      await bench.verify(bench.plan({ instructions: [transfer(bench.payment, { source })] })),
    ).toBe(
      `invalid_payload: the tokens would come from ${source}, which belongs to this facilitator`,
    );
  });
});

describe("a payment with lookup tables", () => {
  test("costs one call more for each table, once, and is settled like any other", async () => {
    const table = bench.node.lookupTable([MINT, destinationOf(bench.payment)]);
    const tables = { [table]: [MINT, destinationOf(bench.payment)] };
    const checked = bench.accept(bench.plan({ tables }));
    expect(checked.authorization.judged).toBeUndefined();
    const ready = await bench.inspect(checked);
    expect(bench.node.calls()).toEqual({ getMultipleAccounts: 1, simulateTransaction: 1 });
    expect(await bench.verify(bench.plan({ tables }))).toBe("valid");
    expect(bench.node.calls()).toEqual({ getMultipleAccounts: 1, simulateTransaction: 2 });
    const said = await bench.settle(checked, await bench.sign(ready));
    expect(said.kind).toBe("confirmed");
    expect(await bench.node.tokenBalanceOf(bench.payment.payTo, MINT)).toBe(bench.payment.amount);
  });

  test("is refused when the table leads elsewhere, or nowhere", async () => {
    const stranger = destinationOf({ ...bench.payment, payTo: bench.freshKey().address });
    const table = bench.node.lookupTable([stranger]);
    const believed = { [table]: [destinationOf(bench.payment)] };
    expect(await bench.verify(bench.plan({ tables: believed }))).toMatch(
      /^invalid_payload: .*pays /,
    );
    const nowhere = { [bench.freshKey().address]: [destinationOf(bench.payment)] };
    expect(await bench.verify(bench.plan({ tables: nowhere }))).toMatch(
      /^invalid_payload: .*lookup table/,
    );
    expect(bench.node.count("simulateTransaction")).toBe(0);
  });
});

describe("a fee payer that runs out of money", () => {
  const POOR = 5;
  const poor = testKey(POOR).address;
  const troubles: string[] = [];
  let by: SolanaMechanism;

  beforeAll(() => {
    const keys = [secretOf(POOR), secretOf(1)];
    by = bench.mechanism({ keys, onTrouble: (message) => troubles.push(message) });
  });

  test.each([
    ["is not there", 0n],
    ["would fall below the rent", RENT_EXEMPT_LAMPORTS + 5_000n],
  ])("and %s fails the verification, not the buyer, with one alarm", async (_what, lamports) => {
    bench.node.setLamports(poor, lamports);
    const of = { ...bench.payment, feePayer: poor };
    for (let time = 0; time < 2; time += 1) {
      await expect(bench.verify(bench.plan({}, of), by, of)).rejects.toMatchObject({
        code: "CHAIN_GAS",
      });
    }
    expect(troubles).toEqual([expect.stringContaining(`${poor} cannot pay the network fee`)]);
    expect(by.kind.extra).toEqual({ feePayer: FEE_PAYER });
  });

  test("does not sign, until it has been filled up", async () => {
    bench.node.setLamports(poor, SOL);
    const of = { ...bench.payment, feePayer: poor };
    const checked = bench.accept(bench.plan({}, of), by, of);
    const ready = await bench.inspect(checked, by);
    bench.node.setLamports(poor, RENT_EXEMPT_LAMPORTS);
    await by.balance(poor, never);
    await expect(bench.sign(ready, by)).rejects.toMatchObject({ code: "CHAIN_GAS" });
    bench.node.setLamports(poor, SOL);
    const said = await bench.settle(checked, await bench.sign(ready, by), by);
    expect(said.kind).toBe("confirmed");
    expect(bench.node.lamportsOf(poor)).toBeLessThan(SOL);
  });
});

test("the balance of an account says what a settlement costs", async () => {
  const checked = bench.accept(bench.plan());
  await bench.sign(await bench.inspect(checked));
  const wallet = await bench.solana.balance(FEE_PAYER, never);
  expect(wallet).toMatchObject({
    address: FEE_PAYER,
    balanceAtomic: bench.node.lamportsOf(FEE_PAYER),
    decimals: 9,
  });
  expect(wallet.settlementAtomic).toBeGreaterThanOrEqual(10_000n);
});
