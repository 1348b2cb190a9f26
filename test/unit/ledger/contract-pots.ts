/** Pots: what is in them is never more than came in and was not used, whoever leases it, and whoever dies. */
import { expect, it } from "vitest";
import { LedgerUnavailable, type Ledger, type MeteredSale } from "../../../src/ledger/ledger.ts";
import { isBalanced, type CreditsSum } from "../../../src/ledger/credit-entries.ts";
import {
  creditsPot,
  quotaOwner,
  quotaPot,
  TURNS_KEPT_MS,
  type PotDraw,
  type PotDrawn,
  type Pots,
} from "../../../src/ledger/pots.ts";
import { findNetwork } from "../../../src/x402/network.ts";
import type { LedgerCapabilities, OpenLedger } from "../../support/ledger-contract.ts";
import { eachTestIn } from "./contract-place.ts";
import { close, LATER_MS } from "./contract-sweeping.ts";
import { forgetAll, type Forgotten } from "../../../src/ledger/forgetting.ts";
import { examplePayment, PAYER, type ExamplePayment } from "./example-payment.ts";
import {
  leaseOf,
  NETWORK,
  sign,
  signWith,
  termsOf,
  SETTLEMENT,
  UNANSWERED,
} from "./ledger-driver.ts";

const network = findNetwork(NETWORK);
if (network === undefined) throw new Error("there is no such network");
const POT = creditsPot(network, PAYER);
const QUOTA = "free/GET /weather/one";
const ROUTE = "GET /weather";
/** What an example payment pays. */
const PAID = 10_000n;

const ASK: PotDraw = {
  pot: POT,
  turn: 1,
  chunks: [],
  isHeld: false,
  base: 0n,
  first: 0n,
  wish: 0n,
};

async function draw(pots: Pots, change: Partial<PotDraw>): Promise<PotDrawn> {
  const [drawn] = await pots.draw([{ ...ASK, ...change }]);
  if (drawn === undefined) throw new Error("nothing was answered");
  return drawn;
}

const used = (turn: number, amount: bigint) => ({
  turn,
  uses: [{ route: ROUTE, amount, count: 1 }],
});

export function describePots(open: OpenLedger, { severalLives }: LedgerCapabilities): void {
  const place = eachTestIn(open);

  /** Up to the signature of a payment that fills the pot. */
  const sell = async (ledger: Ledger, payment: ExamplePayment, amount = PAID): Promise<void> => {
    const terms = termsOf(payment, { route: "POST /credits", fills: { pot: POT, amount } });
    await ledger.step(payment.key, { kind: "claim", terms });
    await sign(ledger, [payment]);
  };
  const settle = (ledger: Ledger, { key }: ExamplePayment): Promise<void> =>
    ledger.step(key, { kind: "settled", settlement: SETTLEMENT });
  const fill = async (ledger: Ledger, number = 1, amount = PAID): Promise<void> => {
    await sell(ledger, examplePayment(number), amount);
    await settle(ledger, examplePayment(number));
  };
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

  it("a payment fills its pot in the step that settles it, and once", async () => {
    const { ledger } = place();
    await sell(ledger, examplePayment(1));
    expect(await inPot(ledger)).toEqual([0n, 0n]);
    await settle(ledger, examplePayment(1));
    await settle(ledger, examplePayment(1));
    expect(await inPot(ledger)).toEqual([PAID, 0n]);
    await fill(ledger, 2);
    expect(await inPot(ledger)).toEqual([2n * PAID, 0n]);
    expect(await sum(ledger)).toMatchObject({
      family: "evm-testnet",
      token: "USDC",
      pots: 1,
      bought: 2n * PAID,
      used: 0n,
    });
  });

  it("also where the chain says so of one that had failed, or the operator of one that is held", async () => {
    const { ledger } = place();
    const [failed, held] = [examplePayment(1), examplePayment(2)];
    for (const each of [failed, held]) {
      const terms = termsOf(each, { fills: { pot: POT, amount: PAID }, idempotencyKey: each.key });
      await ledger.step(each.key, { kind: "claim", terms });
      await ledger.step(each.key, { kind: "handedOver", facilitator: "https://f.example.com" });
    }
    const failure = { code: "insufficient_funds", detail: "" } as const;
    await ledger.step(failed.key, { kind: "failed", failure });
    await ledger.step(held.key, { kind: "held", transaction: "0xbb" });
    expect(await inPot(ledger)).toEqual([0n, 0n]);
    await settle(ledger, failed);
    const resolution = { verb: "deliver", note: "", by: "operator" } as const;
    await ledger.step(held.key, { kind: "resolve", resolution });
    expect(await inPot(ledger)).toEqual([2n * PAID, 0n]);
  });

  it("what has filled a pot is not paid back beside it, by nobody", async () => {
    const { ledger } = place();
    const { key } = examplePayment(1);
    await fill(ledger);
    for (const isSent of [true, false]) {
      const resolution = { verb: "refund", note: "", by: "operator", isSent } as const;
      const refused = await ledger.step(key, { kind: "resolve", resolution });
      expect(refused).toMatchObject({ kind: "refused", reason: expect.stringMatching(/balance/) });
    }
    for (let attempt = 0; attempt < 3; attempt += 1) {
      await ledger.step(key, { kind: "delivering" });
      const broken = { ...UNANSWERED, isBackends: true, isRefundedLast: true };
      await ledger.step(key, { kind: "undelivered", broken });
    }
    expect(await ledger.books.show(key)).toMatchObject({ state: "SETTLED", refund: null });
  });

  it("nothing is no amount that a payment could fill a pot with", async () => {
    const { ledger } = place();
    const { key, request } = examplePayment(1);
    for (const amount of [0n, -1n]) {
      const terms = termsOf({ request }, { fills: { pot: POT, amount } });
      await expect(ledger.step(key, { kind: "claim", terms })).rejects.toThrow(TypeError);
    }
    expect(await ledger.books.show(key)).toBeUndefined();
  });

  it("what an answer has not used is put into a pot in the step that delivers it, and once", async () => {
    const { ledger } = place();
    const metered = { charged: 400n, usage: "200", reason: null };
    const deliver = async (
      number: number,
      { change: pot = POT, ...told }: Partial<MeteredSale> & { change?: string | null },
    ) => {
      const payment = examplePayment(number);
      const { key } = payment;
      const change = pot === null ? {} : { change: pot };
      await ledger.step(key, {
        kind: "claim",
        terms: termsOf(payment, { route: ROUTE, ...change }),
      });
      await sign(ledger, [payment]);
      await settle(ledger, payment);
      await ledger.step(key, { kind: "delivering" });
      expect((await ledger.step(key, { kind: "status" }))?.metered).toBeNull();
      await ledger.step(key, { kind: "delivered", metered: { ...metered, ...told } });
      await ledger.step(key, { kind: "delivered", metered });
      return (await ledger.step(key, { kind: "status" }))?.metered;
    };
    const amounts = { charged: "400", change: "9600", usage: "200", reason: null };
    expect(await deliver(1, {})).toEqual(amounts);
    expect(await inPot(ledger)).toEqual([9_600n, 0n]);
    // All of it, whoever says that it was more, and none of it.
    const all = { charged: String(PAID), change: "0", usage: null, reason: "absent" };
    expect(await deliver(2, { charged: PAID + 1n, usage: null, reason: "absent" })).toEqual(all);
    expect(await inPot(ledger)).toEqual([9_600n, 0n]);
    expect(await deliver(3, { charged: 0n, usage: "0" })).toMatchObject({ change: String(PAID) });
    expect(await inPot(ledger)).toEqual([9_600n + PAID, 0n]);
    expect(await sum(ledger)).toMatchObject({ bought: 9_600n + PAID, used: 0n });
    // What was paid at a fixed price is charged as that was.
    expect(await deliver(4, { change: null })).toMatchObject({
      charged: String(PAID),
      reason: "fixed-price",
    });
    expect(await inPot(ledger)).toEqual([9_600n + PAID, 0n]);
    // By a route of a lower price that is not charged by use any more; what was not paid so has no rest there.
    const lower = { charged: 1_000n, usage: null, reason: "not-metered" };
    expect(await deliver(5, lower)).toMatchObject({ charged: "1000", change: "9000" });
    expect(await inPot(ledger)).toEqual([18_600n + PAID, 0n]);
    expect(await deliver(6, { ...lower, change: null })).toBeNull();
    expect(await inPot(ledger)).toEqual([18_600n + PAID, 0n]);
    // Nor is it paid back beside that, or given once more.
    const { key } = examplePayment(1);
    const resolution = { verb: "refund", note: "", by: "operator", isSent: true } as const;
    expect(await ledger.step(key, { kind: "resolve", resolution })).toMatchObject({
      kind: "refused",
      reason: expect.stringContaining("what is left of it, is in its buyer's balance"),
    });
    const note = "400 charged for 200 used, 9600 in its buyer's balance";
    expect((await ledger.books.show(key))?.events.at(-1)).toMatchObject({ note });
  });

  it("nothing is left of an answer that was not delivered, and all of it is owed", async () => {
    const { ledger } = place();
    const payment = examplePayment(1);
    const { key } = payment;
    await ledger.step(key, {
      kind: "claim",
      terms: termsOf(payment, { route: ROUTE, change: POT }),
    });
    await sign(ledger, [payment]);
    await settle(ledger, payment);
    await ledger.step(key, { kind: "delivering" });
    await ledger.step(key, { kind: "undelivered", broken: UNANSWERED });
    expect(await inPot(ledger)).toEqual([0n, 0n]);
    expect(await ledger.step(key, { kind: "status" })).toMatchObject({
      state: "SETTLED",
      metered: null,
    });
    // By a route that is not charged by use any more.
    await ledger.step(key, { kind: "delivering" });
    await ledger.step(key, { kind: "delivered" });
    expect(await ledger.step(key, { kind: "status" })).toMatchObject({
      metered: { charged: String(PAID), change: "0", reason: "not-metered" },
    });
    expect(await inPot(ledger)).toEqual([0n, 0n]);
  });

  it("leases what is needed, and of the rest half of what is free", async () => {
    const { ledger } = place();
    await fill(ledger);
    const { pots } = ledger;
    expect(await draw(pots, { first: 100n, wish: 5_000n })).toEqual({
      pot: POT,
      held: 5_000n,
      whole: PAID,
      isWanted: false,
      isOver: false,
    });
    expect(await inPot(ledger)).toEqual([5_000n, 5_000n]);
    const more = await draw(pots, {
      turn: 2,
      isHeld: true,
      base: 100n,
      first: 100n,
      wish: 99_999n,
    });
    expect(more.held).toBe(7_500n);
    const less = await draw(pots, { turn: 3, isHeld: true, base: 100n });
    expect(less.held).toBe(100n);
    expect(await inPot(ledger)).toEqual([9_900n, 100n]);
    expect((await draw(pots, { turn: 4, isHeld: true })).held).toBe(0n);
    expect(await inPot(ledger)).toEqual([PAID, 0n]);
  });

  it("gives all that a request needs, or nothing", async () => {
    const { ledger } = place();
    await fill(ledger);
    expect(await draw(ledger.pots, { first: PAID + 1n, wish: PAID + 1n })).toMatchObject({
      held: 0n,
      whole: PAID,
    });
    expect(await inPot(ledger)).toEqual([PAID, 0n]);
    expect((await draw(ledger.pots, { turn: 2, first: PAID })).held).toBe(PAID);
    expect(await draw(ledger.pots, { pot: "credits/evm/USDC/none", first: 1n })).toMatchObject({
      held: 0n,
      whole: 0n,
      isOver: false,
    });
  });

  it("writes what was used once, in whichever question it comes", async () => {
    const { ledger } = place();
    await fill(ledger);
    const { pots } = ledger;
    await draw(pots, { first: 1_000n });
    const chunks = [used(2, 300n)];
    const again = { isHeld: true, base: 0n, wish: 1_000n };
    expect((await draw(pots, { ...again, turn: 2, chunks, wish: 700n })).held).toBe(700n);
    // Its answer was lost: it comes again, with what was used since.
    const both = [...chunks, used(3, 200n)];
    expect((await draw(pots, { ...again, turn: 3, chunks: both, wish: 500n })).held).toBe(500n);
    // And one that was under way for long comes behind it.
    const late = await draw(pots, { ...again, turn: 2, chunks, wish: 0n });
    expect(late.held).toBe(500n);
    expect(await sum(ledger)).toMatchObject({ used: 500n, leased: 500n, free: PAID - 1_000n });
  });

  it("one that opened a lease, and comes behind its end, opens none", async () => {
    const { ledger } = place();
    await fill(ledger);
    await draw(ledger.pots, { turn: 1, first: 1_000n });
    await draw(ledger.pots, { turn: 2, isHeld: true });
    await draw(ledger.pots, { turn: 1, first: 1_000n });
    expect(await inPot(ledger)).toEqual([PAID, 0n]);
    place().time.nowMs += TURNS_KEPT_MS + 1;
    await ledger.upkeep.reap();
    expect((await draw(ledger.pots, { turn: 3, first: 1_000n })).held).toBe(1_000n);
  });

  it("a use of more than is leased ends the lease, and costs nothing", async () => {
    const { ledger } = place();
    await fill(ledger);
    await draw(ledger.pots, { first: 100n });
    const over = await draw(ledger.pots, { turn: 2, isHeld: true, chunks: [used(2, 101n)] });
    expect(over).toMatchObject({ isOver: true, held: 0n });
    expect(await inPot(ledger)).toEqual([PAID, 0n]);
    expect((await sum(ledger)).used).toBe(0n);
  });

  it("each of several in one question is for itself, and none is there twice", async () => {
    const { ledger } = place();
    await fill(ledger);
    const quota = { pot: QUOTA, opens: { amount: 100n, untilMs: null }, first: 1n };
    const [one, other] = await ledger.pots.draw([
      { ...ASK, first: 100n, chunks: [used(1, 5n)] },
      { ...ASK, ...quota },
    ]);
    expect([one?.isOver, other?.held]).toEqual([true, 1n]);
    await expect(ledger.pots.draw([ASK, ASK])).rejects.toThrow(TypeError);
    await expect(ledger.pots.draw([{ ...ASK, wish: -1n }])).rejects.toThrow(TypeError);
  });

  it("a quota is made when it is first asked for, ends at its time, and is in no book", async () => {
    const { ledger } = place();
    const untilMs = place().time.nowMs + 86_400_000;
    const opens = { amount: 100n, untilMs };
    const ask = { pot: QUOTA, opens };
    expect(await draw(ledger.pots, { ...ask, first: 1n, wish: 10n })).toMatchObject({
      held: 10n,
      whole: 100n,
    });
    const chunks = [used(2, 4n)];
    await draw(ledger.pots, { ...ask, turn: 2, isHeld: true, chunks });
    const known = (await ledger.pots.balances([QUOTA])).get(QUOTA);
    expect(known).toMatchObject({ free: 96n, leased: 0n, untilMs });
    expect(await ledger.books.credits()).toEqual([]);
    place().time.nowMs = untilMs;
    expect((await draw(ledger.pots, { ...ask, turn: 3, first: 1n })).held).toBe(0n);
    place().time.nowMs = untilMs + TURNS_KEPT_MS + 1;
    await ledger.upkeep.reap();
    expect((await ledger.pots.balances([QUOTA])).size).toBe(0);
  });

  it("what a worker had leased is there again when it is gone, and its siblings' is theirs", async () => {
    const { ledger } = place();
    await fill(ledger);
    const [one, other] = [ledger.worker("1"), ledger.worker("2")];
    await draw(one.pots, { first: 300n });
    await draw(other.pots, { first: 500n });
    await draw(one.pots, { turn: 2, isHeld: true, base: 0n, wish: 200n, chunks: [used(2, 100n)] });
    expect(await inPot(ledger)).toEqual([PAID - 800n, 700n]);
    await one.end(new Set());
    await ledger.upkeep.reap();
    expect(await inPot(ledger)).toEqual([PAID - 600n, 500n]);
    // A question of its that comes late takes nothing that nobody would give back.
    await expect(draw(one.pots, { turn: 3, first: 100n })).rejects.toThrow(LedgerUnavailable);
    expect(await inPot(ledger)).toEqual([PAID - 600n, 500n]);
    expect(await sum(ledger)).toMatchObject({ used: 100n });
  });

  it("what a life had leased is there again in the next, without what it had not written", async () => {
    await fill(place().ledger);
    await draw(place().ledger.pots, { first: 300n });
    await draw(place().ledger.pots, {
      turn: 2,
      isHeld: true,
      chunks: [used(2, 100n)],
      wish: 200n,
    });
    const ledger = await place().restart("second");
    await ledger.upkeep.reap();
    expect(await inPot(ledger)).toEqual([PAID - 100n, 0n]);
    const mine = await draw(ledger.pots, { first: 50n });
    expect(mine.held).toBe(50n);
    await ledger.upkeep.reap();
    expect(await inPot(ledger)).toEqual([PAID - 150n, 50n]);
  });

  if (severalLives) {
    it("who finds it leased by others has it given back, unless it is needed", async () => {
      const one = place().ledger;
      const other = await place().live("second");
      await fill(one, 1, 1_000n);
      expect((await draw(one.pots, { first: 10n, wish: 10_000n })).held).toBe(500n);
      const short = await draw(other.pots, { first: 600n });
      expect(short).toMatchObject({ held: 0n, whole: 1_000n });
      const told = await draw(one.pots, { turn: 2, isHeld: true, base: 10n, wish: 10_000n });
      expect(told).toMatchObject({ held: 10n, isWanted: true });
      expect((await draw(other.pots, { turn: 2, first: 600n })).held).toBe(600n);
      expect((await draw(one.pots, { turn: 3, isHeld: true, base: 10n, wish: 100n })).held).toBe(
        100n,
      );
    });
  }

  it("of any number at once no more is leased than is there", async () => {
    const { ledger } = place();
    await fill(ledger, 1, 1_000n);
    const lives = Array.from({ length: 12 }, (_, number) => ledger.worker(String(number)));
    const drawn = await Promise.all(lives.map((life) => draw(life.pots, { first: 90n })));
    const held = drawn.reduce((all, each) => all + each.held, 0n);
    expect(held).toBe(990n);
    expect(await inPot(ledger)).toEqual([10n, 990n]);
  });

  it("whoever has prepaid something is forgotten when it is used, and his pot with him", async () => {
    const { ledger } = place();
    await fill(ledger);
    const forget = (isTried: boolean): Promise<Forgotten> =>
      forgetAll((step) => ledger.upkeep.forget(step), { payer: PAYER, isTried });
    await ledger.step(examplePayment(1).key, { kind: "delivering" });
    await ledger.step(examplePayment(1).key, { kind: "delivered" });
    await close(ledger);
    place().time.nowMs = LATER_MS;
    for (const isTried of [true, false])
      expect(await forget(isTried)).toMatchObject({ unfinished: 1 });
    await draw(ledger.pots, { first: PAID });
    expect(await forget(false)).toMatchObject({ unfinished: 1 });
    await draw(ledger.pots, { turn: 2, isHeld: true, chunks: [used(2, PAID)] });
    expect(await forget(false)).toMatchObject({ unfinished: 0, payments: 1 });
    expect((await ledger.pots.balances([POT])).size).toBe(0);
    expect(await sum(ledger)).toMatchObject({ pots: 0, bought: PAID, used: PAID });
  });

  it("what a payer has for nothing is forgotten with him, where nobody is using it, and nobody else's", async () => {
    const { ledger } = place();
    const owner = { network: "base", hasKey: true } as const;
    const potOf = (address: string, route: string): string =>
      quotaPot(route, "payer", quotaOwner({ ...owner, address }), LATER_MS);
    const own = potOf(PAYER, "GET /a");
    const used = potOf(PAYER, "GET /b");
    const others = potOf(`${PAYER.slice(0, -1)}f`, "GET /a");
    const asked = { turn: 1, chunks: [], isHeld: false, base: 0n, first: 1n, wish: 1n };
    const opens = { amount: 3n, untilMs: LATER_MS };
    const pots = [own, used, others];
    await ledger.pots.draw(pots.map((pot) => ({ ...asked, pot, opens })));
    const back = { ...asked, turn: 2, isHeld: true, first: 0n, wish: 0n };
    await ledger.pots.draw([own, others].map((pot) => ({ ...back, pot })));
    const forgotten = await forgetAll((step) => ledger.upkeep.forget(step), {
      payer: PAYER,
      isTried: false,
    });
    expect(forgotten.unfinished).toBe(0);
    expect([...(await ledger.pots.balances(pots)).keys()].sort()).toEqual([used, others].sort());
  });

  it("what is used up is tidied away, once nobody can come late with a turn of it", async () => {
    const { ledger } = place();
    await fill(ledger);
    await draw(ledger.pots, { first: PAID });
    await draw(ledger.pots, { turn: 2, isHeld: true, chunks: [used(2, PAID)] });
    await ledger.upkeep.reap();
    expect((await ledger.pots.balances([POT])).size).toBe(1);
    place().time.nowMs += TURNS_KEPT_MS + 1;
    await ledger.upkeep.reap();
    expect((await ledger.pots.balances([POT])).size).toBe(0);
    await fill(ledger, 2);
    expect(await inPot(ledger)).toEqual([PAID, 0n]);
  });

  it("a payment that was signed twice by different lives of an account fills once", async () => {
    const { ledger } = place();
    const payment = examplePayment(1);
    await sell(ledger, payment);
    const lease = await leaseOf(ledger);
    const [open_] = await ledger.signing.unfinished(NETWORK, lease.address);
    const first = open_?.variants[0];
    if (open_ === undefined || first === undefined) throw new Error("nothing was signed");
    await ledger.signing.replaced(lease, open_.id, signWith(first.accountNonce, lease.address, 1));
    await Promise.all([settle(ledger, payment), settle(ledger, payment)]);
    expect(await inPot(ledger)).toEqual([PAID, 0n]);
  });
}
