/**
 * The creation of the payee's token account (V22): a payer who is the first to pay somebody in a token may
 * make room for it in the same transaction, at the payer's own cost.
 */

import type { Found } from "./message.ts";
import { SYSTEM_PROGRAM } from "./programs.ts";

/** What a creation has to create. Addresses in base58. */
export interface Creation {
  readonly payer: string;
  readonly payTo: string;
  readonly asset: string;
  readonly tokenProgram: string;
  /** payTo's associated account for the asset. */
  readonly destination: string;
}

/**
 * The first fault of a message's account creations, a sentence. A second creation of the same account is as
 * harmless as the first, or fails, so they are not counted.
 */
export function creationFault(
  creations: readonly Found[],
  { payer, payTo, asset, tokenProgram, destination }: Creation,
): string | undefined {
  const wanted: readonly (readonly [name: string, address: string])[] = [
    ["the funder", payer],
    ["the new account", destination],
    ["its owner", payTo],
    ["the mint", asset],
    ["the System program", SYSTEM_PROGRAM],
    ["the token program", tokenProgram],
  ];
  for (const { index, accounts } of creations) {
    const what = `instructions[${index}], which creates a token account,`;
    if (accounts.length !== wanted.length) {
      return `${what} has ${accounts.length} accounts; exactly ${wanted.length} are allowed`;
    }
    for (const [place, [name, address]] of wanted.entries()) {
      if (accounts[place] !== address) {
        return `${what} has ${accounts[place]} for ${name}; only ${address} is allowed`;
      }
    }
  }
  return undefined;
}
