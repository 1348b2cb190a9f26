/** How amounts are told to people. */
import { expect, test } from "vitest";
import { networkOf } from "../../../src/x402/network.ts";
import { unitsText } from "../../../src/x402/token.ts";

const { address: usdc } = networkOf("base-sepolia").asset;
const { address: mint } = networkOf("solana").asset;
const other = `0x${"42".repeat(20)}`;

test.each([
  [[10_000n], { address: usdc }, "10000 atomic units ($0.01)"],
  [[0n, 10_000n], { address: usdc.toLowerCase() }, "0 of 10000 atomic units ($0 of $0.01)"],
  [[1n], { address: mint, symbol: "MINE", decimals: 2 }, "1 atomic units ($0.000001)"],
  [[12_345n], { address: other, symbol: "EURC", decimals: 2 }, "12345 atomic units (123.45 EURC)"],
  [[77n], { address: other, symbol: "", decimals: 0 }, "77 atomic units"],
  [[77n], { address: other }, "77 atomic units"],
] as const)("%s of %o are told as %s", (amounts, token, text) => {
  expect(unitsText(amounts, token)).toBe(text);
});
