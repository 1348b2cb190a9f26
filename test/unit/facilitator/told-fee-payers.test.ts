import { expect, test } from "vitest";
import { MAX_REMEMBERED, ToldFeePayers } from "../../../src/facilitator/told-fee-payers.ts";
import {
  addressOf,
  FEE_PAYER,
  kindOf,
  NETWORK,
  OTHER_FEE_PAYER,
} from "../payments/sale/solana-payment.ts";

test("a facilitator that was never asked has told nothing about any account", () => {
  const told = new ToldFeePayers();
  expect(told.current(NETWORK)).toBeUndefined();
  expect(told.has(NETWORK, FEE_PAYER)).toBeUndefined();
});

test("the last answer counts for buyers, and every answer for their payments", () => {
  const told = new ToldFeePayers();
  told.record([kindOf(FEE_PAYER)]);
  told.record([kindOf(OTHER_FEE_PAYER)]);
  expect(told.current(NETWORK)).toBe(OTHER_FEE_PAYER);
  expect(told.has(NETWORK, FEE_PAYER)).toBe(true);
  expect(told.has(NETWORK, OTHER_FEE_PAYER)).toBe(true);
  expect(told.has(NETWORK, addressOf(9))).toBe(false);
  expect(told.has("solana", FEE_PAYER)).toBeUndefined();
});

test("the first of several accounts in one answer is told to buyers", () => {
  const told = new ToldFeePayers();
  told.record([kindOf(FEE_PAYER), kindOf(OTHER_FEE_PAYER), kindOf(addressOf(9), "solana")]);
  expect(told.current(NETWORK)).toBe(FEE_PAYER);
  expect(told.has(NETWORK, OTHER_FEE_PAYER)).toBe(true);
  expect(told.current("solana")).toBe(addressOf(9));
});

test("an answer without the network takes the offer back, and not the memory", () => {
  const told = new ToldFeePayers();
  told.record([kindOf(FEE_PAYER)]);
  told.record([kindOf(OTHER_FEE_PAYER, "solana")]);
  expect(told.current(NETWORK)).toBeUndefined();
  expect(told.has(NETWORK, FEE_PAYER)).toBe(true);
});

test.each([
  ["of another version", { ...kindOf(FEE_PAYER), x402Version: 2 }],
  ["of another scheme", { ...kindOf(FEE_PAYER), scheme: "upto" }],
  ["of an EVM network", kindOf(FEE_PAYER, "base")],
  ["of a network that is not the protocol's", kindOf(FEE_PAYER, "solana:EtWTRABZaYq6iMfeYKou")],
  ["without extra", { x402Version: 1, scheme: "exact", network: NETWORK }],
  ["that is no address", kindOf('"/><script>')],
  ["that is an EVM address", kindOf(`0x${"ab".repeat(20)}`)],
  ["that is no text", { ...kindOf(FEE_PAYER), extra: { feePayer: 7 } }],
])("a fee payer %s is none", (_, kind) => {
  const told = new ToldFeePayers();
  told.record([kind]);
  expect([told.current(NETWORK), told.current(kind.network)]).toEqual([undefined, undefined]);
  expect(told.has(NETWORK, FEE_PAYER)).toBeUndefined();
});

test("of more accounts than anybody has, those told last are remembered", () => {
  const told = new ToldFeePayers();
  told.record([kindOf(addressOf(1))]);
  told.record([kindOf(addressOf(2))]);
  for (let byte = 3; byte < MAX_REMEMBERED + 2; byte += 1) {
    told.record([kindOf(addressOf(1)), kindOf(addressOf(byte))]);
  }
  expect(told.has(NETWORK, addressOf(1))).toBe(true);
  expect(told.has(NETWORK, addressOf(2))).toBe(false);
  expect(told.has(NETWORK, addressOf(MAX_REMEMBERED + 1))).toBe(true);
});
