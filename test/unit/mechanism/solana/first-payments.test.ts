/** What payments of new payers may cost: what is in the air, what was lost, and who goes on then. */
import { beforeEach, describe, expect, test } from "vitest";
import type { Confirmation, Look } from "../../../../src/mechanism/mechanism.ts";
import { FirstPayments, type Unguarded } from "../../../../src/mechanism/solana/first-payments.ts";
import type { Listed } from "../../../../src/mechanism/solana/history.ts";
import { ManualTime } from "../../../support/manual-time.ts";
import { never } from "../../../support/solana-requests.ts";

const LOW = 10_002n;
const HIGH = 100_000n;
/** Payments at those bids that are lost before something is asked. */
const LOST_LOW = 49;
const LOST_HIGH = 5;
const HOUR_MS = 3_600_000;

let time: ManualTime;
let firsts: FirstPayments;
let undecided: Map<string, number>;
let history: Map<string, Listed[]>;
let count = 0;

beforeEach(() => {
  time = new ManualTime();
  undecided = new Map();
  history = new Map();
  firsts = new FirstPayments({
    time,
    undecidedOf: (payer) => undecided.get(payer) ?? 0,
    listNewest: (source) => Promise.resolve(history.get(source) ?? []),
    onLoss: () => undefined,
  });
});

/** Of somebody new, with a token account of his own. */
function payment(changes: Partial<Unguarded> = {}): Unguarded {
  count += 1;
  const names = { messageHash: `m${count}`, payer: `p${count}`, source: `s${count}` };
  return { ...names, networkFeeLamports: LOW, ...changes };
}

/** From a token account that was there two hours before, and in use since. */
function rested(changes: Partial<Listed> = {}): Unguarded {
  const each = payment();
  const now = time.now() / 1000;
  const listed = { signature: "", slot: 1, blockTime: now - 60, isFailed: false };
  history.set(each.source, [
    { ...listed, ...changes },
    { ...listed, blockTime: now - 7_200 },
  ]);
  return each;
}

function signed(each: Unguarded): Unguarded {
  expect(firsts.fits(each)).toBe(true);
  firsts.reserve(each);
  firsts.signed(each.messageHash);
  return each;
}

const block = { transaction: "t", confirmations: 1, isFinal: false };
const paid: Confirmation = { kind: "confirmed", transaction: "t" };
const failed: Confirmation = {
  kind: "failed",
  refusal: { code: "invalid_transaction_state", detail: "" },
  retriable: false,
};
function found({ messageHash, payer }: Unguarded, said: Confirmation): void {
  const look: Look = { payments: [said], included: block, isSpent: true };
  firsts.found(messageHash, payer, look, true);
}
const lose = (each: Unguarded): void => found(signed(each), failed);
const loseAll = (): void => {
  for (let lost = 0; lost < LOST_LOW; lost += 1) lose(payment());
};

/** Until time has passed where it waits. */
async function refusalOf(each: Unguarded): Promise<string> {
  const admitting = firsts.admit(each, never);
  await time.advance(2_000);
  const admitted = await admitting;
  return admitted.ok ? "admitted" : admitted.error.detail;
}

describe("before much is lost", () => {
  test("any number of usual bids go at once, and few high ones", async () => {
    for (let inAir = 0; inAir < 900; inAir += 1) signed(payment());
    for (let inAir = 0; inAir < LOST_HIGH; inAir += 1)
      signed(payment({ networkFeeLamports: HIGH }));
    expect(await refusalOf(payment({ networkFeeLamports: HIGH }))).toMatch(/may bid 2 lamports/);
    expect(await refusalOf(payment())).toBe("admitted");
  });

  test("what went well is forgotten, and what was never signed, after two minutes", async () => {
    const high = { networkFeeLamports: HIGH };
    const all = Array.from({ length: LOST_HIGH }, () => signed(payment(high)));
    expect(firsts.fits(payment(high))).toBe(false);
    for (const each of all) found(each, paid);
    for (let made = 0; made < LOST_HIGH; made += 1) firsts.reserve(payment(high));
    expect(firsts.fits(payment(high))).toBe(false);
    await time.advance(120_000);
    expect(firsts.fits(payment(high))).toBe(true);
  });
});

describe("once fifty settlements are lost", () => {
  test("one payment goes for each token account that was there before", async () => {
    loseAll();
    const each = rested();
    expect(await refusalOf(each)).toBe("admitted");
    lose(each);
    expect(await refusalOf({ ...each, messageHash: "another", payer: "another" })).toMatch(
      /too many payments of new payers failed on chain/,
    );
    await time.advance(HOUR_MS);
    expect(await refusalOf(each)).toBe("admitted");
  });

  test("new token accounts, and those with failures, go four at a time", async () => {
    loseAll();
    for (const each of [payment(), rested({ isFailed: true }), payment(), payment()]) {
      expect(await refusalOf(each)).toBe("admitted");
      lose(each);
    }
    expect(await refusalOf(payment())).toMatch(/in use for longer/);
    expect(await refusalOf(rested({ isFailed: true }))).toMatch(/in use for longer/);
    expect(await refusalOf(rested())).toBe("admitted");
    await time.advance(240_000);
    expect(await refusalOf(payment())).toBe("admitted");
  });

  test("whoever waits goes on when another payment went well", async () => {
    loseAll();
    const [first] = Array.from({ length: 4 }, () => signed(payment()));
    const admitting = firsts.admit(payment(), never);
    await time.advance(1);
    if (first !== undefined) found(first, paid);
    expect(await admitting).toEqual({ ok: true, value: true });
  });

  test("a payer has as many in the air as he has paid, at any bid, until one fails", async () => {
    const payer = "regular";
    const own = (): Unguarded => payment({ payer, networkFeeLamports: HIGH });
    const [one, two] = [payment({ payer }), payment({ payer })];
    found(signed(one), paid);
    found(signed(two), paid);
    loseAll();
    undecided.set(payer, 1);
    expect(firsts.fits(own())).toBe(true);
    undecided.set(payer, 2);
    expect(firsts.fits(own())).toBe(false);
    undecided.set(payer, 0);
    found(own(), failed);
    expect(firsts.fits(own())).toBe(false);
  });
});
