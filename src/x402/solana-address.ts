/**
 * Base58, as Solana writes addresses, blockhashes and signatures (Bitcoin's alphabet, no checksum). Written
 * here since every payment brings a dozen values to spell: `@scure/base` takes more than ten times as long.
 */

const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
const LETTERS = Uint8Array.from(ALPHABET, (letter) => letter.charCodeAt(0));
/** By character code; -1 for what is no base58 letter. */
const VALUES = Int8Array.from({ length: 128 }, (_, code) =>
  ALPHABET.indexOf(String.fromCharCode(code)),
);
const ZERO_LETTER = 49;

/** Letters that are worked on together: as many as leave the product of a group and 16 bits exact. */
const GROUP_LETTERS = 5;
const GROUP = 58 ** GROUP_LETTERS;
/** log(256) / log(58), rounded up: base58 letters that one byte takes at most. */
const LETTERS_PER_BYTE = 1.37;

/** Bytes of a public key, and of a blockhash. */
export const ADDRESS_BYTES = 32;

/** Room for the groups and letters of one value, reused: whole groups of letters for 128 bytes. */
const ROOM_BYTES = 128;
const ROOM_GROUPS = Math.ceil((ROOM_BYTES * LETTERS_PER_BYTE) / GROUP_LETTERS);
const groups = new Float64Array(ROOM_GROUPS);
const letters = Buffer.alloc(ROOM_GROUPS * GROUP_LETTERS + ROOM_BYTES);

/** The base58 spelling of a value of at most 128 bytes (an address, a signature). */
export function encodeBase58(bytes: Uint8Array): string {
  if (bytes.length > ROOM_BYTES) throw new RangeError(`base58 of more than ${ROOM_BYTES} bytes`);
  const count = fillGroups(bytes);
  let at = letters.length;
  for (let group = 0; group < count; group += 1) {
    let rest = Math.trunc(groups[group] ?? 0);
    for (let letter = 0; letter < GROUP_LETTERS; letter += 1) {
      const higher = Math.trunc(rest / ALPHABET.length);
      at -= 1;
      letters[at] = LETTERS[rest - higher * ALPHABET.length] ?? 0;
      rest = higher;
    }
  }
  while (letters[at] === ZERO_LETTER) at += 1;
  for (let index = 0; index < bytes.length && bytes[index] === 0; index += 1) {
    at -= 1;
    letters[at] = ZERO_LETTER;
  }
  return letters.toString("latin1", at);
}

/** Fills `groups` with the number in base 58^5, least significant first, and says how many there are. */
function fillGroups(bytes: Uint8Array): number {
  let count = 0;
  for (let index = 0; index < bytes.length; index += 2) {
    const isPair = index + 1 < bytes.length;
    const byte = bytes[index] ?? 0;
    let carry = isPair ? byte * 256 + (bytes[index + 1] ?? 0) : byte;
    const scale = isPair ? 65_536 : 256;
    for (let group = 0; group < count; group += 1) {
      const value = (groups[group] ?? 0) * scale + carry;
      carry = Math.floor(value / GROUP);
      groups[group] = value - carry * GROUP;
    }
    if (carry > 0) {
      groups[count] = carry;
      count += 1;
    }
  }
  return count;
}

/** Exactly `length` bytes, or undefined: there is one spelling for each value, and no other is read. */
export function decodeBase58(text: string, length: number): Uint8Array | undefined {
  if (text.length > Math.ceil(length * LETTERS_PER_BYTE)) return undefined;
  const bytes = new Uint8Array(length);
  for (let index = 0; index < text.length; index += 1) {
    let carry = VALUES[text.charCodeAt(index)] ?? -1;
    if (carry < 0) return undefined;
    for (let position = length - 1; position >= 0; position -= 1) {
      const value = (bytes[position] ?? 0) * ALPHABET.length + carry;
      bytes[position] = value & 0xff;
      carry = value >> 8;
    }
    if (carry > 0) return undefined;
  }
  return countLeading(bytes) === countOnes(text) ? bytes : undefined;
}

function countLeading(bytes: Uint8Array): number {
  const first = bytes.findIndex((byte) => byte !== 0);
  return first < 0 ? bytes.length : first;
}

function countOnes(text: string): number {
  let count = 0;
  while (text.charCodeAt(count) === ZERO_LETTER) count += 1;
  return count;
}

/** Whether a text is the base58 of 32 bytes; that somebody holds a key to it is not said. */
export function isSolanaAddress(text: string): boolean {
  return decodeBase58(text, ADDRESS_BYTES) !== undefined;
}
