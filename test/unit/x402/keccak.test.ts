import { keccak256 as keccakOfViem } from "viem/utils";
import { expect, test } from "vitest";
import { keccak256 } from "../../../src/x402/keccak.ts";

/** Below, at and above one block of 136 bytes, and several of them. */
const LENGTHS = [0, 1, 32, 64, 135, 136, 137, 271, 272, 273, 5_000, 100_000];

test.each(LENGTHS)("%d bytes have the hash that viem gives them", (length) => {
  const bytes = Uint8Array.from({ length }, (_, index) => (index * 31 + length) & 255);
  expect(`0x${Buffer.from(keccak256(bytes)).toString("hex")}`).toBe(keccakOfViem(bytes));
});

test("the hash of nothing is the one that everybody knows (Yellow Paper, appendix)", () => {
  const known = "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470";
  expect(Buffer.from(keccak256(new Uint8Array())).toString("hex")).toBe(known);
});

test("a hash is the caller's own: the next one does not change it", () => {
  const first = keccak256(Uint8Array.of(1));
  const copy = Uint8Array.from(first);
  keccak256(Uint8Array.of(2));
  expect(first).toEqual(copy);
});

test("a part of a larger buffer is hashed by itself", () => {
  const whole = Buffer.from("abcdef");
  expect(keccak256(whole.subarray(2, 4))).toEqual(keccak256(Buffer.from("cd")));
});
