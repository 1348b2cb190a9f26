/** What may be signed of an account while other payments of it are under way. */
import { beforeEach, describe, expect, test } from "vitest";
import { SourceFunds, type FundsReading } from "../../../../src/mechanism/solana/source-funds.ts";
import { ok, refuse, type Refusal, type Result } from "../../../../src/x402/result.ts";
import { ManualTime } from "../../../support/manual-time.ts";

const never = new AbortController().signal;
const PRICE = 100n;

let time: ManualTime;
let funds: SourceFunds;
beforeEach(() => {
  time = new ManualTime();
  funds = new SourceFunds(time);
});

function reading(messageHash: string, members: Partial<FundsReading> = {}): FundsReading {
  const { moment } = funds;
  const left = 0n;
  const base = { messageHash, payer: "payer", source: "source", amount: PRICE };
  return { ...base, isGuarded: false, left, moment, ...members };
}

/** Signs it, where it fits. */
function sign(one: FundsReading): boolean {
  if (!funds.fits(one)) return false;
  funds.reserve(one);
  return true;
}

describe("payments of one account that were simulated at the same time", () => {
  test("are signed as far as the last of them leaves enough for the others", () => {
    const all = ["a", "b", "c", "d"].map((hash) => reading(hash, { left: 2n * PRICE }));
    expect(all.map(sign)).toEqual([true, true, true, false]);
  });

  test("of different accounts do not matter to each other", () => {
    const all = ["a", "b"].map((hash) => reading(hash, { source: hash }));
    expect(all.map(sign)).toEqual([true, true]);
  });

  test("count against each other even when one has been decided meanwhile", () => {
    const [first, second] = [reading("a"), reading("b")];
    sign(first);
    funds.decided("a");
    expect(funds.fits(second)).toBe(false);
    expect(funds.fits(reading("b"))).toBe(true);
  });

  test("do not count against themselves", () => {
    const one = reading("a");
    expect([sign(one), sign(one)]).toEqual([true, true]);
    funds.decided("a");
    funds.decided("a");
    expect(funds.fits(reading("b"))).toBe(true);
  });

  test("stand alone where one of them is guarded, whatever is left", () => {
    const ample = { left: 100n * PRICE };
    sign(reading("a", ample));
    expect(funds.fits(reading("b", { ...ample, isGuarded: true }))).toBe(false);
    const elsewhere = { ...ample, source: "another", isGuarded: true };
    expect(funds.fits(reading("b", elsewhere))).toBe(false);
    expect(funds.fits(reading("b", { ...elsewhere, payer: "another" }))).toBe(true);
    funds.decided("a");
    expect(sign(reading("b", { ...ample, isGuarded: true }))).toBe(true);
    expect(funds.fits(reading("c", ample))).toBe(false);
  });
});

describe("what was set aside", () => {
  test("is free after the life of a blockhash, though nobody decided it", async () => {
    sign(reading("a"));
    await time.advance(119_999);
    expect(funds.fits(reading("b"))).toBe(false);
    await time.advance(1);
    const before = reading("b");
    expect(funds.fits(before)).toBe(false);
    expect(funds.fits(reading("b"))).toBe(true);
  });

  test("has a limit, beyond which nothing is signed until something is decided", () => {
    for (let index = 0; index < 8_192; index += 1) {
      expect(sign(reading(`${index}`, { source: `${index}` }))).toBe(true);
    }
    const next = reading("next", { source: "next" });
    expect(() => sign(next)).toThrow(/8192 payments are undecided/);
    funds.decided("17");
    expect(sign(next)).toBe(true);
  });

  test("and forgotten again makes older simulations count no more", () => {
    const old = reading("old", { source: "old" });
    for (let index = 0; index < 16_385; index += 1) {
      sign(reading(`${index}`, { source: `${index}` }));
      funds.decided(`${index}`);
    }
    expect(funds.fits(old)).toBe(false);
    expect(funds.fits(reading("old", { source: "old" }))).toBe(true);
  });
});

/** Admits it, and counts how often it was simulated. */
function admit(one: Partial<FundsReading> = {}, signal = never, hash = "b") {
  const asked = { times: 0, now: one };
  const read = async (moment: number): Promise<Result<FundsReading, Refusal>> => {
    asked.times += 1;
    return ok(reading(hash, { ...asked.now, moment }));
  };
  return { asked, verdict: funds.admit(read, signal) };
}

describe("a payment that does not fit", () => {
  const refused = { ok: false, error: { code: "insufficient_funds" } };

  test("waits for the others, and is simulated again when there may be room", async () => {
    sign(reading("a", { amount: 2n }));
    sign(reading("c", { amount: 3n, left: 2n }));
    const { asked, verdict } = admit({ left: 2n });
    await time.advance(1_000);
    expect(asked.times).toBe(1);
    funds.decided("c");
    await time.advance(0);
    expect(asked.times).toBe(2);
    expect(await verdict).toMatchObject({ ok: true });
  });

  test("is refused when the others take longer than it waits, by its last simulation", async () => {
    sign(reading("a"));
    const { asked, verdict } = admit();
    await time.advance(3_999);
    expect(asked.times).toBe(1);
    await time.advance(1);
    expect(await verdict).toMatchObject(refused);
    expect(asked.times).toBe(2);
    const fed = admit();
    await time.advance(0);
    fed.asked.now = { left: PRICE };
    await time.advance(4_000);
    expect(await fed.verdict).toMatchObject({ ok: true });
  });

  test("is refused as its simulation says, once the others have taken the money", async () => {
    sign(reading("a"));
    let times = 0;
    const verdict = funds.admit(async (moment) => {
      times += 1;
      return times === 1 ? ok(reading("b", { moment })) : refuse("insufficient_funds", "spent");
    }, never);
    await time.advance(10);
    funds.decided("a");
    expect(await verdict).toMatchObject({ error: { detail: "spent" } });
  });

  test("says why", async () => {
    sign(reading("a"));
    const all = [admit({ left: 7n }), admit({ isGuarded: true, left: 7n })];
    await time.advance(4_000);
    expect(await all[0]?.verdict).toMatchObject({
      error: { detail: expect.stringMatching(/under way: source would have 7 atomic units left/) },
    });
    expect(await all[1]?.verdict).toMatchObject({
      error: { detail: expect.stringMatching(/under way: source .* guarded by assertions/) },
    });
  });

  test("does not wait longer than whoever asks", async () => {
    sign(reading("a"));
    const gone = new AbortController();
    const { asked, verdict } = admit({}, gone.signal);
    await time.advance(10);
    gone.abort();
    await expect(verdict).rejects.toMatchObject({ code: "CHAIN_TIMEOUT" });
    expect(asked.times).toBe(1);
  });

  test("does not wait where many of its account do", async () => {
    sign(reading("a"));
    for (let index = 0; index < 32; index += 1) admit({}, never, `waiting ${index}`);
    await time.advance(0);
    expect(await admit().verdict).toMatchObject(refused);
    sign(reading("x", { source: "another" }));
    const other = admit({ source: "another" });
    await time.advance(0);
    funds.decided("x");
    expect(await other.verdict).toMatchObject({ ok: true });
  });
});
