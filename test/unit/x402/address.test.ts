import * as fc from "fast-check";
import { getAddress } from "viem";
import { describe, expect, it } from "vitest";
import {
  checksumAddress,
  hasValidChecksum,
  isEvmAddress,
  sameAddress,
} from "../../../src/x402/address.ts";

const bytes20 = fc.uint8Array({ minLength: 20, maxLength: 20 });
const address = bytes20.map((bytes) => `0x${Buffer.from(bytes).toString("hex")}` as const);

describe("an EVM address", () => {
  it("has the EIP-55 spelling that viem gives it", () => {
    fc.assert(
      fc.property(address, (text) => {
        expect(checksumAddress(text)).toBe(getAddress(text));
      }),
      { numRuns: 2000 },
    );
  });

  it("has one spelling, whatever the letter case it came in", () => {
    fc.assert(
      fc.property(address, (text) => {
        const spelled = checksumAddress(text);
        const upper = `0x${text.slice(2).toUpperCase()}`;
        expect(checksumAddress(upper)).toBe(spelled);
        expect(checksumAddress(spelled)).toBe(spelled);
        expect(sameAddress(upper, spelled)).toBe(true);
        expect([text, upper, spelled].every(hasValidChecksum)).toBe(true);
      }),
    );
  });

  it("is a typing error where one letter of the checksummed spelling has the other case", () => {
    fc.assert(
      fc.property(address, fc.nat(39), (text, from) => {
        const spelled = checksumAddress(text);
        const swapped = swapCase(spelled, from);
        const digits = swapped.slice(2);
        const uniform = digits === digits.toLowerCase() || digits === digits.toUpperCase();
        expect(hasValidChecksum(swapped)).toBe(uniform || swapped === spelled);
      }),
    );
  });

  it.each([
    "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
    "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
    "0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
  ])("is spelled as in the text of EIP-55: %s", (text) => {
    expect(checksumAddress(text.toLowerCase())).toBe(text);
  });

  it.each([
    ["nothing", ""],
    ["only the prefix", "0x"],
    ["39 digits", `0x${"a".repeat(39)}`],
    ["41 digits", `0x${"a".repeat(41)}`],
    ["no prefix", "a".repeat(40)],
    ["a capital prefix", `0X${"a".repeat(40)}`],
    ["a letter beyond f", `0x${"g".repeat(40)}`],
    ["a line end", `0x${"a".repeat(40)}\n`],
    ["a space", ` 0x${"a".repeat(40)}`],
  ])("has not %s", (_, text) => {
    expect(isEvmAddress(text)).toBe(false);
  });

  it("is not the same as another one", () => {
    expect(sameAddress(`0x${"a".repeat(40)}`, `0x${"b".repeat(40)}`)).toBe(false);
  });
});

/** Swaps the case of the first letter at or after a digit. */
function swapCase(text: string, from: number): string {
  const head = text.slice(0, 2 + from);
  const swapped = text
    .slice(2 + from)
    .replace(/[a-f]/i, (letter) =>
      letter === letter.toLowerCase() ? letter.toUpperCase() : letter.toLowerCase(),
    );
  return head + swapped;
}
