/** What payments of one payer may take together: nothing is signed that could be more than what there is. */
import { describe, expect, it } from "vitest";
import type { Ledger, StoredSubmission } from "../../../src/ledger/ledger.ts";
import { LedgerOverdraft, purseOf, type PurseReading } from "../../../src/ledger/purse.ts";
import { paymentKey, type PaymentKey } from "../../../src/x402/payment-key.ts";
import type { OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, PAYER, type ExamplePayment } from "./example-payment.ts";
import {
  ACCOUNT,
  bring,
  FAILURE,
  leaseOf,
  NETWORK,
  SETTLEMENT,
  sign,
  signWith,
} from "./ledger-driver.ts";

const PRICE = 10_000n;
/** Longer than a settled payment may be missing in a balance, milliseconds. */
const LONG_AGO_MS = 30_000;
const OTHER_ASSET = "0x0000000000000000000000000000000000000a55";
const OTHER_ACCOUNT = "0x90F79bf6EB2c4f870365E785982E1f101E93b906";
const NOTHING: ReadonlySet<PaymentKey> = new Set();

/** The same payment of another payer or token. */
function changed(
  number: number,
  { from = PAYER, asset }: { readonly from?: string; readonly asset?: string },
): ExamplePayment {
  const text = JSON.stringify(examplePayment(number).request).replaceAll(PAYER, from);
  const { paymentRequirements, ...rest } = JSON.parse(text) as ExamplePayment["request"];
  const asked = { ...paymentRequirements, asset: asset ?? paymentRequirements.asset };
  const request = { ...rest, paymentRequirements: asked };
  const key = paymentKey(request);
  if (!key.ok) throw new Error(key.error.detail);
  return { key: key.value, request };
}

async function claimed(ledger: Ledger, count: number, first = 1): Promise<ExamplePayment[]> {
  const payments = Array.from({ length: count }, (_, number) => examplePayment(number + first));
  for (const payment of payments) await bring(ledger, payment, "claimed");
  return payments;
}

export function describePurses(open: OpenLedger): void {
  const place = eachTestIn(open);

  const readingOf = (prices: number, change: Partial<PurseReading> = {}): PurseReading => ({
    balanceAtomic: PRICE * BigInt(prices),
    askedMs: place().time.nowMs,
    seen: NOTHING,
    ...change,
  });

  /** Signs together by what was seen of the purse; the keys for which nothing is left, where there are some. */
  async function overdraft(
    payments: readonly ExamplePayment[],
    reading: PurseReading,
    { ledger = place().ledger, address = ACCOUNT } = {},
  ): Promise<readonly PaymentKey[]> {
    const keys = payments.map(({ key }) => key);
    const account = { ...(await leaseOf(ledger, address)), seed: 0 };
    const draws = new Map(keys.map((key) => [key, { amountAtomic: PRICE, reading }]));
    const signing = (nonce: number) => signWith(nonce, address);
    return overdraftOf(ledger.signing.signed(keys, account, signing, draws));
  }

  describe("signs what fits", () => {
    it("and nothing at all where one payment does not, which it names", async () => {
      const { ledger } = place();
      const payments = await claimed(ledger, 3);
      const keys = payments.map(({ key }) => key);
      expect(await overdraft(payments, readingOf(2))).toEqual([keys[2]]);
      expect(await ledger.signing.nextAccountNonce(NETWORK, ACCOUNT)).toBeUndefined();
      expect(await ledger.signing.unfinished(NETWORK, ACCOUNT)).toEqual([]);
      for (const key of keys) {
        expect(await ledger.books.show(key)).toMatchObject({ state: "CLAIMED" });
      }
      expect(await overdraft(payments.slice(0, 2), readingOf(2))).toEqual([]);
    });

    it("beside what is signed and not decided, whatever the letter case of the payer", async () => {
      const { ledger } = place();
      await bring(ledger, examplePayment(1), "signed");
      const same = changed(2, { from: PAYER.toLowerCase() });
      await bring(ledger, same, "claimed");
      expect(await overdraft([same], readingOf(1))).toEqual([same.key]);
      expect(await overdraft([same], readingOf(2))).toEqual([]);
    });

    it("of one of many lanes that sign at the same time", async () => {
      const { ledger } = place();
      const payments = await claimed(ledger, 12);
      const all = await Promise.all(
        payments.map((payment, index) => {
          const address = index % 2 === 0 ? ACCOUNT : OTHER_ACCOUNT;
          return overdraft([payment], readingOf(3), { address });
        }),
      );
      expect(all.filter((over) => over.length === 0)).toHaveLength(3);
    });

    it("whatever is under way of another payer, of another token, or at another facilitator", async () => {
      const { ledger } = place();
      const others = [changed(1, { from: ACCOUNT }), changed(2, { asset: OTHER_ASSET })];
      for (const each of others) await bring(ledger, each, "signed");
      await bring(ledger, examplePayment(3), "handed");
      const [payment] = await claimed(ledger, 1, 4);
      if (payment === undefined) throw new Error("a payment");
      expect(await overdraft([payment], readingOf(1))).toEqual([]);
    });

    it("without asking where it is told nothing of a purse", async () => {
      const { ledger } = place();
      await bring(ledger, examplePayment(1), "signed");
      const payments = await claimed(ledger, 1, 2);
      await sign(ledger, payments);
    });
  });

  describe("a payment that was signed takes nothing any more", () => {
    it("once it has failed, or was left behind", async () => {
      const { ledger } = place();
      const [failed, left] = [examplePayment(1), examplePayment(2)];
      await bring(ledger, failed, "failed");
      await bring(ledger, left, "signed");
      await ledger.step(left.key, { kind: "withdrawn" });
      expect(await overdraft([left], readingOf(1))).toEqual([]);
      expect(FAILURE.code).toBe("insufficient_funds");
    });

    it.each(["settled", "delivered"] as const)(
      "a while after it was %s, and not before: the balance may be another node's",
      async (state) => {
        const { ledger, time } = place();
        await bring(ledger, examplePayment(1), state);
        const [payment] = await claimed(ledger, 1, 2);
        if (payment === undefined) throw new Error("a payment");
        await untilStored(ledger, payment);
        time.nowMs += LONG_AGO_MS - 1;
        expect(await overdraft([payment], readingOf(1))).toEqual([payment.key]);
        // Asked for before it was settled, and shown late.
        const early = { askedMs: time.nowMs - LONG_AGO_MS };
        time.nowMs += 1;
        expect(await overdraft([payment], readingOf(1, early))).toEqual([payment.key]);
        expect(await overdraft([payment], readingOf(1))).toEqual([]);
      },
    );

    it("where it was claimed long before, once it is settled", async () => {
      const { ledger, time } = place();
      const slow = examplePayment(1);
      await bring(ledger, slow, "signed");
      time.nowMs += LONG_AGO_MS + LONG_AGO_MS;
      const [payment] = await claimed(ledger, 1, 2);
      if (payment === undefined) throw new Error("a payment");
      expect(await overdraft([payment], readingOf(1))).toEqual([payment.key]);
      await ledger.step(slow.key, { kind: "settled", settlement: SETTLEMENT });
      await untilStored(ledger, payment);
      expect(await overdraft([payment], readingOf(1))).toEqual([]);
    });

    it.each(["signed", "settled"] as const)("where the reading shows it, %s", async (state) => {
      const { ledger } = place();
      const shown = examplePayment(1);
      await bring(ledger, shown, state);
      const [payment] = await claimed(ledger, 1, 2);
      if (payment === undefined) throw new Error("a payment");
      const reading = readingOf(1, { seen: new Set([shown.key]) });
      expect(await overdraft([payment], reading)).toEqual([]);
    });
  });

  it("tells what leaves a purse: what is undecided, and what was settled since", async () => {
    const { ledger, time } = place();
    const [old, settled, open] = [1, 2, 3].map(examplePayment);
    if (!old || !settled || !open) throw new Error("three payments");
    await bring(ledger, old, "settled");
    time.nowMs += 1000;
    const sinceMs = time.nowMs;
    time.nowMs += 1;
    await bring(ledger, settled, "signed");
    time.nowMs += 1;
    await bring(ledger, open, "signed");
    await ledger.step(settled.key, { kind: "settled", settlement: SETTLEMENT });
    const told = await ledger.signing.spends(purseOf(open.key), sinceMs);
    expect(told).toMatchObject([
      { key: settled.key, amountAtomic: PRICE, settledMs: time.nowMs },
      { key: open.key, amountAtomic: PRICE, settledMs: null },
    ]);
    const { version = -1 } = told[1] ?? {};
    const change = ledger.changed(open.key, version, AbortSignal.timeout(10_000));
    await ledger.step(open.key, {
      kind: "settled",
      settlement: { ...SETTLEMENT, transaction: "0xbb" },
    });
    await change;
  });
}

/** What was done just now is in the database before anything is asked of it. */
async function untilStored(ledger: Ledger, { key }: ExamplePayment): Promise<void> {
  await ledger.signing.spends(purseOf(key), 0);
  await new Promise((stored) => setImmediate(stored));
}

async function overdraftOf(signed: Promise<StoredSubmission>): Promise<readonly PaymentKey[]> {
  try {
    await signed;
    return [];
  } catch (error) {
    if (error instanceof LedgerOverdraft) return error.keys;
    throw error;
  }
}
