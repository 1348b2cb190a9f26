/** Who is asked about, how often, and what is made of answers that do not come. */
import { describe, expect, it } from "vitest";
import { Holdings, HOLDING_MS } from "../../../../src/payments/sale/holdings.ts";
import type { HeldToken, HolderTerms } from "../../../../src/x402/holding.ts";
import type { ProvenAccount } from "../../../../src/x402/session.ts";
import type { SignIn } from "../../../../src/x402/sign-in.ts";
import { createLogger } from "../../../../src/telemetry/logger.ts";
import { Metrics } from "../../../../src/telemetry/metrics.ts";
import { systemTime } from "../../../../src/time/time.ts";

const TERMS: HolderTerms = {
  network: "base",
  token: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
  least: 5n,
  decimals: 0,
  symbol: "USDC",
  forMs: 60_000,
};
const ACCOUNT: ProvenAccount = {
  address: "0x857b06519E91e3A54538791bDbb0E22373e36b66",
  network: "base",
  hasKey: true,
};
const SIGN_IN: SignIn = {
  address: ACCOUNT.address,
  network: "base",
  message: "",
  signature: "0x",
  nonce: "",
  untilMs: 0,
};

type Ask = (held: HeldToken, signal: AbortSignal, asker: string) => Promise<bigint>;

function stage(ask: Ask, { isSigned = true, isDenied = false } = {}) {
  const metrics = new Metrics("test");
  const limits: number[] = [];
  const bar = { kind: "barred", status: 403, refusal: { code: "x", detail: "" }, seconds: null };
  const holdings = new Holdings({
    observers: new Map([["base", { holding: ask }]]),
    signers: { hasKeySigned: () => isSigned },
    guard: { barOfAccount: () => (isDenied ? Object(bar) : undefined) },
    meter: metrics.holders,
    logger: createLogger({ level: "silent", format: "json", isShared: false }),
    time: {
      ...systemTime,
      timeout: (ms) => {
        limits.push(ms);
        return new AbortController().signal;
      },
    },
  });
  return { holdings, limits, metrics };
}

describe("who is asked about", () => {
  it("is who has signed in by a key, or has a session; nobody to whom nothing is sold", () => {
    const session = { ...ACCOUNT, kind: "session", issuedMs: 0, untilMs: 1 } as const;
    const code = { ...session, hasKey: false };
    const ask: Ask = () => Promise.reject(new Error("nobody is asked yet"));
    const by = (options: Parameters<typeof stage>[1]) => stage(ask, options).holdings;
    expect(by({}).accountOf(SIGN_IN)).toEqual(ACCOUNT);
    expect(by({ isSigned: false }).accountOf(SIGN_IN)).toBeNull();
    expect(by({ isSigned: false }).accountOf(session)).toEqual(ACCOUNT);
    expect(by({ isSigned: false }).accountOf(code)).toEqual({ ...ACCOUNT, hasKey: false });
    expect(by({ isDenied: true }).accountOf(SIGN_IN)).toBeNull();
    expect(by({ isDenied: true }).accountOf(session)).toBeNull();
  });

  it("is not asked about where he cannot hold it: code on another chain, a key of another kind", async () => {
    const { holdings } = stage(() => Promise.reject(new Error("is not asked")));
    const elsewhere = { ...ACCOUNT, network: "polygon", hasKey: false } as const;
    const solana = { ...ACCOUNT, network: "solana" } as const;
    expect(await holdings.of(elsewhere, [TERMS], "a")).toEqual([false]);
    expect(await holdings.of(solana, [TERMS], "a")).toEqual([false]);
  });
});

describe("the chain", () => {
  it("is asked once at a time of one account, and again afterwards", async () => {
    const asked: HeldToken[] = [];
    const { promise, resolve } = Promise.withResolvers<bigint>();
    const { holdings, limits } = stage((held) => {
      asked.push(held);
      return promise;
    });
    const all = [
      holdings.of(ACCOUNT, [TERMS], "a"),
      holdings.of(ACCOUNT, [TERMS, { ...TERMS, least: 6n }], "b"),
    ];
    expect(asked).toHaveLength(2);
    resolve(5n);
    expect(await Promise.all(all)).toEqual([[true], [true, false]]);
    await holdings.of(ACCOUNT, [TERMS], "a");
    expect(asked).toHaveLength(3);
    expect(new Set(limits)).toEqual(new Set([HOLDING_MS]));
  });

  it("that does not answer makes nobody a member, and nobody none", async () => {
    const { holdings, metrics } = stage(() => Promise.reject(new Error("no answer")));
    expect(await holdings.of(ACCOUNT, [TERMS], "a")).toEqual([null]);
    expect(await holdings.of(ACCOUNT, [{ ...TERMS, network: "polygon" }], "a")).toEqual([null]);
    expect(await metrics.registry.metrics()).toContain(
      'coinslot_holder_questions_total{network="base",result="unknown"} 1',
    );
  });
});
