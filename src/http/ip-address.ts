/**
 * IP addresses as numbers: strict reading without allocation, and one spelling for each address. IPv4 stands
 * where IPv6 maps it, so that `192.0.2.1` and `::ffff:192.0.2.1` are one address.
 */

/** Four 32-bit words, the most significant first. */
export type IpWords = Uint32Array;

/** Third word of an IPv4 address as IPv6 maps it (RFC 4291 section 2.5.5.2); the first two are 0. */
const MAPPED = 0xffff;
const GROUPS = 8;

const COLON = 0x3a;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const LETTER_A = 0x61;

export function isIpv4(words: IpWords): boolean {
  return words[0] === 0 && words[1] === 0 && words[2] === MAPPED;
}

/**
 * Reads `192.0.2.1`, `2001:db8::1` or `::ffff:192.0.2.1` into `words`. False, with `words` undefined, for
 * everything else: zones, brackets, leading zeros of IPv4, blanks.
 */
export function readIp(text: string, words: IpWords): boolean {
  if (!text.includes(":")) {
    const number = readIpv4(text, 0);
    if (number < 0) return false;
    setMapped(words, number);
    return true;
  }
  return readIpv6(text, words);
}

const network: IpWords = new Uint32Array(4);

/** The network that a client may move within, as text: of IPv6 the first 64 bits; else the address itself. */
export function networkOf(address: string): string {
  if (!address.includes(":") || !readIp(address, network) || isIpv4(network)) return address;
  return `${network[0]?.toString(16)}:${network[1]?.toString(16)}/64`;
}

/** Of addresses that often belong to one owner, as text: of IPv6 the first 48 bits, of IPv4 the first 24. */
export function neighbourhoodOf(address: string): string {
  if (!readIp(address, network)) return address;
  if (isIpv4(network)) return `${writeIpv4((network[3] ?? 0) & 0xffffff00)}/24`;
  return `${network[0]?.toString(16)}:${((network[1] ?? 0) >>> 16).toString(16)}/48`;
}

function setMapped(words: IpWords, number: number): void {
  words[0] = 0;
  words[1] = 0;
  words[2] = MAPPED;
  words[3] = number;
}

/** Dotted decimal from `start` to the end; -1 when it is none. */
function readIpv4(text: string, start: number): number {
  let number = 0;
  let index = start;
  for (let part = 0; part < 4; part += 1) {
    if (part > 0) {
      if (text.charCodeAt(index) !== DOT) return -1;
      index += 1;
    }
    const end = endOfDigits(text, index);
    const octet = readOctet(text, index, end);
    if (octet < 0) return -1;
    number = number * 256 + octet;
    index = end;
  }
  return index === text.length ? number : -1;
}

function endOfDigits(text: string, start: number): number {
  let index = start;
  while (index < text.length && isDigit(text.charCodeAt(index))) index += 1;
  return index;
}

function readOctet(text: string, start: number, end: number): number {
  const length = end - start;
  // A leading zero would be octal to some.
  const hasLeadingZero = length > 1 && text.charCodeAt(start) === ZERO;
  if (length === 0 || length > 3 || hasLeadingZero) return -1;
  let octet = 0;
  for (let index = start; index < end; index += 1) {
    octet = octet * 10 + text.charCodeAt(index) - ZERO;
  }
  return octet > 255 ? -1 : octet;
}

/** The groups of the address being read; nothing is read while another one is. */
const groups = new Uint16Array(GROUPS);

/** RFC 4291 section 2.2. */
function readIpv6(text: string, words: IpWords): boolean {
  const gap = text.indexOf("::");
  if (gap === -1) {
    if (readGroups(text, 0, text.length, 0) !== GROUPS) return false;
    spread(words, GROUPS, GROUPS);
    return true;
  }
  if (text.includes("::", gap + 1)) return false;
  const left = readGroups(text, 0, gap, 0);
  const right = left < 0 ? -1 : readGroups(text, gap + 2, text.length, left);
  // "::" stands for one group at least.
  if (right < 0 || left + right === GROUPS) return false;
  spread(words, left + right, left);
  return true;
}

/** How many groups there are from `start` to `end`; -1: something else. They are kept from `first` on. */
function readGroups(text: string, start: number, end: number, first: number): number {
  let count = 0;
  let index = start;
  while (index < end || count > 0) {
    const stop = endOfGroup(text, index);
    if (text.charCodeAt(stop) === DOT) {
      const isRead = end === text.length && readTail(text, index, first + count);
      return isRead ? count + 2 : -1;
    }
    if (stop === index || stop - index > 4 || first + count === GROUPS) return -1;
    groups[first + count] = readGroup(text, index, stop);
    count += 1;
    if (stop === end) break;
    if (text.charCodeAt(stop) !== COLON) return -1;
    index = stop + 1;
  }
  return count;
}

/** The last two groups, written as an IPv4 address. */
function readTail(text: string, start: number, first: number): boolean {
  const number = first > GROUPS - 2 ? -1 : readIpv4(text, start);
  if (number < 0) return false;
  groups[first] = number >>> 16;
  groups[first + 1] = number & 0xffff;
  return true;
}

function endOfGroup(text: string, start: number): number {
  let index = start;
  while (index < text.length && isHex(text.charCodeAt(index))) index += 1;
  return index;
}

function readGroup(text: string, start: number, end: number): number {
  let group = 0;
  for (let index = start; index < end; index += 1) {
    const code = text.charCodeAt(index);
    group = group * 16 + (isDigit(code) ? code - ZERO : (code | 0x20) - LETTER_A + 10);
  }
  return group;
}

function isDigit(code: number): boolean {
  return code >= ZERO && code <= NINE;
}

function isHex(code: number): boolean {
  const lower = code | 0x20;
  return isDigit(code) || (lower >= LETTER_A && lower <= LETTER_A + 5);
}

/** Puts the groups that were read into words, with zeros behind the first `left` of them. */
function spread(words: IpWords, count: number, left: number): void {
  const zeros = GROUPS - count;
  words.fill(0);
  for (let index = 0; index < count; index += 1) {
    const place = index < left ? index : index + zeros;
    const word = place >> 1;
    const group = groups[index] ?? 0;
    words[word] = (words[word] ?? 0) | (place % 2 === 0 ? group << 16 : group);
  }
}

/** The one spelling: dotted decimal where it is IPv4, else RFC 5952. */
export function writeIp(words: IpWords): string {
  if (isIpv4(words)) return writeIpv4(words[3] ?? 0);
  const parts = Array.from(words).flatMap((word) => [word >>> 16, word & 0xffff]);
  const { start, length } = longestZeros(parts);
  const hex = parts.map((part) => part.toString(16));
  if (length < 2) return hex.join(":");
  return `${hex.slice(0, start).join(":")}::${hex.slice(start + length).join(":")}`;
}

function writeIpv4(number: number): string {
  return `${number >>> 24}.${(number >>> 16) & 255}.${(number >>> 8) & 255}.${number & 255}`;
}

function longestZeros(parts: readonly number[]): { start: number; length: number } {
  let best = { start: 0, length: 0 };
  let length = 0;
  for (const [index, part] of parts.entries()) {
    length = part === 0 ? length + 1 : 0;
    if (length > best.length) best = { start: index - length + 1, length };
  }
  return best;
}

/** The mask of one 32-bit word of which the `bits` leading bits count; less than 1: none, more than 31: all. */
export function maskOf(bits: number): number {
  if (bits <= 0) return 0;
  return bits >= 32 ? 0xffffffff : (0xffffffff << (32 - bits)) >>> 0;
}
