/**
 * Wallets that take any signature for good as long as they believe that they are only simulated (ERC-1271),
 * and in a block loop until the gas is gone.
 */
import type { Address, Hex } from "viem";

/** By what a wallet tells a block from a simulation: the transaction's origin or gas price, or a sign of its owner's. */
export type Tell = "origin" | "gas price" | { readonly sign: Address };

/** Runtime code; with a `sign`, the wallet burns as soon as there is code at that address. */
export function twoFacedCode(tell: Tell): Hex {
  const asked = tell === "origin" ? "32" : tell === "gas price" ? "3a" : signed(tell.sign);
  const loop = asked.length / 2 + 4;
  const code = [
    asked,
    `1560${byte(loop + 4)}57`, // nothing to see: be honest
    `5b60${byte(loop)}56`, //     else loop for ever
    "5b631626ba7e60e01b60005260206000f3",
  ];
  return `0x${code.join("")}`;
}

/** What makes an EOA run the code at an address (EIP-7702). */
export function delegation(to: Address): Hex {
  return `0xef0100${to.slice(2).toLowerCase()}`;
}

/** Code that loops for ever, whoever asks. */
export const LOOP: Hex = "0x5b600056";

function signed(address: Address): string {
  return `73${address.slice(2).toLowerCase()}3b`;
}

function byte(value: number): string {
  return value.toString(16).padStart(2, "0");
}
