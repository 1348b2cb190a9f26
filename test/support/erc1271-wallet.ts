/**
 * The smallest honest smart wallet: real EVM code whose `isValidSignature(bytes32,bytes)` (ERC-1271)
 * accepts a 65-byte signature of its one owner and nothing else. It answers every call this way, holds
 * no storage and cannot spend on its own, which is all that a payer by EIP-3009 needs.
 */
import type { Address, Hex } from "viem";

/** `bytes4(keccak256("isValidSignature(bytes32,bytes)"))`, which is also the answer "valid". */
const MAGIC = "1626ba7e";

/** Runtime code of a wallet owned by `owner`; install it with `anvil_setCode`. */
export function walletCode(owner: Address): Hex {
  // Call data: 0x04 hash, 0x24 offset (0x40), 0x44 length, 0x64 r, 0x84 s, 0xa4 v and padding.
  const code = [
    "600435600052", //         mem[0x00] = hash
    "60a43560001a602052", //   mem[0x20] = byte 0 of the word at 0xa4: v
    "606435604052", //         mem[0x40] = r
    "608435606052", //         mem[0x60] = s
    "6020608060806000", //     answer to mem[0x80..0xa0], question in mem[0x00..0x80]
    "60015afa50", //           static call of ecrecover; a bad signature leaves mem[0x80] zero
    `608051${push20(owner)}14`, // recovered == owner
    "604435604114", //         length == 65
    "16", //                   and
    `63${MAGIC}02`, //         times the magic value: 0 when refused
    "60e01b", //               moved to the left end of the word, as bytes4 is
    "60005260206000f3", //     return it
  ];
  return `0x${code.join("")}`;
}

function push20(address: Address): string {
  return `73${address.slice(2).toLowerCase()}`;
}
