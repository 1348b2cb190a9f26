/** Derived token accounts, compared with an independent derivation. */
import { address, getAddressEncoder, getProgramDerivedAddress } from "@solana/kit";
import { expect, test } from "vitest";
import { associatedAccount } from "../../../../src/mechanism/solana/associated-account.ts";
import {
  ASSOCIATED_TOKEN_PROGRAM,
  TOKEN_2022_PROGRAM,
  TOKEN_PROGRAM,
} from "../../../../src/mechanism/solana/programs.ts";
import { testKey, USDC } from "../../../support/solana-messages.ts";

async function derivedByKit(owner: string, mint: string, program: string): Promise<string> {
  const encoder = getAddressEncoder();
  const [derived] = await getProgramDerivedAddress({
    programAddress: address(ASSOCIATED_TOKEN_PROGRAM),
    seeds: [owner, program, mint].map((seed) => encoder.encode(address(seed))),
  });
  return derived;
}

test("it is the one that everybody derives, for either token program and any owner", async () => {
  const wallets = Array.from({ length: 20 }, (_, index) => testKey(index + 1).address);
  const ofProgram = associatedAccount(testKey(1).address, USDC, TOKEN_PROGRAM);
  for (const owner of [...wallets, ofProgram]) {
    for (const program of [TOKEN_PROGRAM, TOKEN_2022_PROGRAM]) {
      const expected = await derivedByKit(owner, USDC, program);
      expect(associatedAccount(owner, USDC, program)).toBe(expected);
      // From the second time on it is remembered, and still the same.
      expect(associatedAccount(owner, USDC, program)).toBe(expected);
    }
  }
});

test("owner, mint and program each make another account", () => {
  const owner = testKey(1).address;
  const other = testKey(2).address;
  const accounts = [
    associatedAccount(owner, USDC, TOKEN_PROGRAM),
    associatedAccount(other, USDC, TOKEN_PROGRAM),
    associatedAccount(owner, other, TOKEN_PROGRAM),
    associatedAccount(other, owner, TOKEN_PROGRAM),
    associatedAccount(owner, USDC, TOKEN_2022_PROGRAM),
  ];
  expect(new Set(accounts).size).toBe(accounts.length);
});
