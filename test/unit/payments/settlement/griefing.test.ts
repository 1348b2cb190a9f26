/** Payers who make our transactions fail: how much of that each of them, and all of them, can do. */
import { onTheWire } from "../../../../src/facilitator/wire-facilitator.ts";
import { describe, expect, test } from "vitest";
import {
  BatchPause,
  FIRST_PAUSE_MS,
  MAX_PAUSE_MS,
} from "../../../../src/payments/settlement/batch-pause.ts";
import { MAX_FAILURES } from "../../../../src/payments/settlement/failure-budget.ts";
import {
  COLLECT_MS,
  MAX_CROWD,
  MAX_CROWD_WAIT_MS,
} from "../../../../src/payments/settlement/payment-queue.ts";
import {
  MAX_REVERTED_GAS,
  RevertedGas,
  REVERTED_GAS_PER_MINUTE,
} from "../../../../src/payments/settlement/reverted-gas.ts";
import type { SettleResponse } from "../../../../src/x402/x402.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import {
  mineUntil,
  nonceOf,
  openEngine,
  payerAddress,
  payment,
  range,
  samplesOf,
  sentCount,
  settle,
  type EngineStage,
} from "./engine-stage.ts";
import { MAX_OPEN, type ScriptOptions } from "./scripted-mechanism.ts";

/** Places for code of payers'. */
const CODE_PLACES = MAX_OPEN / 4;
/** Payers with code have numbers from here on. */
const WALLET = 1_000;
/** What one of them burns, gas. */
const BURNT = 300_000n;

/** An engine whose blocks the test mines, and `wallets` payers with code. */
async function openWith(wallets: number, options: ScriptOptions = {}): Promise<EngineStage> {
  const at = await openEngine(options);
  at.chain.automines = false;
  at.chain.revertedGas = BURNT;
  for (const wallet of range(WALLET, wallets)) at.chain.unproven.add(payerAddress(wallet));
  return at;
}

/** Settles a payment of each of these payers with code, or several of each. */
function settleWallets(at: EngineStage, wallets: readonly number[]): Promise<SettleResponse>[] {
  return wallets.map((wallet, index) => settle(at, payment(wallet * 100 + index, wallet)));
}

/** Keeps the sender at work on whatever it signs next, until the test calls what is returned. */
function holdSignature({ ledger }: EngineStage): () => void {
  const held = Promise.withResolvers<void>();
  const signed = ledger.signing.signed.bind(ledger.signing);
  ledger.signing.signed = async (...parameters) => {
    await held.promise;
    return signed(...parameters);
  };
  return held.resolve;
}

describe("a payer with code", () => {
  test("has one payment in the air, and the next when a block holds it well", async () => {
    const at = await openWith(1);
    const all = settleWallets(at, [WALLET, WALLET, WALLET]);
    await at.time.advance(1_000);
    expect(sentCount(at)).toBe(1);
    at.chain.mine();
    await at.time.until(() => sentCount(at) === 2);
    await at.time.advance(1_000);
    expect(sentCount(at)).toBe(2);
    const answers = await mineUntil(at, Promise.all(all));
    expect(answers.map(({ success }) => success)).toEqual([true, true, true]);
  });

  test("whose payment failed on chain once is refused for a while, what waits included", async () => {
    const at = await openWith(1);
    at.chain.fails.add(nonceOf(WALLET * 100));
    const [first, second] = settleWallets(at, [WALLET, WALLET]);
    await at.time.until(() => sentCount(at) === 1);
    at.chain.mine();
    expect(await at.time.of(Promise.all([first, second]))).toMatchObject([
      { success: false },
      { success: false, errorReason: "invalid_transaction_state" },
    ]);
    expect(sentCount(at)).toBe(1);
    const verdict = onTheWire(at.facilitator).verify(payment(9, WALLET), at.time.timeout(1_000));
    expect(await verdict).toMatchObject({ isValid: false });
    expect(at.chain.count("inspect")).toBe(2);
    await at.time.advance(600_000);
    const later = settle(at, payment(9, WALLET));
    expect(await mineUntil(at, later)).toMatchObject({ success: true });
  });

  test("that is refused as it would be sent is not signed", async () => {
    const at = await openWith(1);
    at.chain.rehearsalFails.add(nonceOf(WALLET * 100));
    const [first, second] = settleWallets(at, [WALLET, WALLET]);
    expect(await at.time.of(first ?? second!)).toMatchObject({
      success: false,
      errorReason: "invalid_transaction_state",
    });
    expect(await mineUntil(at, second!)).toMatchObject({ success: true });
    expect(sentCount(at)).toBe(1);
  });

  test("since a moment ago waits for a place, though it was in the queue without", async () => {
    const at = await openWith(0);
    const release = holdSignature(at);
    const first = settle(at, payment(1, 1));
    await at.time.advance(10);
    const late = settle(at, payment(2, WALLET));
    await at.time.advance(5_000);
    at.chain.delegated.add(payerAddress(WALLET));
    const inspected = at.chain.count("inspect");
    release();
    expect(await mineUntil(at, Promise.all([first, late]))).toMatchObject([
      { success: true },
      { success: true },
    ]);
    // Once for the sender, and once more for the place.
    expect(at.chain.count("inspect")).toBe(inspected + 2);
  });

  test("makes room as soon as a block holds it well, however deep it must be", async () => {
    const isDeep = { now: false };
    const at = await openWith(1);
    const real = at.chain.mechanism();
    const shallow = await openEngine({
      chain: at.chain,
      members: {
        look: async (submission, signal) => {
          const seen = await real.look(submission, signal);
          const waiting = { kind: "unknown", detail: "not deep enough" } as const;
          return isDeep.now ? seen : { ...seen, payments: seen.payments.map(() => waiting) };
        },
      },
    });
    const all = settleWallets(shallow, [WALLET, WALLET]);
    await shallow.time.until(() => sentCount(at) === 1);
    at.chain.mine();
    await shallow.time.until(() => sentCount(at) === 2);
    isDeep.now = true;
    await mineUntil(shallow, Promise.all(all));
  });

  test("since a moment ago waits for a place as well", async () => {
    const at = await openWith(0);
    const { signal } = new AbortController();
    const payer = WALLET;
    const [first, second] = [payment(1, payer), payment(2, payer)];
    expect(await onTheWire(at.facilitator).verify(second, signal)).toMatchObject({ isValid: true });
    const settling = settle(at, first);
    await at.time.until(() => sentCount(at) === 1);
    at.chain.delegated.add(payerAddress(payer));
    // What the chain said before does not count any more.
    await at.time.advance(5_000);
    const late = settle(at, second);
    await at.time.advance(1_000);
    expect(sentCount(at)).toBe(1);
    at.chain.mine();
    expect(await at.time.of(settling)).toMatchObject({ success: true });
    expect(await mineUntil(at, late)).toMatchObject({ success: true });
  });
});

describe("all payers with code", () => {
  test("have a quarter of the places, and hold up nobody else", async () => {
    const at = await openWith(3 * CODE_PLACES);
    const all = settleWallets(at, range(WALLET, 3 * CODE_PLACES));
    await at.time.advance(1_000);
    expect(sentCount(at)).toBe(CODE_PLACES);
    const honest = settle(at, payment(1, 1));
    await at.time.until(() => sentCount(at) === CODE_PLACES + 1);
    at.chain.mine();
    expect(await at.time.of(honest)).toMatchObject({ success: true });
    await at.time.advance(1_000);
    expect(sentCount(at)).toBe(2 * CODE_PLACES + 1);
    const answers = await mineUntil(at, Promise.all(all));
    expect(answers.every(({ success }) => success)).toBe(true);
  });

  test.each(["together with others", "alone"])("go when nobody who goes %s waits", async (how) => {
    const at = await openWith(1);
    if (how === "alone") {
      // Whoever has failed goes alone.
      at.chain.fails.add(nonceOf(9));
      await mineUntil(at, settle(at, payment(9, 2)));
    }
    const before = sentCount(at);
    const release = holdSignature(at);
    const all = [settle(at, payment(1, 1))];
    await at.time.advance(10);
    all.push(...settleWallets(at, [WALLET]));
    await at.time.advance(10);
    all.push(settle(at, payment(2, 2)));
    await at.time.advance(COLLECT_MS);
    release();
    await at.time.until(() => sentCount(at) === before + 3);
    expect(at.chain.prepared.flat().slice(-3)).toEqual([1, 2, WALLET * 100].map(nonceOf));
    await mineUntil(at, Promise.all(all));
  });

  test("wait for their places for a while, and are refused then", async () => {
    const at = await openWith(CODE_PLACES + 1);
    const all = settleWallets(at, range(WALLET, CODE_PLACES + 1));
    const [last] = all.slice(-1);
    let isAnswered = false;
    void last?.then(() => (isAnswered = true));
    await at.time.advance(MAX_CROWD_WAIT_MS - 1);
    expect(isAnswered).toBe(false);
    await at.time.advance(1);
    expect(await last).toMatchObject({
      success: false,
      detail: expect.stringContaining("try again later"),
    });
    await mineUntil(at, Promise.all(all));
  });

  test("are refused at once when many wait, and nobody else is", async () => {
    const count = CODE_PLACES + MAX_CROWD;
    const at = await openWith(count + 1);
    const all = settleWallets(at, range(WALLET, CODE_PLACES));
    await at.time.until(() => sentCount(at) === CODE_PLACES);
    all.push(...settleWallets(at, range(WALLET + CODE_PLACES, MAX_CROWD)));
    await at.time.advance(100);
    const [more] = settleWallets(at, [WALLET + count]);
    const startMs = at.time.now();
    expect(await at.time.of(more!)).toMatchObject({ success: false });
    expect(at.time.now() - startMs).toBeLessThan(100);
    const honest = settle(at, payment(1, 1));
    await at.time.until(() => sentCount(at) === CODE_PLACES + 1);
    await mineUntil(at, Promise.all([honest, ...all]));
  });

  test("are refused for a while after they have burnt much gas, and nobody else is", async () => {
    const at = await openWith(12);
    const burning = range(WALLET, CODE_PLACES);
    for (const [index, wallet] of burning.entries()) {
      at.chain.fails.add(nonceOf(wallet * 100 + index));
    }
    const waiting = range(WALLET + CODE_PLACES, 4);
    const all = settleWallets(at, [...burning, ...waiting]);
    await at.time.until(() => sentCount(at) === CODE_PLACES);
    at.chain.mine();
    const answers = await at.time.of(Promise.all(all));
    expect(answers.every(({ success }) => !success)).toBe(true);
    expect(sentCount(at)).toBe(CODE_PLACES);
    const refused = payment(7, WALLET + 8);
    expect(await onTheWire(at.facilitator).verify(refused, at.time.timeout(1_000))).toMatchObject({
      isValid: false,
      detail: expect.stringContaining("pay from an address without code"),
    });
    const honest = settle(at, payment(1, 1));
    await at.time.until(() => sentCount(at) === CODE_PLACES + 1);
    at.chain.mine();
    expect(await at.time.of(honest)).toMatchObject({ success: true });
    const told = at.lines.filter((line) => line.includes("burn too much gas"));
    expect(told).toHaveLength(1);
    expect(await samplesOf(at.metrics, "coinslot_reverted_gas_total")).toEqual([
      `coinslot_reverted_gas_total{network="base-sepolia"} ${BURNT * BigInt(CODE_PLACES)}`,
    ]);
    await at.time.advance(10 * 60_000);
    const later = settle(at, refused);
    expect(await mineUntil(at, later)).toMatchObject({ success: true });
  });
});

describe("a payer whom nobody knows", () => {
  test("has no more in the air than may fail, until one has paid", async () => {
    const at = await openWith(0);
    const all = range(1, 6).map((number) => settle(at, payment(number, 5)));
    await at.time.advance(1_000);
    expect(sentCount(at)).toBe(MAX_FAILURES);
    const honest = settle(at, payment(50, 6));
    await at.time.until(() => sentCount(at) === MAX_FAILURES + 1);
    await mineUntil(at, Promise.all([honest, ...all]));
    const more = range(11, MAX_FAILURES + 4).map((number) => settle(at, payment(number, 5)));
    const before = sentCount(at);
    await at.time.advance(1_000);
    expect(sentCount(at)).toBe(before + MAX_FAILURES + 4);
    await mineUntil(at, Promise.all(more));
  });

  test("burns no more than that, and the rest is refused with it", async () => {
    const at = await openWith(0);
    const numbers = range(1, 10);
    for (const number of numbers) at.chain.fails.add(nonceOf(number));
    const all = numbers.map((number) => settle(at, payment(number, 5)));
    await at.time.until(() => sentCount(at) === MAX_FAILURES);
    at.chain.mine();
    const answers = await at.time.of(Promise.all(all));
    expect(answers.every(({ success }) => !success)).toBe(true);
    expect(sentCount(at)).toBe(MAX_FAILURES);
  });

  test("and has code when the payment has failed is refused, though it has none again", async () => {
    const at = await openWith(0);
    at.chain.fails.add(nonceOf(1));
    const first = settle(at, payment(1, 5));
    await at.time.until(() => sentCount(at) === 1);
    at.chain.delegated.add(payerAddress(5));
    expect(await mineUntil(at, first)).toMatchObject({ success: false });
    at.chain.delegated.delete(payerAddress(5));
    const verdict = onTheWire(at.facilitator).verify(payment(2, 5), at.time.timeout(1_000));
    expect(await verdict).toMatchObject({
      isValid: false,
      detail: expect.stringContaining("failed on chain"),
    });
  });

  test("loses by a failure what was earned by paying", async () => {
    const at = await openWith(0);
    const paid = range(1, 5).map((number) => settle(at, payment(number, 5)));
    await mineUntil(at, Promise.all(paid));
    at.chain.fails.add(nonceOf(20));
    await mineUntil(at, settle(at, payment(20, 5)));
    const before = sentCount(at);
    const more = range(21, 6).map((number) => settle(at, payment(number, 5)));
    await at.time.advance(1_000);
    expect(sentCount(at)).toBe(before + MAX_FAILURES - 1);
    await mineUntil(at, Promise.all(more));
  });
});

describe("a batch that is reverted as a whole", () => {
  test("is followed by payments alone, and who has code by now is blamed", async () => {
    const at = await openWith(0, { maxTogether: 10 });
    const first = settle(at, payment(1, 1));
    await at.time.until(() => sentCount(at) === 1);
    const batch = range(2, 4).map((number) => settle(at, payment(number, number)));
    await at.time.until(() => sentCount(at) === 2);
    for (const number of range(2, 4)) at.chain.failsTogether.add(nonceOf(number));
    at.chain.delegated.add(payerAddress(3));
    const all = Promise.all([first, ...batch]);
    const answers = await mineUntil(at, all);
    // The first of them is payer 1's, the third payer 3's.
    expect(answers.map(({ success }) => success)).toEqual([true, true, false, true, true]);
    const together = range(12, 3).map((number) => settle(at, payment(number, number)));
    await mineUntil(at, Promise.all(together));
    expect(at.chain.prepared.slice(-3).map(({ length }) => length)).toEqual([1, 1, 1]);
    expect(at.lines.join("")).toContain("they go alone for a while");

    await at.time.advance(FIRST_PAUSE_MS);
    const again = range(22, 4).map((number) => settle(at, payment(number, number)));
    await mineUntil(at, Promise.all(again));
    expect(Math.max(...at.chain.prepared.slice(-3).map(({ length }) => length))).toBeGreaterThan(1);
  });

  test("makes each pause twice as long as the one before, up to a limit, until it was quiet", () => {
    const time = new ManualTime();
    let nowMs = time.now();
    const pause = new BatchPause({ now: () => nowMs });
    expect(pause.isOn).toBe(false);
    let expected = FIRST_PAUSE_MS;
    for (let count = 0; count < 8; count += 1) {
      expect(pause.reverted()).toBe(expected);
      expect(pause.reverted()).toBeUndefined();
      nowMs += expected - 1;
      expect(pause.isOn).toBe(true);
      nowMs += 1;
      expect(pause.isOn).toBe(false);
      expected = Math.min(2 * expected, MAX_PAUSE_MS);
    }
    nowMs += MAX_PAUSE_MS;
    expect(pause.reverted()).toBe(FIRST_PAUSE_MS);
  });
});

describe("payers whose payments a batch left behind", () => {
  const LEFT = 12;

  /** All of them wait to go alone, or do. */
  async function openWithLeft(burnt: bigint): Promise<{ at: EngineStage; all: Promise<unknown> }> {
    const at = await openWith(0, { maxTogether: LEFT + 1 });
    at.chain.revertedGas = burnt;
    for (const number of range(1, LEFT)) at.chain.fails.add(nonceOf(number));
    const first = settle(at, payment(50, 50));
    await at.time.until(() => sentCount(at) === 1);
    const others = [...range(1, LEFT), 51].map((number) => settle(at, payment(number, number)));
    const all = Promise.all([first, ...others]);
    await at.time.until(() => sentCount(at) === 2);
    at.chain.mine();
    await at.time.until(() => sentCount(at) > 2);
    return { at, all };
  }

  test("have a quarter of the places, and hold up nobody else", async () => {
    const { at, all } = await openWithLeft(0n);
    await at.time.advance(1_000);
    expect(sentCount(at)).toBe(2 + CODE_PLACES);
    const honest = settle(at, payment(60, 60));
    await at.time.until(() => sentCount(at) === 2 + CODE_PLACES + 1);
    await mineUntil(at, Promise.all([honest, all]));
    expect(await honest).toMatchObject({ success: true });
  });

  test("are not signed for while too much gas is burnt, and nobody else is kept out", async () => {
    const { at, all } = await openWithLeft(BigInt(MAX_REVERTED_GAS));
    await mineUntil(at, all);
    expect(sentCount(at)).toBeLessThanOrEqual(2 + CODE_PLACES);
    expect(await mineUntil(at, settle(at, payment(60, 60)))).toMatchObject({ success: true });
    expect(await mineUntil(at, settle(at, payment(61, LEFT)))).toMatchObject({
      success: false,
      detail: expect.stringContaining("whose last one did not move"),
    });
  });
});

describe("the breaker on reverted gas", () => {
  test("opens once above its limit, and closes when half of it has leaked away", () => {
    let nowMs = 1_700_000_000_000;
    const gas = new RevertedGas({ now: () => nowMs });
    expect(gas.burnt(MAX_REVERTED_GAS)).toBe(false);
    expect(gas.refusal()).toBeUndefined();
    expect(gas.burnt(1)).toBe(true);
    expect(gas.burnt(1)).toBe(false);
    expect(gas.refusal()).toMatchObject({ code: "invalid_transaction_state" });
    nowMs += (MAX_REVERTED_GAS / 2 / REVERTED_GAS_PER_MINUTE) * 60_000;
    expect(gas.refusal()).toBeDefined();
    nowMs += 1_000;
    expect(gas.refusal()).toBeUndefined();
    expect(gas.burnt(MAX_REVERTED_GAS)).toBe(true);
  });

  test("never opens for what leaks away as fast", () => {
    let nowMs = 1_700_000_000_000;
    const gas = new RevertedGas({ now: () => nowMs });
    for (let minute = 0; minute < 600; minute += 1) {
      expect(gas.burnt(REVERTED_GAS_PER_MINUTE)).toBe(false);
      nowMs += 60_000;
    }
  });

  test("lets nothing out when the clock is set back", () => {
    let nowMs = 1_700_000_000_000;
    const gas = new RevertedGas({ now: () => nowMs });
    gas.burnt(2 * MAX_REVERTED_GAS);
    nowMs -= 86_400_000;
    expect(gas.refusal()).toBeDefined();
  });
});
