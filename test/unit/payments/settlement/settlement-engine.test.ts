import { verifiedBy } from "../../../support/verified.ts";
import { onTheWire } from "../../../../src/facilitator/wire-facilitator.ts";
import { describe, expect, test } from "vitest";
import type { SettleResponse } from "../../../../src/x402/x402.ts";
import { MAX_FAILURES } from "../../../../src/payments/settlement/failure-budget.ts";
import { COLLECT_MS, MAX_QUEUED } from "../../../../src/payments/settlement/payment-queue.ts";
import { faultOf } from "../../../support/fault-of.ts";
import {
  keyOf,
  nonceOf,
  openEngine,
  payerAddress,
  payment,
  samplesOf,
  settle,
  unfinished,
  type EngineStage,
} from "./engine-stage.ts";
import { ACCOUNT, MAX_OPEN, OTHER_ACCOUNT } from "./scripted-mechanism.ts";

/** Of recovery, more than it takes to fill a queue. */
const ROUNDS = 20;

const nonces = (...numbers: number[]): string[] => numbers.map(nonceOf);

/** Each by a payer of its own. */
function settleAll(at: EngineStage, ...numbers: number[]): Promise<SettleResponse[]> {
  const all = Promise.all(numbers.map((number) => settle(at, payment(number, number))));
  all.catch(() => undefined);
  return all;
}

const range = (from: number, count: number): number[] =>
  Array.from({ length: count }, (_, index) => from + index);

/** An engine whose first payment is in the air and stays there until the test mines a block. */
async function withOneInTheAir(maxTogether: number) {
  const at = await openEngine({ maxTogether });
  at.chain.automines = false;
  const first = settleAll(at, 1);
  await at.time.until(() => at.chain.sent.length === 1);
  return { at, first };
}

describe("a lane with nothing in the air", () => {
  test("signs and sends a lone payment at once", async () => {
    const at = await openEngine({ maxTogether: 10 });
    const settling = settle(at, payment(1));
    await at.time.advance(0);
    expect([at.chain.prepared, at.chain.sent]).toEqual([[nonces(1)], ["0x0"]]);
    const payer = payerAddress(0);
    const network = "base-sepolia";
    const answer = { success: true, transaction: "0x0", network, payer };
    expect(await at.time.of(settling)).toEqual(answer);
  });

  test("takes together what waited while another was prepared", async () => {
    const at = await openEngine({ maxTogether: 10 });
    const answers = await at.time.of(settleAll(at, 1, 2, 3, 4));
    expect(at.chain.prepared).toEqual([nonces(1), nonces(2, 3, 4)]);
    expect(answers.map(({ transaction }) => transaction)).toEqual(["0x0", "0x1", "0x1", "0x1"]);
    expect(await samplesOf(at.metrics, "coinslot_submissions_total")).toEqual([
      'coinslot_submissions_total{network="base-sepolia"} 2',
    ]);
  });

  test("is made when a payment needs it before the first round of recovery", async () => {
    const at = await openEngine({ isStarted: false });
    expect(await at.time.of(settle(at, payment(1)))).toMatchObject({ success: true });
  });
});

describe("a lane with something in the air", () => {
  test("collects for a hundred milliseconds", async () => {
    const { at, first } = await withOneInTheAir(10);
    const others = settleAll(at, 2, 3);
    await at.time.advance(COLLECT_MS - 1);
    expect(at.chain.prepared).toEqual([nonces(1)]);
    await at.time.advance(1);
    expect(at.chain.prepared).toEqual([nonces(1), nonces(2, 3)]);
    at.chain.mine();
    const answers = await at.time.of(Promise.all([first, others]));
    expect(answers.flat().every(({ success }) => success)).toBe(true);
  });

  test("signs as soon as as many wait as go together", async () => {
    const { at } = await withOneInTheAir(3);
    void settleAll(at, 2, 3, 4, 5);
    await at.time.advance(0);
    expect(at.chain.prepared).toEqual([nonces(1), nonces(2, 3, 4)]);
    await at.time.advance(COLLECT_MS);
    expect(at.chain.prepared.at(-1)).toEqual(nonces(5));
  });

  test("signs as soon as that is in a block", async () => {
    const { at } = await withOneInTheAir(10);
    // Looks are half a second apart by now.
    await at.time.advance(5_000);
    const started = at.time.now();
    at.chain.mine();
    await at.time.until(async () => (await unfinished(at))[0]?.state !== "OPEN");
    void settleAll(at, 2);
    await at.time.until(() => at.chain.prepared.length === 2);
    expect(at.time.now() - started).toBeLessThan(600);
  });

  test("stops signing when as much is in the air as a node keeps, and goes on after", async () => {
    const at = await openEngine();
    at.chain.automines = false;
    const all = settleAll(at, ...range(1, MAX_OPEN + 2));
    await at.time.advance(5_000);
    expect(new Set(at.chain.sent).size).toBe(MAX_OPEN);
    at.chain.mine();
    await at.time.until(() => new Set(at.chain.sent).size === MAX_OPEN + 2);
    at.chain.mine();
    expect((await at.time.of(all)).every(({ success }) => success)).toBe(true);
  });
});

test("payments that nobody can trace, in blocks, do not keep a lane from signing", async () => {
  const at: EngineStage = await openEngine({
    members: {
      look: async ({ variants: [first] }) => {
        const transaction = first?.transaction ?? "";
        const isIn = isMined && first !== undefined && first.accountNonce < MAX_OPEN;
        const included = isIn ? { transaction, confirmations: 1, isFinal: false } : null;
        const unknown = { kind: "unknown", detail: "its use could not be traced" } as const;
        return { payments: [unknown], included, isSpent: isIn };
      },
    },
  });
  let isMined = false;
  at.chain.automines = false;
  void settleAll(at, ...range(1, MAX_OPEN + 1));
  await at.time.advance(5_000);
  expect(new Set(at.chain.sent).size).toBe(MAX_OPEN);
  isMined = true;
  await at.time.advance(5_000);
  await at.facilitator.recover();
  await at.time.advance(1_000);
  expect(new Set(at.chain.sent).size).toBe(MAX_OPEN + 1);
});

describe("a payment goes alone", () => {
  test("when its signature is not proven", async () => {
    const { at } = await withOneInTheAir(10);
    at.chain.unproven.add(payerAddress(3));
    void settleAll(at, 2, 3, 4);
    await at.time.advance(COLLECT_MS);
    expect(at.chain.prepared).toEqual([nonces(1), nonces(3), nonces(2, 4)]);
  });

  test("when its batch left it out, and only after the chain was asked again", async () => {
    const { at, first } = await withOneInTheAir(10);
    at.chain.leftOut.add(nonceOf(3));
    const others = settleAll(at, 2, 3, 4);
    await at.time.advance(COLLECT_MS);
    expect(at.chain.prepared).toEqual([nonces(1), nonces(2, 3, 4), nonces(3)]);
    expect(at.chain.count("inspect")).toBe(5);
    at.chain.mine();
    const answers = await at.time.of(Promise.all([first, others]));
    expect(answers.flat().map(({ transaction }) => transaction)).toEqual([
      "0x0",
      "0x1",
      "0x2",
      "0x1",
    ]);
    // For a while, so does whatever its payer sends.
    at.chain.automines = true;
    at.chain.leftOut.clear();
    await at.time.of(Promise.all([settleAll(at, 5, 6), settle(at, payment(7, 3))]));
    expect(at.chain.prepared.slice(3)).toContainEqual(nonces(7));
  });

  test("when its transaction did not move it, once, and then it has failed", async () => {
    const { at, first } = await withOneInTheAir(10);
    at.chain.failsTogether.add(nonceOf(3));
    at.chain.fails.add(nonceOf(4));
    const others = settleAll(at, 2, 3, 4);
    await at.time.advance(COLLECT_MS);
    at.chain.automines = true;
    at.chain.mine();
    const [second, third, fourth] = await at.time.of(others);
    expect(second).toMatchObject({ success: true, transaction: "0x1" });
    expect(third).toMatchObject({ success: true });
    expect(third?.transaction).not.toBe("0x1");
    expect(fourth).toMatchObject({ success: false, errorReason: "invalid_transaction_state" });
    await at.time.of(first);
    expect(at.chain.prepared.slice(2)).toEqual([nonces(3), nonces(4)]);
    expect(await samplesOf(at.metrics, "coinslot_settlement_withdrawals_total")).toEqual([
      'coinslot_settlement_withdrawals_total{network="base-sepolia"} 2',
    ]);
  });
});

describe("a payment that its batch left out", () => {
  test("fails when the chain refuses it alone, and is free again", async () => {
    const { at } = await withOneInTheAir(10);
    at.chain.leftOut.add(nonceOf(2));
    const second = settle(at, payment(2, 2));
    const third = settle(at, payment(3, 3));
    await at.time.advance(COLLECT_MS - 1);
    at.chain.refused.set(nonceOf(2), { code: "insufficient_funds", detail: "spent" });
    expect(await at.time.of(second)).toMatchObject({ errorReason: "insufficient_funds" });
    expect(await at.ledger.outcome(keyOf(payment(2, 2)))).toEqual({ kind: "gone" });
    at.chain.mine();
    expect(await at.time.of(third)).toMatchObject({ success: true });
  });
});

describe("several lanes", () => {
  const accounts = [ACCOUNT, OTHER_ACCOUNT];

  test("share the queue, the one with the least in the air first", async () => {
    const at = await openEngine({ accounts });
    at.chain.automines = false;
    const all: Promise<SettleResponse[]>[] = [];
    for (const number of [1, 2, 3, 4]) {
      all.push(settleAll(at, number));
      await at.time.until(() => new Set(at.chain.sent).size === number);
    }
    for (const account of accounts) expect((await unfinished(at, account)).length).toBe(2);
    at.chain.mine();
    const answers = await at.time.of(Promise.all(all));
    expect(answers.flat().every(({ success }) => success)).toBe(true);
  });

  test("stand in for one that cannot pay the network fee, which is asked last from then on", async () => {
    const at = await openEngine({ accounts });
    at.chain.poor.add(ACCOUNT);
    expect(await at.time.of(settle(at, payment(1)))).toMatchObject({ success: true });
    expect(await at.time.of(settle(at, payment(2)))).toMatchObject({ success: true });
    expect(at.chain.count("prepare")).toBe(3);
    expect(await at.ledger.signing.nextAccountNonce("base-sepolia", ACCOUNT)).toBeUndefined();
  });

  test("give up when none of them can pay, and the payment stays good", async () => {
    const at = await openEngine({ accounts });
    for (const account of accounts) at.chain.poor.add(account);
    const fault = await at.time.of(faultOf(settle(at, payment(1))));
    expect(fault).toMatchObject({ kind: "unavailable", cause: { code: "CHAIN_GAS" } });
    at.chain.poor.clear();
    expect(await at.time.of(settle(at, payment(1)))).toMatchObject({ success: true });
  });
});

describe("a queue", () => {
  test("turns away what is too much, at once and with nothing signed", async () => {
    const at = await openEngine();
    at.chain.automines = false;
    void settleAll(at, ...range(1, MAX_OPEN));
    await at.time.until(() => new Set(at.chain.sent).size === MAX_OPEN);
    void settleAll(at, ...range(100, MAX_QUEUED));
    await at.time.advance(100);
    const started = at.time.now();
    const judged = at.chain.count("inspect");
    const fault = await at.time.of(faultOf(settle(at, payment(1))));
    expect(fault).toMatchObject({ kind: "unavailable" });
    expect(at.time.now()).toBe(started);
    expect(at.chain.count("inspect")).toBe(judged);
    expect(await at.ledger.outcome(keyOf(payment(1)))).toEqual({ kind: "gone" });
    const name = "coinslot_settlement_queue_length";
    expect(await samplesOf(at.metrics, name)).toEqual([
      `${name}{network="base-sepolia"} ${MAX_QUEUED}`,
    ]);
  });

  test("has room for what is judged, however many others are not judged yet", async () => {
    const at = await openEngine();
    const first = payment(1);
    const verified = await verifiedBy(at.facilitator, first, at.time.timeout(1_000));
    const held = Promise.withResolvers<void>();
    at.chain.hold("inspect", held.promise);
    const unjudged = Promise.all(
      range(2, 2 * MAX_QUEUED).map((number) => {
        at.chain.refused.set(nonceOf(number), { code: "insufficient_funds", detail: "penniless" });
        return settle(at, payment(number, number));
      }),
    );
    await at.time.until(() => at.chain.count("inspect") === 1 + 2 * MAX_QUEUED);
    expect(await at.time.of(settle(at, first, { verified }))).toMatchObject({ success: true });
    held.resolve();
    const answers = await at.time.of(unjudged);
    expect(new Set(answers.map(({ success }) => success))).toEqual(new Set([false]));
  });

  test("turns away what is too much once it is judged, too", async () => {
    const at = await openEngine();
    at.chain.automines = false;
    void settleAll(at, ...range(1, MAX_OPEN));
    await at.time.until(() => new Set(at.chain.sent).size === MAX_OPEN);
    const held = Promise.withResolvers<void>();
    at.chain.hold("inspect", held.promise);
    void settleAll(at, ...range(100, MAX_QUEUED + 5));
    await at.time.until(() => at.chain.count("inspect") === MAX_OPEN + MAX_QUEUED + 5);
    held.resolve();
    await at.time.advance(100);
    const name = "coinslot_settlement_queue_length";
    expect(await samplesOf(at.metrics, name)).toEqual([
      `${name}{network="base-sepolia"} ${MAX_QUEUED}`,
    ]);
  });

  test("takes of what others offer no more than it has room for, however slowly that is judged", async () => {
    let offers = 0;
    const offer = async (_network: string, most: number) => {
      const offered = range(offers + 1, most).map((number) => payment(number, number));
      offers += most;
      for (const request of offered) {
        const key = keyOf(request);
        await at.ledger.step(key, { kind: "begin", request, caller: undefined });
        await at.ledger.step(key, { kind: "offer" });
      }
      return offered.map((request) => ({
        key: keyOf(request),
        request,
        isPublic: false,
        version: 2,
      }));
    };
    const at = await openEngine({ ledger: { queues: { offers: offer } }, isStarted: false });
    const held = Promise.withResolvers<void>();
    at.chain.hold("inspect", held.promise);
    for (let round = 0; round < ROUNDS; round += 1) await at.facilitator.recover();
    expect(offers).toBe(MAX_QUEUED);
    await at.time.until(() => at.chain.count("inspect") === MAX_QUEUED);
    for (const number of range(1, MAX_QUEUED)) {
      at.chain.refused.set(nonceOf(number), { code: "insufficient_funds", detail: "spent" });
    }
    held.resolve();
    // What is judged makes room.
    await at.time.until(async () => {
      await at.facilitator.recover();
      return offers > MAX_QUEUED;
    });
  });

  test("gives back a payment for which nobody waits any more", async () => {
    const at = await openEngine();
    at.chain.automines = false;
    const first = settleAll(at, ...range(1, MAX_OPEN));
    await at.time.until(() => new Set(at.chain.sent).size === MAX_OPEN);
    const late = await at.time.of(faultOf(settle(at, payment(99), { patienceMs: 1_000 })));
    expect(late.kind).toBe("unavailable");
    expect(await at.ledger.outcome(keyOf(payment(99)))).toEqual({ kind: "gone" });
    at.chain.mine();
    await at.time.of(first);
    expect(new Set(at.chain.sent).size).toBe(MAX_OPEN);
  });

  test("keeps a payment as long as one of several still waits for it", async () => {
    const at = await openEngine();
    at.chain.automines = false;
    const first = settleAll(at, ...range(1, MAX_OPEN));
    await at.time.until(() => new Set(at.chain.sent).size === MAX_OPEN);
    const patient = settle(at, payment(99), { key: "key" });
    const hasty = settle(at, payment(99), { key: "key", patienceMs: 1_000 });
    expect(await at.time.of(faultOf(hasty))).toMatchObject({ kind: "unknown" });
    at.chain.automines = true;
    at.chain.mine();
    expect(await at.time.of(patient)).toMatchObject({ success: true });
    await at.time.of(first);
  });

  test("judges a lone payment anew that has waited for long", async () => {
    const at = await openEngine();
    at.chain.automines = false;
    const first = settleAll(at, ...range(1, MAX_OPEN));
    await at.time.until(() => new Set(at.chain.sent).size === MAX_OPEN);
    const late = settle(at, payment(99));
    await at.time.advance(6_000);
    at.chain.refused.set(nonceOf(99), { code: "insufficient_funds", detail: "spent" });
    at.chain.mine();
    expect(await at.time.of(late)).toMatchObject({ errorReason: "insufficient_funds" });
    await at.time.of(first);
  });
});

describe("a payer", () => {
  test("whose payments fail on chain again and again is refused for a while", async () => {
    const at = await openEngine();
    for (const number of range(1, MAX_FAILURES)) {
      at.chain.fails.add(nonceOf(number));
      expect(await at.time.of(settle(at, payment(number)))).toMatchObject({ success: false });
    }
    const verdict = onTheWire(at.facilitator).verify(payment(9), at.time.timeout(1_000));
    expect(await verdict).toMatchObject({
      isValid: false,
      invalidReason: "invalid_transaction_state",
      detail: expect.stringContaining("failed on chain"),
    });
    expect(await at.time.of(settle(at, payment(9)))).toMatchObject({ success: false });
    expect(at.chain.count("prepare")).toBe(MAX_FAILURES);
    expect(await at.time.of(settle(at, payment(10, 10)))).toMatchObject({ success: true });
    await at.time.advance(600_000);
    expect(await at.time.of(settle(at, payment(9)))).toMatchObject({ success: true });
  });

  test("is not blamed for a batch of which nothing moved", async () => {
    const { at, first } = await withOneInTheAir(10);
    const all = range(2, 2 * MAX_FAILURES);
    for (const number of all) at.chain.failsTogether.add(nonceOf(number));
    const payer = 99;
    const settling = all.map((number) => settle(at, payment(number, payer)));
    await at.time.until(() => at.chain.prepared.length === 2);
    at.chain.automines = true;
    at.chain.mine();
    for (const each of settling) expect(await at.time.of(each)).toMatchObject({ success: true });
    await at.time.of(first);
    expect(at.chain.prepared.length).toBe(2 + all.length);
  });

  test("is not blamed for what expired outside of a block", async () => {
    const at = await openEngine();
    at.chain.automines = false;
    const all = range(1, MAX_FAILURES).map((number) => settle(at, payment(number)));
    await at.time.until(() => at.chain.sent.length === MAX_FAILURES);
    for (const number of range(1, MAX_FAILURES)) at.chain.expired.add(nonceOf(number));
    for (const each of all) expect(await at.time.of(each)).toMatchObject({ success: false });
    const verdict = onTheWire(at.facilitator).verify(payment(9), at.time.timeout(1_000));
    expect(await verdict).toMatchObject({ isValid: true });
  });
});
