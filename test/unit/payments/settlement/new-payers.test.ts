/** Payers who never paid here: what all of them together can burn, and who goes on beside them. */
import { describe, expect, test } from "vitest";
import { MAX_FAILURES } from "../../../../src/payments/settlement/failure-budget.ts";
import { FEW_MS, MAX_NEW, NewPayers } from "../../../../src/payments/settlement/new-payers.ts";
import {
  COLLECT_MS,
  MAX_CROWD,
  MAX_CROWD_WAIT_MS,
} from "../../../../src/payments/settlement/payment-queue.ts";
import {
  MAX_REVERTED_GAS,
  REVERTED_GAS_PER_MINUTE,
} from "../../../../src/payments/settlement/reverted-gas.ts";
import type { PaymentKey } from "../../../../src/x402/payment-key.ts";
import type { SettleResponse } from "../../../../src/x402/x402.ts";
import {
  mineUntil,
  nonceOf,
  openEngine,
  payment,
  range,
  samplesOf,
  sentCount,
  settle,
  type EngineStage,
} from "./engine-stage.ts";
import { MAX_OPEN } from "./scripted-mechanism.ts";

const FEW = MAX_OPEN / 4;
const TOGETHER = 50;
/** One who has paid before, and one whose payment keeps others together. */
const KNOWN = 900;
const BEFORE = 901;
/** Payers whose payments never move. */
const BAD = 100;
/** What each of them burns in a batch: a dozen fill the bucket. */
const LEFT_GAS = BigInt(MAX_REVERTED_GAS / 10);
/** What a call takes of a batch with the real token. */
const CALL_GAS = 59_000;
const CROWDED = { success: false, detail: expect.stringContaining("who have not paid here") };

/** Payments prepared since, those of one transaction together. */
const preparedSince = ({ chain }: EngineStage, from: number): readonly (readonly string[])[] =>
  chain.prepared.slice(from);

/** A chain whose blocks the test mines; KNOWN has paid. */
async function openWithKnown(maxTogether = TOGETHER): Promise<EngineStage> {
  const at = await openEngine({ maxTogether });
  at.chain.automines = false;
  at.chain.leftBehindGas = LEFT_GAS;
  await mineUntil(at, settle(at, payment(KNOWN, KNOWN)));
  return at;
}

/** Something is in the air, so that what comes now is collected. */
async function keepBusy(
  at: EngineStage,
  number = BEFORE,
): Promise<{ lone: Promise<SettleResponse> }> {
  const before = sentCount(at);
  const lone = settle(at, payment(number, BEFORE));
  await at.time.until(() => sentCount(at) === before + 1);
  return { lone };
}

const payEach = (at: EngineStage, payers: readonly number[]): Promise<SettleResponse>[] =>
  payers.map((payer) => settle(at, payment(payer, payer)));

/** Payments of new payers are left behind by their batch, which fills the bucket. */
async function openEmptied(): Promise<{ at: EngineStage; bad: Promise<unknown> }> {
  const at = await openWithKnown();
  const { lone } = await keepBusy(at);
  const numbers = range(BAD, 12);
  for (const number of numbers) at.chain.fails.add(nonceOf(number));
  const before = sentCount(at);
  const bad = Promise.all([...payEach(at, numbers), settle(at, payment(KNOWN + 10, KNOWN))]);
  await at.time.until(() => sentCount(at) > before);
  at.chain.mine();
  await at.time.until(() => at.lines.some((line) => line.includes("new payers burn too much")));
  await at.time.of(lone);
  return { at, bad };
}

describe("payers who never paid here", () => {
  test("have so many in the air together at most, and who has paid goes on", async () => {
    const at = await openWithKnown();
    const { lone } = await keepBusy(at);
    const other = settle(at, payment(KNOWN + 2, KNOWN));
    await at.time.until(() => at.chain.prepared.flat().includes(nonceOf(KNOWN + 2)));
    const from = at.chain.prepared.length;
    const all = payEach(at, range(1, MAX_NEW + 20));
    await at.time.until(() => preparedSince(at, from).flat().length >= MAX_NEW - 1);
    await at.time.advance(1_000);
    // The lone one is new as well.
    expect(preparedSince(at, from).flat()).toHaveLength(MAX_NEW - 1);
    const known = settle(at, payment(KNOWN + 1, KNOWN));
    await at.time.until(() =>
      preparedSince(at, from)
        .flat()
        .includes(nonceOf(KNOWN + 1)),
    );
    const answers = await mineUntil(at, Promise.all([lone, other, known, ...all]));
    expect(answers.every(({ success }) => success)).toBe(true);
  });

  test("each have no more in a batch than may fail", async () => {
    const at = await openWithKnown();
    const { lone } = await keepBusy(at);
    const from = at.chain.prepared.length;
    const all = range(1, 6).map((number) => settle(at, payment(number, 5)));
    await at.time.advance(COLLECT_MS);
    expect(preparedSince(at, from).map(({ length }) => length)).toEqual([MAX_FAILURES]);
    await mineUntil(at, Promise.all([lone, ...all]));
  });
});

describe("once batches have left much behind", () => {
  test("new payers share few places, and who has paid goes on in batches", async () => {
    const { at, bad } = await openEmptied();
    const from = at.chain.prepared.length;
    const fresh = payEach(at, range(1, 10));
    const known = range(KNOWN + 20, 5).map((number) => settle(at, payment(number, KNOWN)));
    await at.time.until(() =>
      preparedSince(at, from)
        .flat()
        .includes(nonceOf(KNOWN + 20)),
    );
    await at.time.advance(1_000);
    const signed = preparedSince(at, from).flat();
    expect(range(KNOWN + 20, 2).every((number) => signed.includes(nonceOf(number)))).toBe(true);
    const isKnown = (nonce: string): boolean => Number(nonce) >= KNOWN;
    expect(signed.filter((nonce) => !isKnown(nonce)).length).toBeLessThanOrEqual(FEW);
    const served = await mineUntil(at, Promise.all(known));
    expect(served.every(({ success }) => success)).toBe(true);
    await mineUntil(at, Promise.all([bad, ...fresh]));
    expect(await samplesOf(at.metrics, "coinslot_settlement_pauses_total")).toContain(
      'coinslot_settlement_pauses_total{network="base-sepolia",reason="new-payers"} 1',
    );
  });

  test("honest ones are served in those, and may go on as others do", async () => {
    const { at, bad } = await openEmptied();
    at.chain.fails.clear();
    await mineUntil(at, bad);
    const fresh = await mineUntil(at, Promise.all(payEach(at, range(1, 3 * FEW))));
    expect(fresh.every(({ success }) => success)).toBe(true);
    const from = at.chain.prepared.length;
    const { lone } = await keepBusy(at, BEFORE + 1);
    const all = range(1, 3 * FEW).map((payer) => settle(at, payment(50 + payer, payer)));
    await at.time.advance(COLLECT_MS);
    expect(preparedSince(at, from).at(-1)).toHaveLength(3 * FEW);
    await mineUntil(at, Promise.all([lone, ...all]));
  });

  test("a place that a payment was lost from is kept for a while", async () => {
    const { at, bad } = await openEmptied();
    // They are signed alone once more, where there is a place for them.
    await mineUntil(at, bad);
    const before = sentCount(at);
    const startMs = at.time.now();
    expect(await mineUntil(at, settle(at, payment(1, 1)))).toMatchObject(CROWDED);
    expect(at.time.now() - startMs).toBeLessThan(MAX_CROWD_WAIT_MS + 1_000);
    expect(sentCount(at)).toBe(before);
    await at.time.advance(FEW_MS);
    expect(await mineUntil(at, settle(at, payment(2, 2)))).toMatchObject({ success: true });
  });

  test("few wait for a place, and those who have paid find room in the queue", async () => {
    const { at, bad } = await openEmptied();
    await mineUntil(at, bad);
    const waiting = payEach(at, range(1, MAX_CROWD));
    await at.time.advance(100);
    const startMs = at.time.now();
    expect(await at.time.of(settle(at, payment(99, 99)))).toMatchObject(CROWDED);
    expect(at.time.now() - startMs).toBeLessThan(100);
    expect(await mineUntil(at, settle(at, payment(KNOWN + 30, KNOWN)))).toMatchObject({
      success: true,
    });
    await mineUntil(at, Promise.all(waiting));
  });

  test("no more of those that wait already are kept than that", async () => {
    const at = await openWithKnown(2 * MAX_NEW);
    const { lone } = await keepBusy(at);
    const bad = range(BAD, MAX_NEW - 1);
    for (const number of bad) at.chain.fails.add(nonceOf(number));
    const failing = payEach(at, bad);
    const known = settle(at, payment(KNOWN + 1, KNOWN));
    await at.time.advance(1_000);
    const waiting = payEach(at, range(300, MAX_CROWD + 10));
    let refused = 0;
    for (const each of waiting) void each.then(({ success }) => (refused += success ? 0 : 1));
    await at.time.advance(100);
    const startMs = at.time.now();
    at.chain.mine();
    await at.time.until(() => refused >= 10);
    // Long before they have waited for too long.
    expect(at.time.now() - startMs).toBeLessThan(MAX_CROWD_WAIT_MS / 2);
    await mineUntil(at, Promise.all([lone, known, ...failing, ...waiting]));
  });

  test("one after another alone comes to the same", async () => {
    const at = await openWithKnown();
    at.chain.revertedGas = LEFT_GAS;
    const numbers = range(BAD, 11 + FEW + 5);
    for (const number of numbers) at.chain.fails.add(nonceOf(number));
    const before = sentCount(at);
    for (const number of numbers) await mineUntil(at, settle(at, payment(number, number)));
    expect(sentCount(at) - before).toBe(11 + FEW);
    expect(await mineUntil(at, settle(at, payment(KNOWN + 1, KNOWN)))).toMatchObject({
      success: true,
    });
  });
});

test("a batch that was reverted as a whole is one payer's doing, and makes them no fewer", async () => {
  const at = await openWithKnown();
  at.chain.revertedGas = 2n * BigInt(MAX_REVERTED_GAS);
  const { lone } = await keepBusy(at);
  for (const number of range(BAD, 12)) at.chain.failsTogether.add(nonceOf(number));
  await mineUntil(at, Promise.all([lone, ...payEach(at, range(BAD, 12))]));
  const before = sentCount(at);
  const all = payEach(at, range(1, 2 * FEW));
  await at.time.until(() => sentCount(at) === before + 2 * FEW);
  const answers = await mineUntil(at, Promise.all(all));
  expect(answers.every(({ success }) => success)).toBe(true);
});

describe("the budget of new payers", () => {
  const key = (number: number): PaymentKey => `payment ${number}` as PaymentKey;

  test("is used up above the brim, and back when half has leaked away", () => {
    let nowMs = 1_700_000_000_000;
    const payers = new NewPayers(FEW, { now: () => nowMs });
    payers.take(key(0));
    payers.take(key(1));
    expect(payers.lost(key(0), MAX_REVERTED_GAS)).toBe(false);
    expect(payers.areFew).toBe(false);
    expect(payers.lost(key(1), 1)).toBe(true);
    expect(payers.areFew).toBe(true);
    nowMs += (MAX_REVERTED_GAS / 2 / REVERTED_GAS_PER_MINUTE) * 60_000;
    expect(payers.areFew).toBe(true);
    nowMs += 1_000;
    expect(payers.areFew).toBe(false);
  });

  test("bounds what is lost in each hour, however many try", () => {
    let nowMs = 1_700_000_000_000;
    const payers = new NewPayers(FEW, { now: () => nowMs });
    const lost: number[] = [];
    for (let hour = 0; hour < 5; hour += 1) {
      let count = 0;
      for (let second = 0; second < 3_600; second += 1) {
        const taken: PaymentKey[] = [];
        while (payers.admits(0)) {
          const next = key(taken.length);
          payers.take(next);
          taken.push(next);
        }
        for (const each of taken) payers.lost(each, CALL_GAS);
        count += taken.length;
        nowMs += 1_000;
      }
      lost.push(count * CALL_GAS);
    }
    const fewAnHour = (FEW * 3_600_000) / FEW_MS;
    expect(lost[0]).toBeLessThanOrEqual(MAX_REVERTED_GAS + (MAX_NEW + fewAnHour) * CALL_GAS);
    expect(Math.max(...lost.slice(1))).toBeLessThanOrEqual(fewAnHour * CALL_GAS);
  });

  test("counts nothing of those who are none of them", () => {
    const payers = new NewPayers(FEW, { now: () => 1_700_000_000_000 });
    expect(payers.lost(key(0), 2 * MAX_REVERTED_GAS)).toBe(false);
    expect(payers.areFew).toBe(false);
  });
});
