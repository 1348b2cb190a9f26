import { describe, expect, test } from "vitest";
import {
  FacilitatorWord,
  MAX_LEARNED,
  MAX_TOLD,
  MAX_UNREAD,
} from "../../../src/facilitator/facilitator-word.ts";

const NETWORK = "base-sepolia";
const account = (number: number): string => `0x${String(number).padStart(40, "0")}`;
const accounts = (count: number): readonly string[] =>
  Array.from({ length: count }, (_, n) => account(n));

describe("what a facilitator tells of itself", () => {
  test("is bounded, and what it told before is forgotten with each answer", () => {
    const word = new FacilitatorWord();
    word.record({ signers: { "eip155:*": accounts(MAX_TOLD + 1) } }, 7);
    expect(word.hasSigner(NETWORK, account(MAX_TOLD - 1))).toBe(true);
    expect(word.hasSigner(NETWORK, account(MAX_TOLD))).toBe(false);
    expect(word.signers["eip155:*"]).toHaveLength(MAX_TOLD);
    word.record({ finalRefusals: [NETWORK, 7, "x".repeat(999)] }, 8);
    expect(word.hasSigner(NETWORK, account(0))).toBe(false);
    expect([word.isFinal(NETWORK), word.isFinal("base"), word.heardMs]).toEqual([true, false, 8]);
    word.record({ finalRefusals: NETWORK }, 9);
    expect(word.isFinal(NETWORK)).toBe(false);
  });

  test("names Solana's accounts letter by letter", () => {
    const word = new FacilitatorWord();
    word.record({ signers: { "solana:*": ["AbC"] } }, 0);
    expect(word.hasSigner("solana", "AbC")).toBe(true);
    expect(word.hasSigner("solana", "abc")).toBe(false);
    expect(word.hasSigner(NETWORK, "AbC")).toBe(false);
  });
});

describe("what is learned of it", () => {
  test("makes room for what is newer, network by network", () => {
    const word = new FacilitatorWord();
    word.learn("base", account(0));
    for (const each of accounts(MAX_LEARNED)) word.learn(NETWORK, each);
    word.learn(NETWORK, account(0).toUpperCase().replace("X", "x"));
    word.learn(NETWORK, account(MAX_LEARNED));
    expect(word.hasSigner(NETWORK, account(0))).toBe(true);
    expect(word.hasSigner(NETWORK, account(1))).toBe(false);
    expect(word.hasSigner(NETWORK, account(MAX_LEARNED))).toBe(true);
    expect(word.hasSigner("base", account(0))).toBe(true);
  });

  test("begins with transactions that are read once, the latest first", () => {
    const word = new FacilitatorWord();
    for (let number = 0; number <= MAX_UNREAD; number += 1) word.remember(NETWORK, `0x${number}`);
    const unread = word.takeUnread(NETWORK);
    expect([unread.length, unread[0], unread.at(-1)]).toEqual([
      MAX_UNREAD,
      `0x${MAX_UNREAD}`,
      "0x1",
    ]);
    expect(word.takeUnread(NETWORK)).toEqual([]);
  });
});
