/** Nodes that fail, and payments that others settle. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { RENEWAL, type Standing } from "../../../src/mechanism/mechanism.ts";
import { MAX_JUDGED } from "../../../src/mechanism/solana/endpoints.ts";
import { createSolanaObserver } from "../../../src/mechanism/solana/solana.ts";
import { systemTime } from "../../../src/time/time.ts";
import { buildTransaction, destinationOf, testKey } from "../../support/solana-messages.ts";
import {
  devnet,
  never,
  requestOf,
  requirementsOf,
  secretOf,
} from "../../support/solana-requests.ts";
import { startSolanaNode } from "../../support/solana/solana-node.ts";
import { FEE_PAYER, openBench, type Bench } from "./solana-bench.ts";

let bench: Bench;
beforeAll(async () => {
  bench = await openBench();
});
afterAll(() => bench.close());
beforeEach(() => bench.renew());

describe("a node that fails", () => {
  test("is an operational fault, and another one is asked where there is one", async () => {
    await using other = await startSolanaNode({ slotMs: null });
    other.inject({ method: "simulateTransaction", status: 503 });
    const lone = bench.mechanism({ rpcUrls: [other.rpcUrl] });
    await expect(bench.verify(bench.plan(), lone)).rejects.toMatchObject({ code: "CHAIN_ANSWER" });
    const both = bench.mechanism({ rpcUrls: [other.rpcUrl, bench.node.rpcUrl] });
    expect(await bench.verify(bench.plan(), both)).toBe("valid");
  });

  test("because of the transaction stays in use", async () => {
    const health: (readonly [string, boolean | undefined])[] = [];
    const by = bench.mechanism({ onHealth: (host, isHealthy) => health.push([host, isHealthy]) });
    const message = "invalid transaction: Transaction version is unsupported";
    bench.node.inject({
      method: "simulateTransaction",
      error: { code: -32_602, message },
      times: 1,
    });
    expect(await bench.verify(bench.plan(), by)).toBe(
      `invalid_transaction_state: the network does not take the transaction: ${message}`,
    );
    bench.node.inject({
      method: "simulateTransaction",
      error: { code: -32_602, message: "Invalid params: unknown field." },
      times: 1,
    });
    await expect(bench.verify(bench.plan(), by)).rejects.toMatchObject({ rpcCode: -32_602 });
    const { host } = new URL(bench.node.rpcUrl);
    expect(health).toEqual([[host, true]]);
    bench.node.inject({
      method: "simulateTransaction",
      error: { code: -32_005, message: "Node is unhealthy" },
      times: 1,
    });
    await expect(bench.verify(bench.plan(), by)).rejects.toMatchObject({ rpcCode: -32_005 });
    expect(health).toEqual([
      [host, true],
      [host, false],
    ]);
  });

  test("by being far behind is asked last", async () => {
    await using slow = await startSolanaNode({ slotMs: null });
    const both = bench.mechanism({ rpcUrls: [slow.rpcUrl, bench.node.rpcUrl] });
    bench.node.tick(60);
    expect(await both.probe(never)).toEqual([]);
    slow.resetCalls();
    expect(await bench.verify(bench.plan(), both)).toBe("valid");
    expect(slow.count("simulateTransaction")).toBe(0);
  });
});

test("strangers' payments leave connections to what we have signed", async () => {
  const by = bench.mechanism({});
  await by.balance(FEE_PAYER, never);
  bench.node.inject({ method: "simulateTransaction", hold: true });
  const payments = Array.from({ length: 3 * MAX_JUDGED }, () => bench.accept(bench.plan(), by));
  const judged = payments.map((payment) => by.inspect(payment, never));
  await expect.poll(() => bench.node.count("simulateTransaction")).toBe(MAX_JUDGED);
  expect(await by.balance(FEE_PAYER, never)).toMatchObject({ address: FEE_PAYER });
  const renewed = by.inspect(bench.accept(bench.plan(), by), never, RENEWAL);
  await expect.poll(() => bench.node.count("simulateTransaction")).toBe(MAX_JUDGED + 1);
  bench.node.lift();
  for (const verdict of await Promise.all([...judged, renewed])) expect(verdict.ok).toBe(true);
});

function observer() {
  return bench.keep(
    createSolanaObserver({
      network: devnet(),
      rpcUrls: [bench.node.rpcUrl],
      assets: [],
      commitment: "confirmed",
      time: systemTime,
    }),
  );
}

test("a payment in a token that is not configured any more is followed to its end", async () => {
  const asset = { ...devnet().asset, symbol: "EURC", address: bench.freshKey().address };
  const later = bench.mechanism({ assets: [asset], keys: [secretOf(8)], allowPayTo: [] });
  const plan = bench.plan();
  const checked = bench.accept(plan);
  const signed = await bench.sign(await bench.inspect(checked));
  const { transaction } = signed;
  await bench.settle(checked, signed);
  const request = requestOf(buildTransaction(plan), requirementsOf(bench.payment));
  expect(later.check(request, 0).ok).toBe(false);
  for (const by of [later, observer()]) {
    const parsed = by.parse(request);
    if (!parsed.ok) throw new Error(parsed.error.detail);
    const said = await by.reconcile(parsed.value, { claimed: undefined, after: null }, never);
    expect(said).toMatchObject({ kind: "confirmed", transaction });
    const submission = { variants: [signed], authorizations: [parsed.value] };
    const { payments } = await later.look(submission, never);
    expect(payments).toMatchObject([{ kind: "confirmed", transaction }]);
  }
});

/** Where a chain stands that has a word on the payment. */
async function standingOf(asked: Promise<Standing | null>): Promise<Standing> {
  const standing = await asked;
  if (standing === null) throw new Error("no word on it");
  return standing;
}

describe("an observer", () => {
  test("sees a payment that others have settled, by the transaction that they name, or without", async () => {
    const plan = bench.plan();
    const checked = bench.accept(plan);
    const signed = await bench.sign(await bench.inspect(checked));
    const { transaction } = signed;
    await bench.settle(checked, signed);
    const request = requestOf(buildTransaction(plan), requirementsOf(bench.payment));
    const watching = observer();
    const parsed = watching.parse(request);
    if (!parsed.ok) throw new Error(parsed.error.detail);
    for (const claimed of [transaction, undefined]) {
      expect(await watching.reconcile(parsed.value, { claimed, after: null }, never)).toMatchObject(
        {
          kind: "confirmed",
          transaction,
        },
      );
    }
  });

  test("knows what was on the chain before a hand-over, and does not count it", async () => {
    const plan = bench.plan();
    const checked = bench.accept(plan);
    const signed = await bench.sign(await bench.inspect(checked));
    const { transaction } = signed;
    // Without the fee payer's signature, as buyers present it, and thieves.
    const request = requestOf(buildTransaction(plan), requirementsOf(bench.payment));
    const watching = observer();
    const parsed = watching.parse(request);
    if (!parsed.ok) throw new Error(parsed.error.detail);
    const before = await standingOf(watching.standing(parsed.value, never));
    expect(before.used).toBeNull();
    await bench.settle(checked, signed);
    const after = await standingOf(watching.standing(parsed.value, never));
    expect(after.head).toBeGreaterThan(before.head);
    expect(after.used).toMatchObject({
      code: "invalid_transaction_state",
      detail: expect.stringContaining("executed before"),
    });
    for (const claimed of [transaction, undefined]) {
      const late = { claimed, after: after.head };
      expect(await watching.reconcile(parsed.value, late, never)).toMatchObject({
        kind: "failed",
        refusal: { detail: expect.stringContaining("before anybody was asked") },
        retriable: false,
      });
      const inTime = { claimed, after: before.head };
      expect(await watching.reconcile(parsed.value, inTime, never)).toMatchObject({
        kind: "confirmed",
        transaction,
      });
    }
  });

  test.each([
    ["somebody else", () => ({ payTo: testKey(3).address })],
    ["more", () => ({ amount: bench.payment.amount + 1n })],
  ])(
    "does not take a transaction for a payment that should have paid %s",
    async (_what, change) => {
      for (const isLookedUp of [false, true]) {
        const table = bench.node.lookupTable([destinationOf(bench.payment)]);
        const signed = bench.plan(
          isLookedUp ? { tables: { [table]: [destinationOf(bench.payment)] } } : {},
        );
        const checked = bench.accept(signed);
        await bench.settle(checked, await bench.sign(await bench.inspect(checked)));
        const wanted = requirementsOf({ ...bench.payment, ...change() });
        const watching = observer();
        const parsed = watching.parse(requestOf(buildTransaction(signed), wanted));
        if (!parsed.ok) throw new Error(parsed.error.detail);
        expect(
          await watching.reconcile(parsed.value, { claimed: undefined, after: null }, never),
        ).toMatchObject({
          kind: "failed",
          refusal: { detail: expect.stringContaining("does not pay what was asked for") },
        });
      }
    },
  );
});
