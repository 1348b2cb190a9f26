/** What is known of who holds what: for how long, of how many, and of whom nothing is. */
import { describe, expect, it } from "vitest";
import {
  Holders,
  LACKING_MS,
  learnHoldings,
  MAX_KNOWN_HOLDINGS,
  isUnasked,
  UNKNOWN_MS,
} from "../../../src/gateway/holders.ts";
import { memberOf, membershipsOf } from "../../../src/gateway/membership.ts";
import type { HolderTerms, Holding } from "../../../src/x402/holding.ts";
import type { BuyerSession } from "../../../src/x402/session.ts";

const TERMS: HolderTerms = {
  network: "base",
  token: "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913",
  least: 5n,
  decimals: 6,
  symbol: "USDC",
  forMs: 60_000,
};

const session = (overrides: Partial<BuyerSession> = {}): BuyerSession => ({
  kind: "session",
  address: "0x857b06519E91e3A54538791bDbb0E22373e36b66",
  network: "base",
  hasKey: true,
  issuedMs: 0,
  untilMs: 1e12,
  ...overrides,
});

function stage(answer: (address: string) => Holding | null) {
  let nowMs = 1_000_000;
  const asked: string[] = [];
  const holders = new Holders(
    {
      holdings: async (shown, terms, client) => {
        const address = "address" in shown ? shown.address : "";
        asked.push(`${address} ${terms.length} ${client}`);
        return terms.map(() => answer(address));
      },
    },
    () => nowMs,
  );
  const groups = [{ group: "rich", list: holders.listOf(TERMS), offers: null, page: null }];
  return {
    holders,
    groups,
    asked,
    pass: (ms: number) => void (nowMs += ms),
    learn: (shown = session()) => learnHoldings(groups, shown, "192.0.2.1"),
    isMember: (shown = session()) => memberOf(groups, shown) !== undefined,
  };
}

describe("who holds enough", () => {
  it("is a member for as long as is written, and then is asked again", async () => {
    const { asked, learn, isMember, pass, groups } = stage(() => true);
    expect(isMember()).toBe(false);
    expect(await learn()).toBe(true);
    await learn();
    expect(asked).toEqual(["0x857b06519E91e3A54538791bDbb0E22373e36b66 1 192.0.2.1"]);
    pass(TERMS.forMs - 1);
    expect([isMember(), isUnasked(groups, session())]).toEqual([true, false]);
    pass(1);
    expect([isMember(), isUnasked(groups, session())]).toEqual([false, true]);
    await learn();
    expect(asked).toHaveLength(2);
  });

  it("counts from when it was asked, and not from when it was answered", async () => {
    let answer: (held: readonly Holding[]) => void = () => undefined;
    let nowMs = 0;
    const holders = new Holders(
      { holdings: () => new Promise((resolve) => void (answer = resolve)) },
      () => nowMs,
    );
    const groups = [{ group: "rich", list: holders.listOf(TERMS), offers: null, page: null }];
    const learning = learnHoldings(groups, session(), "192.0.2.1");
    nowMs = TERMS.forMs;
    answer([true]);
    await learning;
    expect(memberOf(groups, session())).toBeUndefined();
  });

  it("is one by a key on each EVM network, and by code on the token's own alone", async () => {
    const { learn, isMember, asked } = stage(() => true);
    await learn();
    expect(isMember(session({ network: "polygon" }))).toBe(true);
    expect(isMember(session({ hasKey: false }))).toBe(true);
    expect(isMember(session({ network: "polygon", hasKey: false }))).toBe(false);
    await learn(session({ network: "solana", address: "11111111111111111111111111111111" }));
    expect(asked).toHaveLength(1);
  });

  it("is told by an address in any letters, and for no other amount", async () => {
    const { learn, isMember, holders } = stage(() => true);
    await learn();
    const small = session().address.toLowerCase();
    expect(isMember(session({ address: small }))).toBe(true);
    expect(holders.listOf({ ...TERMS, least: 6n }).has("base", small)).toBe(false);
    expect(holders.listOf({ ...TERMS, network: "polygon" }).has("polygon", small)).toBe(false);
  });
});

describe("who holds too little", () => {
  it("is asked again after a short while: he may have bought some", async () => {
    const { learn, isMember, pass, asked, groups } = stage(() => false);
    expect(await learn()).toBe(true);
    expect(isMember()).toBe(false);
    pass(LACKING_MS - 1);
    await learn();
    expect(asked).toHaveLength(1);
    pass(1);
    expect(isUnasked(groups, session())).toBe(true);
  });
});

describe("of whom it could not be asked", () => {
  it("is no member, and that is told; for a moment nobody asks again", async () => {
    const { learn, groups, pass, asked } = stage(() => null);
    expect(await learn()).toBe(false);
    expect(membershipsOf(groups, session())).toEqual({ key: "none", code: "none" });
    expect(await learn()).toBe(false);
    expect(asked).toHaveLength(1);
    pass(UNKNOWN_MS);
    expect(await learn()).toBe(false);
    expect(asked).toHaveLength(2);
  });

  it("becomes known of nobody who has not proven who he is", async () => {
    const holders = new Holders({ holdings: async () => null }, () => 0);
    const groups = [{ group: "rich", list: holders.listOf(TERMS), offers: null, page: null }];
    expect(await learnHoldings(groups, session(), "192.0.2.1")).toBe(true);
    expect(isUnasked(groups, session())).toBe(true);
  });
});

it("remembers so many accounts, and forgets the one that nobody asks for", async () => {
  const { learn, isMember } = stage(() => true);
  const nth = (index: number) => session({ address: `0x${index.toString(16).padStart(40, "0")}` });
  await learn(nth(0));
  for (let index = 1; index <= MAX_KNOWN_HOLDINGS; index += 1) await learn(nth(index));
  expect([isMember(nth(0)), isMember(nth(1)), isMember(nth(MAX_KNOWN_HOLDINGS))]).toEqual([
    false,
    true,
    true,
  ]);
});
