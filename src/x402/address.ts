/**
 * EVM addresses: compared case-insensitively, written with the EIP-55 checksum. The checksum is what
 * catches a mistyped `payTo` before any buyer pays it.
 */
import { keccak256 } from "./keccak.ts";

const HEX_ADDRESS = /^0x[0-9a-fA-F]{40}$/;

export function isEvmAddress(text: string): boolean {
  return HEX_ADDRESS.test(text);
}

/** Spellings kept at most: those of the payers, payees and tokens that come again and again. */
const MAX_SPELLINGS = 4_096;
const spellings = new Map<string, string>();

/** EIP-55 spelling of an address; the input's letter case is ignored. */
export function checksumAddress(address: string): string {
  const known = spellings.get(address);
  if (known !== undefined) return known;
  const digits = address.slice(2).toLowerCase();
  const hash = keccak256(new TextEncoder().encode(digits));
  let spelled = "0x";
  for (let index = 0; index < digits.length; index += 1) {
    const byte = hash[index >> 1] ?? 0;
    const nibble = index % 2 === 0 ? byte >> 4 : byte & 0xf;
    const digit = digits.charAt(index);
    spelled += nibble >= 8 ? digit.toUpperCase() : digit;
  }

  if (spellings.size >= MAX_SPELLINGS) spellings.clear();
  spellings.set(address, spelled);
  return spelled;
}

/** False for an address in mixed case whose EIP-55 checksum does not fit: a typing error. */
export function hasValidChecksum(address: string): boolean {
  const digits = address.slice(2);
  const uniform = digits === digits.toLowerCase() || digits === digits.toUpperCase();
  return uniform || checksumAddress(address) === address;
}

export function sameAddress(left: string, right: string): boolean {
  return left.toLowerCase() === right.toLowerCase();
}
