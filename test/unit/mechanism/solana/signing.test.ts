/** Keys and signatures, by the vectors of RFC 8032 and by another implementation. */
import { createHash } from "node:crypto";
import { createKeyPairFromBytes, getAddressFromPublicKey, signBytes } from "@solana/kit";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  isSignedBy,
  Keypair,
  withFirstSignature,
} from "../../../../src/mechanism/solana/signing.ts";
import {
  isStrictPoint,
  isStrictSignature,
} from "../../../../src/mechanism/solana/strict-signature.ts";
import { ADDRESS_BYTES, decodeBase58, encodeBase58 } from "../../../../src/x402/solana-address.ts";
import { readSolanaTransaction } from "../../../../src/x402/solana-transaction.ts";
import {
  buildTransaction,
  layOut,
  somePayment,
  testKey,
} from "../../../support/solana-messages.ts";

const bytes = (hex: string): Uint8Array => Uint8Array.from(Buffer.from(hex, "hex"));

/** RFC 8032, section 7.1, tests 1 to 3, by the length of their messages. */
const EMPTY = {
  seed: bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"),
  key: bytes("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"),
  message: bytes(""),
  signature: bytes(
    "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
  ),
};
const ONE_BYTE = {
  seed: bytes("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"),
  key: bytes("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"),
  message: bytes("72"),
  signature: bytes(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
  ),
};
const TWO_BYTES = {
  seed: bytes("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"),
  key: bytes("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"),
  message: bytes("af82"),
  signature: bytes(
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
  ),
};
const VECTORS = [EMPTY, ONE_BYTE, TWO_BYTES];

const ORDER = (1n << 252n) + 27_742_317_777_372_353_535_851_937_790_883_648_493n;
/** Every encoding of a point of small order, without its sign: the last two are beyond the prime. */
const SMALL_ORDER = [
  "00".repeat(32),
  `01${"00".repeat(31)}`,
  "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
  "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
  `ec${"ff".repeat(30)}7f`,
  `ed${"ff".repeat(30)}7f`,
  `ee${"ff".repeat(30)}7f`,
];

/** A key, and the number that it is a multiple of (RFC 8032, section 5.1.5). */
function secretScalar(seed: Uint8Array): { key: Uint8Array; scalar: bigint } {
  const half = createHash("sha512").update(seed).digest().subarray(0, 32);
  half[0] = (half[0] ?? 0) & 248;
  half[31] = ((half[31] ?? 0) & 127) | 64;
  return { key: publicKeyOf(new Keypair(seed)), scalar: fromLittleEndian(half) };
}

/** The challenge of a signature (RFC 8032, section 5.1.6). */
function hashed(...parts: readonly Uint8Array[]): bigint {
  const hash = createHash("sha512");
  for (const part of parts) hash.update(part);
  return fromLittleEndian(hash.digest()) % ORDER;
}

function fromLittleEndian(value: Uint8Array): bigint {
  return BigInt(`0x${Buffer.from(value.toReversed()).toString("hex")}`);
}

function littleEndian(value: bigint): Uint8Array {
  return bytes(value.toString(16).padStart(64, "0")).toReversed();
}

describe("a key pair", () => {
  test("signs as the standard says, from a seed or from a whole key file", () => {
    for (const { seed, key, message, signature } of VECTORS) {
      for (const secret of [seed, Buffer.concat([seed, key])]) {
        const pair = new Keypair(secret);
        expect(pair.address).toBe(encodeBase58(key));
        expect(Uint8Array.from(pair.sign(message))).toEqual(signature);
      }
    }
  });

  test("is refused with another length, or another's public key, and does not tell its secret", () => {
    const { seed, key } = EMPTY;
    expect(() => new Keypair(seed.slice(1))).toThrow(/has 64 bytes, or 32 .* this one has 31/);
    expect(() => new Keypair(Buffer.concat([seed, key, key]))).toThrow(/this one has 96/);
    expect(() => new Keypair(new Uint8Array(0))).toThrow(/this one has 0/);
    expect(() => new Keypair(Buffer.concat([seed, ONE_BYTE.key]))).toThrow(
      /must be the public key of its first 32 bytes/,
    );
    expect(JSON.stringify(new Keypair(seed))).toBe(`{"address":"${encodeBase58(key)}"}`);
  });
});

describe("a signature", () => {
  test("is known as its signer's, and as nobody else's", () => {
    for (const { key, message, signature } of VECTORS) {
      const address = encodeBase58(key);
      expect(isSignedBy(message, signature, address)).toBe(true);
      expect(isSignedBy(message, signature, address)).toBe(true);
      expect(isSignedBy(Buffer.concat([message, key]), signature, address)).toBe(false);
      expect(isSignedBy(message, signature, testKey(1).address)).toBe(false);
      expect(isSignedBy(message, new Uint8Array(64), address)).toBe(false);
    }
  });

  test("of another length, or by what is no address, is nobody's", () => {
    const { key, message, signature } = EMPTY;
    for (const other of [signature.slice(1), Buffer.concat([signature, key]), new Uint8Array(0)]) {
      expect(isSignedBy(message, other, encodeBase58(key))).toBe(false);
    }
    for (const address of ["", "11", "not an address", "0".repeat(44)]) {
      expect(isSignedBy(message, signature, address)).toBe(false);
    }
    // 32 bytes, but no point of the curve.
    expect(isSignedBy(message, signature, encodeBase58(new Uint8Array(32).fill(2)))).toBe(false);
  });

  test("with the same value in another spelling is refused", () => {
    const { key, message, signature } = EMPTY;
    const [commitment, scalar] = [signature.slice(0, 32), signature.slice(32).toReversed()];
    const added = BigInt(`0x${Buffer.from(scalar).toString("hex")}`) + ORDER;
    const spelled = bytes(added.toString(16).padStart(64, "0")).toReversed();
    const other = Buffer.concat([commitment, spelled]);
    expect(isSignedBy(message, other, encodeBase58(key))).toBe(false);
  });

  test("by a key or with a commitment of small order is refused, in every spelling", () => {
    const { message, key, signature } = ONE_BYTE;
    const signer = secretScalar(new Uint8Array(32).fill(78));
    expect([isStrictPoint(key), isStrictSignature(signature)]).toEqual([true, true]);
    for (const encoded of SMALL_ORDER) {
      for (const sign of [0, 0x80]) {
        const point = bytes(encoded);
        point[31] = (point[31] ?? 0) | sign;
        expect(isStrictPoint(point)).toBe(false);
        // The number that goes with such a commitment: the challenge times the key's, with nothing added.
        const challenge = hashed(point, signer.key, message);
        const number = littleEndian((challenge * signer.scalar) % ORDER);
        const forged = Buffer.concat([point, number]);
        expect(isStrictSignature(forged)).toBe(false);
        expect(isSignedBy(message, forged, encodeBase58(signer.key))).toBe(false);
        // With such a key, any key and its own number are a commitment and the number for it.
        const byKey = Buffer.concat([signer.key, littleEndian(signer.scalar % ORDER)]);
        expect(isSignedBy(message, byKey, encodeBase58(point))).toBe(false);
      }
    }
  });

  test("whose commitment, key or number is spelled beyond its limit is refused", () => {
    const { signature } = EMPTY;
    for (let beyond = 0; beyond < 19; beyond += 1) {
      for (const last of [0x7f, 0xff]) {
        const point = new Uint8Array(32).fill(0xff);
        [point[0], point[31]] = [0xed + beyond, last];
        expect(isStrictPoint(point)).toBe(false);
        expect(isStrictSignature(Buffer.concat([point, signature.subarray(32)]))).toBe(false);
      }
    }
    const point = signature.subarray(0, 32);
    for (const [number, isStrict] of [
      [ORDER - 1n, true],
      [ORDER, false],
      [2n ** 256n - 1n, false],
    ] as const) {
      expect(isStrictSignature(Buffer.concat([point, littleEndian(number)]))).toBe(isStrict);
    }
  });

  test("by another implementation is known", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uint8Array({ minLength: 32, maxLength: 32 }),
        fc.uint8Array({ maxLength: 200 }),
        async (seed, message) => {
          const mine = new Keypair(seed);
          const secret = Buffer.concat([seed, publicKeyOf(mine)]);
          const theirs = await createKeyPairFromBytes(secret);
          expect(await getAddressFromPublicKey(theirs.publicKey)).toBe(mine.address);
          const signature = await signBytes(theirs.privateKey, message);
          expect(Uint8Array.from(signature)).toEqual(Uint8Array.from(mine.sign(message)));
          expect(isSignedBy(message, Uint8Array.from(signature), mine.address)).toBe(true);
        },
      ),
      { numRuns: 20 },
    );
  });
});

function publicKeyOf({ address }: Keypair): Uint8Array {
  const decoded = decodeBase58(address, ADDRESS_BYTES);
  if (decoded === undefined) throw new Error("no address");
  return decoded;
}

describe("our signature in a payer's transaction", () => {
  test.each(["legacy", 0, 1] as const)(
    "version %s: 64 bytes are ours, all others stay",
    (version) => {
      const feePayer = testKey(1);
      const payment = somePayment({ feePayer: feePayer.address });
      const plan = layOut("svm", payment, { version });
      const read = readSolanaTransaction(buildTransaction(plan));
      if (!read.ok) throw new Error(read.error.detail);
      const before = Uint8Array.from(read.value.bytes);
      const signed = withFirstSignature(read.value, feePayer.sign(read.value.message));
      expect(read.value.bytes).toEqual(before);
      // As a client would build it that has both keys.
      const both = buildTransaction({ ...plan, signers: [feePayer, payment.payer] });
      expect(Buffer.from(signed).toString("base64")).toBe(both);
      const again = readSolanaTransaction(both);
      if (!again.ok) throw new Error(again.error.detail);
      const { message, signatures } = again.value;
      expect(signatures.map((one) => isSignedBy(message, one, feePayer.address))).toEqual([
        true,
        false,
      ]);
      expect(signatures.map((one) => isSignedBy(message, one, payment.payer.address))).toEqual([
        false,
        true,
      ]);
    },
  );

  test("has 64 bytes", () => {
    const read = readSolanaTransaction(buildTransaction(layOut("svm", somePayment())));
    if (!read.ok) throw new Error(read.error.detail);
    expect(() => withFirstSignature(read.value, new Uint8Array(63))).toThrow(RangeError);
  });
});
