/**
 * What the chain asks of an Ed25519 signature besides that it is good (`verify_strict` of ed25519-dalek): no
 * point of small order, and nothing in a second spelling. Libraries differ in how much of it they ask.
 */

/** Bytes of an encoded point. */
const POINT_BYTES = 32;
/** A point, the commitment, and a number. */
const SIGNATURE_BYTES = 64;
/** The order of the group, what the number stays below (RFC 8032, section 5.1.7). */
const GROUP_ORDER = 2n ** 252n + 27_742_317_777_372_353_535_851_937_790_883_648_493n;
/** The prime of the field: a coordinate that reaches it is the second spelling of a smaller one. */
const FIELD_PRIME = 2n ** 255n - 19n;
/** The highest bit of an encoded point is the sign of its other coordinate. */
const SIGN_BIT = 0x80;
/**
 * Points of small order, by their encodings without the sign. A signature made with them can be good for
 * anybody's message. Two more encodings, of seven in all, are spelled beyond the prime.
 */
const SMALL_ORDER: ReadonlySet<string> = new Set([
  "0000000000000000000000000000000000000000000000000000000000000000",
  "0100000000000000000000000000000000000000000000000000000000000000",
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]);

/** Whether 64 bytes may be a signature; whose, and of what, is not looked at. */
export function isStrictSignature(signature: Uint8Array): boolean {
  return (
    signature.length === SIGNATURE_BYTES &&
    isStrictPoint(signature.subarray(0, POINT_BYTES)) &&
    littleEndian(signature.subarray(POINT_BYTES)) < GROUP_ORDER
  );
}

/** Whether 32 bytes may be a key, or a commitment; whether they are on the curve is not looked at. */
export function isStrictPoint(encoded: Uint8Array): boolean {
  if (encoded.length !== POINT_BYTES) return false;
  const unsigned = Buffer.from(encoded);
  const last = POINT_BYTES - 1;
  unsigned[last] = unsigned.readUInt8(last) & ~SIGN_BIT;
  return littleEndian(unsigned) < FIELD_PRIME && !SMALL_ORDER.has(unsigned.toString("hex"));
}

function littleEndian(bytes: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(bytes.toReversed()).toString("hex")}`);
}
