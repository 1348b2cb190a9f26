/** What is signed for an agent's calls, how often, and what is presented again; sellers are scripted. */
import { privateKeyToAccount, generatePrivateKey } from "viem/accounts";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import {
  AgentPurse,
  LONGEST_ANSWER_MS,
  LONGEST_QUESTION_MS,
  MAX_CALLS_AT_ONCE,
  REPEATED_WITHIN_MS,
  type Bought,
  type WantedCall,
} from "../../../../src/buyer/agent/agent-purse.ts";
import { readSeller, type Allowance } from "../../../../src/buyer/agent/allowance.ts";
import type { Errand, ErrandOutcome, SignedInAnswer } from "../../../../src/buyer/agent/errand.ts";
import { PurchaseBook } from "../../../../src/buyer/agent/purchase-book.ts";
import { readQuoteJson } from "../../../../src/buyer/offer.ts";
import type { Time } from "../../../../src/time/time.ts";
import { err, ok } from "../../../../src/x402/result.ts";

const CENT = 10n ** 34n;
const PAY_TO = "0x209693Bc6afc0C5328bA36FaF03C514EF312287C";
const account = privateKeyToAccount(generatePrivateKey());
const key = { kind: "evm", address: account.address, account } as const;
const answer = {
  status: 200,
  contentType: "",
  bytes: 1,
  isCut: false,
  encoding: "text",
  body: "a",
} as const;

const seller = readSeller("api.example.com", null);
const allowance: Allowance = {
  sellers: seller.ok ? [seller.value] : [],
  networks: [],
  perCall: 10n * CENT,
  perDay: 20n * CENT,
  perSeller: 20n * CENT,
  confirmAbove: 5n * CENT,
  isDry: false,
};

let book: PurchaseBook;
let now: number;
/** Payments that were presented, in their order. */
let shown: string[];
/** Of each, whether it may have been taken before. */
let sentBefore: boolean[];
/** What the next presentations bring; then each is served. */
let script: Partial<ErrandOutcome>[];
/** Calls that an account has paid for. */
let used: number;

beforeEach(() => {
  const opened = PurchaseBook.open(":memory:");
  if (!opened.ok) throw new Error(opened.error);
  book = opened.value;
  // Signatures are made by the real clock.
  now = Date.now();
  [shown, sentBefore, script, used] = [[], [], [], 0];
});

afterEach(() => book.close());

function quoteOf(cents: number, payTo: string, { seconds = 60, extensions }: Wording) {
  const amount = String(cents * 10_000);
  const offer = { scheme: "exact", network: "base", payTo, maxAmountRequired: amount };
  const asset = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913";
  const common = { ...offer, asset, maxTimeoutSeconds: seconds };
  const quote = readQuoteJson(
    extensions === undefined
      ? { x402Version: 1, accepts: [common] }
      : {
          x402Version: 2,
          extensions,
          accepts: [{ ...common, network: "eip155:8453", amount }],
        },
  );
  if (!quote.ok) throw new Error(quote.error);
  return quote.value;
}

interface Wording {
  readonly seconds?: number;
  /** Of version 2. */
  readonly extensions?: object;
}

function errand(name: string, cents = 1, payTo = PAY_TO, wording: Wording = {}): Errand {
  return {
    url: new URL(`https://api.example.com/${name}`),
    what: `GET ${name}`,
    parts: [name],
    session: "here",
    ask: async () => ok({ kind: "price", quote: quoteOf(cents, payTo, wording) }),
    async present({ payment, wasSent, session }) {
      // Of the process that has signed, whoever shows it now.
      expect(session).toBe("here");
      // It is written before it is sent.
      expect(book.list(100)).toContainEqual(expect.objectContaining({ payment }));
      shown.push(payment.value);
      sentBefore.push(wasSent);
      const scripted = script.shift() ?? { kind: "served", answer };
      const common = { receipt: null, reason: "", location: null, isOver: false, neverLeft: false };
      return { ...common, kind: "unserved", answer: null, ...scripted };
    },
    askSignedIn: null,
    [Symbol.asyncDispose]: async () => undefined,
  };
}

const purse = (more: Partial<Allowance> = {}, clock: Partial<Time> = {}) =>
  new AgentPurse({
    book,
    key,
    silenceMs: 1_000,
    signal: new AbortController().signal,
    allowance: { ...allowance, ...more },
    signIn: async () => ok("a session"),
    time: {
      now: () => now,
      sleep: async () => undefined,
      timeout: () => new AbortController().signal,
      ...clock,
    },
  });

function wanted(call: Errand, more: Partial<WantedCall> = {}): WantedCall {
  const { signal } = new AbortController();
  return { errand: call, way: "payment", occasion: "", signal, agreed: null, ...more };
}

const kinds = (all: readonly Bought[]) => all.map(({ kind }) => kind);

describe("a call", () => {
  test("that is made at the same time twice, and again, is paid once", async () => {
    const it = purse();
    const both = await Promise.all([it.buy(wanted(errand("a"))), it.buy(wanted(errand("a")))]);
    expect(kinds(both)).toEqual(["served", "served"]);
    now += REPEATED_WITHIN_MS;
    expect(await it.buy(wanted(errand("a")))).toMatchObject({ kind: "served", isRepeated: true });
    expect(shown).toHaveLength(1);
    now += 1;
    expect(await it.buy(wanted(errand("a")))).toMatchObject({ isRepeated: false });
    expect(new Set(shown).size).toBe(2);
  });

  test("with an occasion is paid once for that, however late it is repeated", async () => {
    const it = purse();
    await it.buy(wanted(errand("a"), { occasion: "1" }));
    await it.buy(wanted(errand("a"), { occasion: "2" }));
    now += 100 * REPEATED_WITHIN_MS;
    const again = await it.buy(wanted(errand("a"), { occasion: "1" }));
    expect(again).toMatchObject({ kind: "served", isRepeated: true });
    expect(shown).toHaveLength(2);
  });

  test("whose answer was lost presents the same payment, in the next process, too", async () => {
    script = [
      { kind: "unserved", reason: "cut" },
      { kind: "unserved", reason: "cut" },
    ];
    expect(await purse().buy(wanted(errand("a")))).toMatchObject({ kind: "unserved" });
    expect(await purse().buy(wanted(errand("a")))).toMatchObject({ kind: "unserved" });
    // Long after the signature is void: it may have been settled before.
    now += 100 * REPEATED_WITHIN_MS;
    expect(await purse().buy(wanted(errand("a")))).toMatchObject({
      kind: "served",
      isRepeated: false,
    });
    expect(new Set(shown).size).toBe(1);
    expect(sentBefore).toEqual([false, true, true]);
  });

  // The seller has it, and may have settled it before it said so: a second signature is money for nothing.
  test("that was refused is signed anew as what was served is: later, or on another occasion", async () => {
    script = [
      { kind: "refused", reason: "no" },
      { kind: "refused", reason: "no" },
    ];
    const first = await purse().buy(wanted(errand("a")));
    expect(first).toMatchObject({ advice: expect.stringContaining("another occasion") });
    await purse().buy(wanted(errand("a")));
    expect([new Set(shown).size, sentBefore]).toEqual([1, [false, false]]);
    const { liveUntil = 0, at = 0 } = book.list(1)[0] ?? {};
    now = liveUntil + 1;
    expect(await purse().buy(wanted(errand("a")))).toMatchObject({
      kind: "unserved",
      advice: expect.stringContaining("another occasion"),
    });
    expect(shown).toHaveLength(2);
    now = at + REPEATED_WITHIN_MS + 1;
    expect(await purse().buy(wanted(errand("a")))).toMatchObject({ kind: "served" });
    expect(new Set(shown).size).toBe(2);
  });

  test("of an occasion is signed once for it, whatever its seller says, and however late", async () => {
    script = [
      { kind: "unserved", reason: "cut" },
      { kind: "refused", reason: "no" },
    ];
    const named = () => wanted(errand("a"), { occasion: "monday" });
    await purse().buy(named());
    // It is shown again when it is void, and only then refused.
    now += 100 * REPEATED_WITHIN_MS;
    for (let times = 0; times < 3; times += 1)
      expect(await purse().buy(named())).toMatchObject({ kind: "unserved" });
    expect(new Set(shown).size).toBe(1);
  });

  test("whose live signature was refused is signed anew at no time before that is void", async () => {
    script = [{ kind: "refused", reason: "no" }];
    await purse().buy(wanted(errand("a", 1, PAY_TO, { seconds: 3_600 })));
    now += REPEATED_WITHIN_MS + 1;
    script = [{ kind: "refused", reason: "no" }];
    expect(await purse().buy(wanted(errand("a")))).toMatchObject({ kind: "unserved" });
    expect(new Set(shown).size).toBe(1);
  });

  test("whose answer has come is told it, though there is no room to write that", async () => {
    vi.spyOn(book, "conclude").mockImplementationOnce(() => {
      throw new Error("database or disk is full");
    });
    expect(await purse().buy(wanted(errand("a")))).toMatchObject({
      kind: "served",
      purchase: { answer, reason: "not written: database or disk is full" },
    });
    // What the book knows of it is shown again, and nothing is signed anew.
    expect(await purse().buy(wanted(errand("a")))).toMatchObject({ kind: "served" });
    expect(new Set(shown).size).toBe(1);
  });

  test("that has to say more again than a payment has room for is not paid", async () => {
    const greedy = errand("a", 1, PAY_TO, { extensions: { more: "x".repeat(100_000) } });
    expect(await purse().buy(wanted(greedy))).toMatchObject({
      kind: "not bought",
      reason: expect.stringContaining("than a payment has room for"),
    });
    expect(shown).toEqual([]);
    expect(book.spent(now, "").inAll).toBe(0n);
  });

  test("is given up where its seller names no price, or no end", async () => {
    const asked: AbortSignal[] = [];
    const slow: Errand = {
      ...errand("a"),
      ask: async (signal) => {
        asked.push(signal);
        return err({ reason: "slow", isAway: true });
      },
    };
    const waited: number[] = [];
    const it = purse({}, { timeout: (ms) => (waited.push(ms), AbortSignal.abort()) });
    await it.buy(wanted(slow));
    await it.estimate(slow, new AbortController().signal);
    const endless: Errand = {
      ...errand("b"),
      present: async ({ signal }) => {
        asked.push(signal);
        const common = { receipt: null, location: null, isOver: false, neverLeft: false };
        return { ...common, kind: "unserved", reason: "interrupted", answer: null };
      },
    };
    expect(await it.buy(wanted(endless))).toMatchObject({
      kind: "unserved",
      advice: expect.stringContaining("make the same call again"),
    });
    expect(asked.map(({ aborted }) => aborted)).toEqual([true, true, true]);
    expect(waited).toEqual([
      LONGEST_QUESTION_MS,
      LONGEST_QUESTION_MS,
      LONGEST_QUESTION_MS,
      LONGEST_ANSWER_MS,
    ]);
  });

  test("that may have been paid and is not taken any more is never signed anew by itself", async () => {
    script = [{ kind: "unserved", reason: "used before", isOver: true }];
    await purse().buy(wanted(errand("a")));
    now += 100 * REPEATED_WITHIN_MS;
    const again = await purse().buy(wanted(errand("a")));
    expect(again).toMatchObject({
      kind: "unserved",
      advice: expect.stringContaining("another occasion"),
    });
    expect(shown).toHaveLength(1);
    expect(await purse().buy(wanted(errand("a"), { occasion: "2" }))).toMatchObject({
      kind: "served",
    });
  });

  test("that never left costs nothing of any budget", async () => {
    script = [{ kind: "refused", reason: "nothing listens there", neverLeft: true }];
    expect(await purse().buy(wanted(errand("a")))).toMatchObject({
      kind: "not bought",
      advice: expect.stringContaining("call again"),
    });
    expect(book.spent(now, "api.example.com").inAll).toBe(0n);
    // After it has once been refused, it has left.
    script = [
      { kind: "refused", reason: "no" },
      { kind: "refused", reason: "gone", neverLeft: true },
    ];
    await purse().buy(wanted(errand("b")));
    await purse().buy(wanted(errand("b")));
    expect(book.spent(now, "api.example.com").inAll).toBe(CENT);
  });

  test("whose seller is away costs nothing, and may be made again, as one that makes no sense may not", async () => {
    const away = (isAway: boolean): Errand => ({
      ...errand("a"),
      ask: async () => err({ reason: "no", isAway }),
    });
    const lost = await purse().buy(wanted(away(true)));
    expect(lost).toMatchObject({ reason: "no", advice: expect.stringContaining("call again") });
    const senseless = await purse().buy(wanted(away(false)));
    expect(senseless).toMatchObject({ kind: "not bought", reason: "no", advice: null });
    expect(book.list(1)).toEqual([]);
    expect(await purse().buy(wanted(errand("a")))).toMatchObject({ kind: "served" });
  });

  test("that was cancelled before anything was signed is not bought", async () => {
    const left = AbortSignal.abort();
    expect(await purse().buy(wanted(errand("a"), { signal: left }))).toMatchObject({
      kind: "not bought",
      reason: "it was cancelled",
    });
    expect(shown).toEqual([]);
  });
});

describe("what an account has", () => {
  /** Answers with what was debited, once for each call. */
  const prepaid = (name: string, cents = 1, told: Partial<SignedInAnswer> = {}): Errand => ({
    ...errand(name, cents),
    askSignedIn: async () => {
      used += 1;
      const charged = `${cents / 100} USDC`;
      return Object.assign({ kind: "answer" as const, answer, charged }, told);
    },
  });
  const use = (it: AgentPurse, call: Errand, more: Partial<WantedCall> = {}) =>
    it.buy(wanted(call, { way: "account", ...more }));
  const spent = () => book.spent(now, "api.example.com").inAll;

  test("counts in the budgets as it was debited, and a pass costs nothing of them", async () => {
    const it = purse();
    expect(await use(it, prepaid("a", 3))).toMatchObject({ kind: "served" });
    expect(spent()).toBe(3n * CENT);
    // By use: less than was asked for.
    await use(it, prepaid("b", 3, { charged: "0.002 USDC" }));
    expect(spent()).toBe(3n * CENT + CENT / 5n);
    for (const [name, charged] of [
      ["c", null],
      ["d", "0 USDC"],
    ] as const)
      await use(it, prepaid(name, 3, { charged }));
    expect(spent()).toBe(3n * CENT + CENT / 5n);
    // Nobody knows what that is worth: what it would cost otherwise.
    await use(it, prepaid("e", 3, { charged: "1 XYZ" }));
    expect(spent()).toBe(6n * CENT + CENT / 5n);
    expect([used, shown]).toEqual([5, []]);
  });

  test("is bound by each call, the day and the seller, for calls at the same time, too", async () => {
    const it = purse();
    expect(await use(it, prepaid("dear", 11))).toMatchObject({
      kind: "not bought",
      reason: "$0.11 is more than one call may cost, $0.1",
    });
    const calls = Array.from({ length: 30 }, (_, index) => use(it, prepaid(`${index}`)));
    const kinds = (await Promise.all(calls)).filter(({ kind }) => kind === "served");
    expect([kinds.length, used, spent()]).toEqual([20, 20, 20n * CENT]);
    // They are the budgets of payments, too.
    expect(await it.buy(wanted(errand("paid")))).toMatchObject({ kind: "not bought" });
    expect(shown).toEqual([]);
  });

  test("is asked of a person above what was said, and not used in a dry run", async () => {
    const it = purse();
    const asked = await use(it, prepaid("a", 6));
    expect(asked.kind).toBe("ask");
    expect(used).toBe(0);
    const agreed = asked.kind === "ask" ? asked.price : null;
    expect(await use(it, prepaid("a", 7), { agreed })).toMatchObject({ kind: "ask" });
    expect(await use(it, prepaid("a", 6), { agreed })).toMatchObject({ kind: "served" });
    const dry = await use(purse({ isDry: true }), prepaid("b"));
    expect(dry).toMatchObject({ kind: "not bought", reason: expect.stringContaining("dry run") });
    expect(used).toBe(1);
  });

  test("counts for its day where the answer was lost, and is not used again by itself", async () => {
    const lost = { kind: "lost" as const, reason: "cut", neverLeft: false };
    const call = { ...prepaid("a"), askSignedIn: async () => lost };
    expect(await use(purse(), call)).toMatchObject({ kind: "unserved" });
    expect(await use(purse(), prepaid("a"))).toMatchObject({
      kind: "unserved",
      advice: expect.stringContaining("another occasion"),
    });
    expect([used, spent()]).toEqual([0, CENT]);
    const away = { ...prepaid("b"), askSignedIn: async () => ({ ...lost, neverLeft: true }) };
    expect(await use(purse(), away)).toMatchObject({
      kind: "not bought",
      advice: expect.stringContaining("call again"),
    });
    expect(spent()).toBe(CENT);
  });
});

describe("budgets", () => {
  test("are exact for calls at the same time, whatever becomes of them", async () => {
    script = [{ kind: "unserved" }, { kind: "refused" }, { kind: "unserved", isOver: true }];
    const it = purse();
    const calls = Array.from({ length: 30 }, (_, index) => it.buy(wanted(errand(`${index}`))));
    const bought = await Promise.all(calls);
    expect(bought.filter(({ kind }) => kind !== "not bought")).toHaveLength(20);
    expect(shown).toHaveLength(20);
    expect(book.spent(now, "api.example.com")).toEqual({ inAll: 20n * CENT, atSeller: 20n * CENT });
    // The next day is another one.
    now += 24 * 3_600_000 + REPEATED_WITHIN_MS;
    expect(await it.buy(wanted(errand("x")))).toMatchObject({ kind: "served" });
  });

  test("bind each call, and a person is asked above what was said", async () => {
    const it = purse();
    expect(await it.buy(wanted(errand("dear", 11)))).toMatchObject({
      kind: "not bought",
      reason: "$0.11 is more than one call may cost, $0.1",
    });
    expect(await it.buy(wanted(errand("a", 5)))).toMatchObject({ kind: "served" });
    const asked = await it.buy(wanted(errand("b", 6)));
    expect(asked.kind).toBe("ask");
    expect(book.spent(now, "").inAll).toBe(5n * CENT);
    const agreed = asked.kind === "ask" ? asked.price : null;
    // What a person has agreed to is not what it costs, or who is paid, by now.
    const others = [errand("b", 7), errand("b", 6, "0x0000000000000000000000000000000000000001")];
    for (const other of others)
      expect(await it.buy(wanted(other, { agreed }))).toMatchObject({ kind: "ask" });
    expect(await it.buy(wanted(errand("b", 6), { agreed }))).toMatchObject({ kind: "served" });
  });

  test("and sellers are the owner's: a dry run, no key, another host, another network", async () => {
    for (const more of [{ isDry: true }, { networks: ["solana"] }, { sellers: [] }])
      expect(await purse(more).buy(wanted(errand("a")))).toMatchObject({ kind: "not bought" });
    expect(shown).toEqual([]);
    script = [{ kind: "unserved" }];
    await purse().buy(wanted(errand("a")));
    const dry = await purse({ isDry: true }).buy(wanted(errand("a")));
    expect(dry).toMatchObject({ kind: "unserved", advice: expect.stringContaining("a dry run") });
    expect(shown).toHaveLength(1);
  });

  test("more calls than may be made at a time are turned away", async () => {
    const it = purse({ perDay: 1_000n * CENT, perSeller: 1_000n * CENT });
    const calls = Array.from({ length: MAX_CALLS_AT_ONCE + 2 }, (_, index) =>
      it.buy(wanted(errand(`${index}`))),
    );
    const bought = await Promise.all(calls);
    expect(kinds(bought).filter((kind) => kind === "not bought")).toHaveLength(2);
    expect(await it.buy(wanted(errand("late")))).toMatchObject({ kind: "served" });
  });
});
