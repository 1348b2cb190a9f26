/** What is unspent of a balance is paid back: taken out when it is asked for, and there again where nothing can be moved. */
import { expect, it } from "vitest";
import type { CreditsSum } from "../../../src/ledger/credit-entries.ts";
import { isBalanced } from "../../../src/ledger/credit-entries.ts";
import type { Ledger, RefundStep, RefundTransfer, Resolved } from "../../../src/ledger/ledger.ts";
import { creditsPot } from "../../../src/ledger/pots.ts";
import type { LedgerCapabilities, OpenLedger } from "../../support/ledger-contract.ts";
import { networkOf } from "../../../src/x402/network.ts";
import type { PaymentKey } from "../../../src/x402/payment-key.ts";
import { eachTestIn } from "./contract-place.ts";
import { examplePayment, PAYER } from "./example-payment.ts";
import { NETWORK, SETTLEMENT, sign, termsOf } from "./ledger-driver.ts";

const POT = creditsPot(networkOf(NETWORK), PAYER);
const PAID = 10_000n;
const ROUTE = "POST /credits";
const BY = "operator alice@till";
const ALL = { from: "2000-01-01", to: "2100-01-01" };
const DAY_MS = 86_400_000;

export function describeRefundedCredits(
  open: OpenLedger,
  { severalLives }: LedgerCapabilities,
): void {
  const place = eachTestIn(open);
  const { key } = examplePayment(1);

  const buy = async (ledger: Ledger, number = 1, amount = PAID): Promise<PaymentKey> => {
    const payment = examplePayment(number);
    const terms = termsOf(payment, {
      route: ROUTE,
      idempotencyKey: payment.key,
      fills: { pot: POT, amount },
    });
    await ledger.step(payment.key, { kind: "claim", terms });
    const { id } = await sign(ledger, [payment]);
    await ledger.step(payment.key, { kind: "settled", settlement: SETTLEMENT });
    await ledger.step(payment.key, { kind: "delivering" });
    await ledger.step(payment.key, { kind: "delivered" });
    await ledger.signing.concluded(id, "CLOSED");
    return payment.key;
  };
  const ask = (
    ledger: Ledger,
    amount: bigint,
    change: object = {},
    of = key,
  ): Promise<Resolved> => {
    const asked = { verb: "refund", note: "", by: BY, isSent: true } as const;
    const resolution = { ...asked, creditsAtomic: String(amount), ...change };
    return ledger.step(of, { kind: "resolve", resolution });
  };
  const step = (ledger: Ledger, to: RefundStep, of = key) =>
    ledger.step(of, { kind: "refund", to });
  const transferOf = (number: number): RefundTransfer => {
    const back = examplePayment(number);
    return { key: back.key, request: back.request, idempotencyKey: `back ${number}`, signedMs: 7 };
  };
  const send = (ledger: Ledger, attempt: number, of = key, maxAtomic = PAID) =>
    step(ledger, { kind: "sending", attempt, transfer: transferOf(100 + attempt), maxAtomic }, of);
  const inPot = async (ledger: Ledger): Promise<readonly [free: bigint, leased: bigint]> => {
    const { free = 0n, leased = 0n } = (await ledger.pots.balances([POT])).get(POT) ?? {};
    return [free, leased];
  };
  const sum = async (ledger: Ledger): Promise<CreditsSum> => {
    const [only] = await ledger.books.credits();
    if (only === undefined) throw new Error("there are no credits");
    expect(isBalanced(only)).toBe(true);
    return only;
  };
  const lease = async (ledger: Ledger, held: bigint, turn = 1): Promise<void> => {
    const asked = { chunks: [], isHeld: turn > 1, base: 0n, first: held, wish: held };
    await ledger.pots.draw([{ pot: POT, turn, ...asked }]);
  };
  const done = { kind: "done", state: "DELIVERED" } as const;

  it("is taken out of the balance in the step that asks, and paid back once", async () => {
    const { ledger } = place();
    await buy(ledger);
    expect(await ask(ledger, 4_000n)).toEqual(done);
    expect(await inPot(ledger)).toEqual([6_000n, 0n]);
    expect(await sum(ledger)).toMatchObject({ bought: PAID, refunded: 4_000n, free: 6_000n });
    expect(await ledger.queues.refunds(NETWORK, 9)).toMatchObject([
      { key, state: "ASKED", amountAtomic: 4_000n, creditsAtomic: 4_000n, to: PAYER },
    ]);
    const busy = { kind: "refused", reason: expect.stringMatching(/being refunded/) };
    expect(await ask(ledger, 1_000n)).toEqual(busy);
    expect(await send(ledger, 1)).toBe("done");
    expect(await ask(ledger, 1_000n)).toEqual(busy);
    await step(ledger, { kind: "refunded", attempt: 1, transaction: "0xback" });
    expect(await ask(ledger, 1_000n)).toMatchObject({
      kind: "refused",
      reason: expect.stringMatching(/paid back already/),
    });
    expect(await inPot(ledger)).toEqual([6_000n, 0n]);
    expect(await ledger.books.show(key)).toMatchObject({
      state: "DELIVERED",
      transaction: SETTLEMENT.transaction,
      refund: { state: "REFUNDED", transaction: "0xback", creditsAtomic: "4000" },
    });
    expect(await sum(ledger)).toMatchObject({ bought: PAID, refunded: 4_000n, free: 6_000n });
  });

  it("is never what a request may have, nor more than is free, nor than the payment has brought", async () => {
    const { ledger } = place();
    await buy(ledger);
    await buy(ledger, 2);
    expect(await ask(ledger, PAID + 1n)).toEqual({
      kind: "refused",
      reason: "it has put no more than 10000 into the balance",
    });
    for (const nothing of [0n, -1n])
      expect(await ask(ledger, nothing)).toMatchObject({ kind: "refused" });
    await lease(ledger, 15_000n);
    expect(await inPot(ledger)).toEqual([5_000n, 15_000n]);
    expect(await ask(ledger, 5_001n)).toEqual({
      kind: "refused",
      reason:
        "5000 are free in the balance, and 15000 are in use now: try again when no request has them",
    });
    expect(await ask(ledger, 5_000n)).toEqual(done);
    expect(await inPot(ledger)).toEqual([0n, 15_000n]);
    const { key: other } = examplePayment(2);
    expect(await ask(ledger, 1n, {}, other)).toMatchObject({ kind: "refused" });
    expect((await ledger.books.show(other))?.refund).toBeNull();
    expect(await ledger.queues.refunds(NETWORK, 9)).toHaveLength(1);
  });

  it("is in the balance again where nothing of it can be moved, and may be asked for anew", async () => {
    const { ledger } = place();
    await buy(ledger);
    await ask(ledger, PAID);
    expect(await inPot(ledger)).toEqual([0n, 0n]);
    await send(ledger, 1);
    const failed = { kind: "failed", attempt: 1, detail: "blocked" } as const;
    expect(await step(ledger, failed)).toBe("done");
    expect(await step(ledger, failed)).toBe("gone");
    expect(await inPot(ledger)).toEqual([PAID, 0n]);
    expect(await sum(ledger)).toMatchObject({ bought: 2n * PAID, refunded: PAID, free: PAID });
    expect(await ledger.books.counts()).toMatchObject({ refunding: 0, unrefunded: 0 });
    const { refund, events } = (await ledger.books.show(key)) ?? {};
    expect(refund).toBeNull();
    expect(events?.at(-1)?.note).toMatch(/blocked; 10000 are in its payer's balance again/);
    expect(await ask(ledger, 700n)).toEqual(done);
    // The number of transfers goes on: none has the nonce of another.
    expect(await ledger.queues.refunds(NETWORK, 9)).toMatchObject([
      { attempt: 1, amountAtomic: 700n },
    ]);
    expect(await send(ledger, 1)).toBe("gone");
    expect(await send(ledger, 2)).toBe("done");
    expect(await inPot(ledger)).toEqual([PAID - 700n, 0n]);
  });

  it("is back although its pot was tidied away meanwhile", async () => {
    const { ledger } = place();
    await buy(ledger);
    await ask(ledger, PAID);
    await ledger.upkeep.reap();
    expect((await ledger.pots.balances([POT])).size).toBe(0);
    await step(ledger, { kind: "failed", attempt: 0, detail: "blocked" });
    expect(await inPot(ledger)).toEqual([PAID, 0n]);
    await sum(ledger);
  });

  it("counts on its day what it is of, and not what was paid", async () => {
    const { ledger, time } = place();
    time.nowMs -= time.nowMs % DAY_MS;
    const keys = [await buy(ledger), await buy(ledger, 2), await buy(ledger, 3)];
    for (const of of keys) expect(await ask(ledger, 4_000n, {}, of)).toEqual(done);
    const sent = [];
    for (const [place, of] of keys.entries()) {
      const transfer = transferOf(200 + place);
      sent.push(await step(ledger, { kind: "sending", attempt: 1, transfer, maxAtomic: PAID }, of));
    }
    expect(sent).toEqual(["done", "done", "over"]);
  });

  it("by other means is in the books of that day, and by no key", async () => {
    const { ledger } = place();
    await buy(ledger);
    expect(await ask(ledger, 4_000n, { isSent: false })).toEqual(done);
    expect(await inPot(ledger)).toEqual([6_000n, 0n]);
    expect(await ledger.queues.refunds(NETWORK, 9)).toEqual([]);
    const { key: other } = examplePayment(2);
    await buy(ledger, 2);
    await ask(ledger, 3_000n, {}, other);
    const byHand = { verb: "refund", note: "in 0x77", by: BY } as const;
    expect(await ledger.step(other, { kind: "resolve", resolution: byHand })).toEqual(done);
    expect(await inPot(ledger)).toEqual([13_000n, 0n]);
    expect(await ledger.queues.refunds(NETWORK, 9)).toEqual([]);
    const entries = await ledger.books.accounts(ALL);
    const told = entries.map(
      ({ kind, route, count, amount }) => `${kind} ${route} ${count} ${amount}`,
    );
    expect(told.toSorted()).toEqual([
      "credits bought POST /credits 2 20000",
      "credits refunded POST /credits 2 7000",
      "refund POST /credits 2 7000",
      "sale POST /credits 2 20000",
    ]);
    expect(await ask(ledger, 1n)).toMatchObject({ kind: "refused" });
  });

  it("of which a part was paid back goes by other means as to the rest, and no further, nor twice", async () => {
    const { ledger } = place();
    ledger.outbox.address([{ name: "shop", events: ["payment.refunded"] }]);
    await buy(ledger);
    const left = async () => (await ledger.books.creditsOf(PAYER)).purchases;
    expect(await left()).toMatchObject([{ key, amount: PAID, isByHand: false }]);
    await ask(ledger, 4_000n);
    // Not while it is under way, and not what may be had again where it fails.
    const byHand = { isSent: false };
    expect(await ask(ledger, 1_000n, byHand)).toMatchObject({ kind: "refused" });
    expect(await left()).toEqual([]);
    await send(ledger, 1);
    await step(ledger, { kind: "refunded", attempt: 1, transaction: "0xback" });
    expect(await left()).toMatchObject([{ key, amount: 6_000n, isByHand: true }]);
    expect(await ask(ledger, 1_000n)).toEqual({
      kind: "refused",
      reason:
        "it is paid back already: a payment is sent back once, and what is left of it is paid back by other means (--by-hand)",
    });
    expect(await ask(ledger, 2_500n, byHand)).toEqual(done);
    expect(await inPot(ledger)).toEqual([3_500n, 0n]);
    await buy(ledger, 2);
    expect(await ask(ledger, 3_501n, byHand)).toEqual({
      kind: "refused",
      reason: "it has put no more than 10000 into the balance, of which 6500 are paid back already",
    });
    expect(await ask(ledger, 3_500n, byHand)).toEqual(done);
    expect(await ask(ledger, 1n, byHand)).toMatchObject({ kind: "refused" });
    expect(await inPot(ledger)).toEqual([PAID, 0n]);
    expect(await left()).toMatchObject([{ key: examplePayment(2).key, amount: PAID }]);
    expect(await ledger.queues.refunds(NETWORK, 9)).toEqual([]);
    // It says what of it was sent, and all that is with its payer.
    expect(await ledger.books.show(key)).toMatchObject({
      state: "DELIVERED",
      refund: { state: "REFUNDED", transaction: "0xback", creditsAtomic: "10000" },
    });
    expect(await sum(ledger)).toMatchObject({ bought: 2n * PAID, refunded: PAID, free: PAID });
    const entries = await ledger.books.accounts(ALL);
    const handed = entries.filter(({ kind, route }) => kind === "refund" && route === ROUTE);
    expect(handed).toMatchObject([{ count: 2, amount: 6_000n }]);
    const messages = await ledger.outbox.list({ recipient: "shop" }, 9);
    const bodies = messages
      .toSorted((one, other) => one.place - other.place)
      .map(({ data }) => JSON.parse(data));
    expect(bodies).toMatchObject([
      { payment: key, creditsAtomic: "4000", refundTransaction: "0xback" },
      { payment: key, creditsAtomic: "2500", refundTransaction: null },
      { payment: key, creditsAtomic: "3500", refundTransaction: null },
    ]);
  });

  it("is told of as what it is, with what of the payment it was", async () => {
    const { ledger } = place();
    ledger.outbox.address([{ name: "shop", events: ["payment.refunded"] }]);
    await buy(ledger);
    await ask(ledger, 4_000n);
    await send(ledger, 1);
    await step(ledger, { kind: "refunded", attempt: 1, transaction: "0xback" });
    await ask(ledger, 700n, { isSent: false }, await buy(ledger, 2));
    const messages = await ledger.outbox.list({ recipient: "shop" }, 9);
    const bodies = messages
      .toSorted((one, other) => one.place - other.place)
      .map(({ data }) => JSON.parse(data));
    expect(bodies).toMatchObject([
      { payment: key, amountAtomic: "10000", creditsAtomic: "4000", refundTransaction: "0xback" },
      { amountAtomic: "10000", creditsAtomic: "700", refundTransaction: null },
    ]);
  });

  it("is nothing of a payment that is not paid, not delivered, or has filled no balance", async () => {
    const { ledger } = place();
    const [plain, quota] = [examplePayment(5), examplePayment(6)];
    await ledger.step(plain.key, { kind: "claim", terms: termsOf(plain) });
    expect(await ask(ledger, 1n, {}, plain.key)).toMatchObject({ kind: "refused" });
    const fills = { pot: "free/GET /weather/one", amount: 5n };
    const terms = termsOf(quota, { fills, idempotencyKey: quota.key });
    await ledger.step(quota.key, { kind: "claim", terms });
    expect(await ask(ledger, 1n, {}, quota.key)).toMatchObject({ kind: "refused" });
    await sign(ledger, [quota]);
    await ledger.step(quota.key, { kind: "settled", settlement: SETTLEMENT });
    expect(await ask(ledger, 1n, {}, quota.key)).toEqual({
      kind: "refused",
      reason: "it is paid and not delivered",
    });
    await ledger.step(quota.key, { kind: "delivering" });
    await ledger.step(quota.key, { kind: "delivered" });
    expect(await ask(ledger, 1n, {}, quota.key)).toMatchObject({
      kind: "refused",
      reason: expect.stringMatching(/no balance/),
    });
  });

  it("is found by its payer: the newest payments first, and what is left of his balance", async () => {
    const { ledger, time } = place();
    expect(await ledger.books.creditsOf(PAYER)).toEqual({ balances: [], purchases: [] });
    const keys = [];
    for (const number of [1, 2, 3]) {
      keys.push(await buy(ledger, number));
      time.nowMs += 1_000;
    }
    await lease(ledger, 5_000n);
    await ask(ledger, 1_000n, {}, keys[1]);
    const found = await ledger.books.creditsOf(PAYER.toUpperCase().replace("0X", "0x"));
    expect(found.balances).toEqual([{ pot: POT, free: 24_000n, leased: 5_000n }]);
    expect(found.purchases.map((each) => each.key)).toEqual([keys[2], keys[0]]);
    expect(found.purchases[0]).toMatchObject({ network: NETWORK, pot: POT, amount: PAID });
  });

  it("is taken once by any number that ask for it, and by none who lease it at once", async () => {
    const { ledger } = place();
    const keys = [];
    for (let number = 1; number <= 12; number += 1) keys.push(await buy(ledger, number, 100n));
    const other = severalLives ? await place().live("second") : ledger;
    const lives = keys.map((each) => (severalLives ? other : ledger).worker(each.slice(-8)));
    const leases = lives.map(({ pots }) =>
      pots.draw([
        { pot: POT, turn: 1, chunks: [], isHeld: false, base: 0n, first: 90n, wish: 90n },
      ]),
    );
    const refunds = keys.flatMap((of, place) =>
      [ledger, other].map((each) => settled(ask(place % 2 ? each : ledger, 100n, {}, of))),
    );
    const [drawn, taken] = await Promise.all([Promise.all(leases), Promise.all(refunds)]);
    const held = drawn.flat().reduce((all, each) => all + each.held, 0n);
    const refunded = BigInt(taken.filter((kind) => kind === "done").length) * 100n;
    const [free, leased] = await inPot(ledger);
    expect(leased).toBe(held);
    expect(free + leased + refunded).toBe(1_200n);
    expect(refunded + held).toBeGreaterThan(900n);
    expect((await sum(ledger)).refunded).toBe(refunded);
    expect(await ledger.queues.refunds(NETWORK, 99)).toHaveLength(Number(refunded / 100n));
  });
}

/** A step that finds the payment changed by another may be asked again. */
async function settled(asked: Promise<Resolved>): Promise<string> {
  return asked.then(
    ({ kind }) => kind,
    () => "changed",
  );
}
