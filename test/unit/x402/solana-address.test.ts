import * as fc from "fast-check";
import { getBase58Decoder, getBase58Encoder } from "@solana/kit";
import { describe, expect, test } from "vitest";
import { decodeBase58, encodeBase58, isSolanaAddress } from "../../../src/x402/solana-address.ts";

const reference = { spell: getBase58Decoder(), read: getBase58Encoder() };
const USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v";
const SYSTEM_PROGRAM = "1".repeat(32);
/** Zeros in front are what base58 treats apart. */
const bytes = (maxLength: number): fc.Arbitrary<Uint8Array> =>
  fc
    .tuple(fc.nat(4), fc.uint8Array({ maxLength: maxLength - 4 }))
    .map(([zeros, rest]) => new Uint8Array([...new Uint8Array(zeros), ...rest]));

describe("base58", () => {
  test("is spelled as a general implementation spells it, whatever the length", () => {
    fc.assert(
      fc.property(bytes(128), (value) => {
        expect(encodeBase58(value)).toBe(reference.spell.decode(value));
      }),
      { numRuns: 2_000 },
    );
    for (const length of [0, 1, 31, 32, 33, 64, 128]) {
      for (const byte of [0, 1, 255]) {
        const value = new Uint8Array(length).fill(byte);
        expect(encodeBase58(value)).toBe(reference.spell.decode(value));
      }
    }
  });

  test("is read as it is spelled", () => {
    fc.assert(
      fc.property(bytes(80), (value) => {
        expect(decodeBase58(encodeBase58(value), value.length)).toEqual(value);
      }),
      { numRuns: 2_000 },
    );
  });

  test("is read by the rules of a general implementation", () => {
    const texts = fc.stringMatching(/^[1-9A-HJ-NP-Za-km-z]{30,46}$/);
    fc.assert(
      fc.property(texts, (text) => {
        const value = Uint8Array.from(reference.read.encode(text));
        expect(decodeBase58(text, 32)).toEqual(value.length === 32 ? value : undefined);
      }),
      { numRuns: 2_000 },
    );
  });

  test("has no other letters, wherever they stand", () => {
    const letters = /^[1-9A-HJ-NP-Za-km-z]$/;
    for (let code = 0; code < 0x180; code += 1) {
      const letter = String.fromCharCode(code);
      for (const place of [0, 1, 20, 42, 43]) {
        const text = USDC.slice(0, place) + letter + USDC.slice(place + 1);
        if (!letters.test(letter)) expect(decodeBase58(text, 32), text).toBe(undefined);
      }
    }
  });

  test("has one spelling for each value", () => {
    expect(decodeBase58(`1${USDC}`, 32)).toBe(undefined);
    expect(decodeBase58(USDC, 31)).toBe(undefined);
    expect(decodeBase58(USDC, 33)).toBe(undefined);
    const largest = encodeBase58(new Uint8Array(32).fill(255));
    expect(decodeBase58(largest, 32)).toEqual(new Uint8Array(32).fill(255));
    const [nextLetter] = [largest.slice(0, -1) + String.fromCharCode(largest.charCodeAt(43) + 1)];
    expect(decodeBase58(nextLetter, 32)).toBe(undefined);
  });

  test("refuses a value that is too long for it", () => {
    expect(() => encodeBase58(new Uint8Array(129))).toThrow(RangeError);
  });
});

describe("an address", () => {
  test.each([USDC, SYSTEM_PROGRAM, "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA"])(
    "is 32 bytes in base58: %s",
    (text) => {
      expect(isSolanaAddress(text)).toBe(true);
    },
  );

  test.each([
    ["nothing", ""],
    ["two letters less", USDC.slice(2)],
    ["a letter more", `${USDC}1`],
    ["a one more in front", `1${SYSTEM_PROGRAM}`],
    ["a zero", USDC.replace("E", "0")],
    ["a capital O", USDC.replace("E", "O")],
    ["a capital I", USDC.replace("E", "I")],
    ["a small l", USDC.replace("E", "l")],
    ["a space", ` ${USDC.slice(1)}`],
    ["a line break behind it", `${USDC}\n`],
    ["a letter of another script", USDC.replace("E", "Е")],
    ["an EVM address", "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"],
    ["a great many letters", "1".repeat(1_000_000)],
  ])("is not: %s", (_, text) => {
    expect(isSolanaAddress(text)).toBe(false);
  });
});
