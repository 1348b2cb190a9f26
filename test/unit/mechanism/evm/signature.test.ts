import * as fc from "fast-check";
import { hashTypedData, recoverAddress, serializeSignature, type Hex } from "viem";
import { privateKeyToAddress, sign as nobleSign } from "viem/accounts";
import { describe, expect, test } from "vitest";
import {
  loadNative,
  loadWasm,
  secp256k1,
  type RecoverableSignature,
  type Secp256k1,
} from "../../../../src/mechanism/evm/signature.ts";
import { freshAccount } from "../../../support/payer.ts";

const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

const wasm = await loadWasm();
const native = loadNative();
/** The builds that this platform has; on the platforms of our CI both. */
const builds: readonly Secp256k1[] = native === null ? [wasm] : [native, wasm];

const bytes32 = fc.uint8Array({ minLength: 32, maxLength: 32 });
const privateKey = fc
  .bigInt({ min: 1n, max: ORDER - 1n })
  .map((key) => Buffer.from(key.toString(16).padStart(64, "0"), "hex"));

function pack({ r, s, yParity }: RecoverableSignature): Buffer {
  return Buffer.concat([r, s, Buffer.from([27 + yParity])]);
}

function hex(bytes: Uint8Array): Hex {
  return `0x${Buffer.from(bytes).toString("hex")}`;
}

/** What viem's JavaScript implementation recovers, under our rules for v and s. */
async function reference(digest: Uint8Array, signature: Uint8Array): Promise<string | null> {
  const v = signature[64];
  const s = BigInt(hex(signature.subarray(32, 64)));
  if (signature.length !== 65 || (v !== 27 && v !== 28) || s > ORDER / 2n) return null;
  return recoverAddress({ hash: hex(digest), signature: hex(signature) }).then(
    (address) => address.toLowerCase(),
    () => null,
  );
}

test("the native build is the one in use where the platform has it", () => {
  expect(secp256k1.build).toBe(native === null ? "wasm" : "native");
});

test("all implementations sign alike, and each recovers the signer", async () => {
  await fc.assert(
    fc.asyncProperty(bytes32, privateKey, async (digest, key) => {
      const address = privateKeyToAddress(hex(key)).toLowerCase();
      const expected = serializeSignature(
        await nobleSign({ hash: hex(digest), privateKey: hex(key) }),
      );
      for (const build of builds) {
        const packed = pack(build.sign(digest, key));
        expect(hex(packed)).toBe(expected);
        expect(build.addressOf(key)).toBe(address);
        for (const other of builds) expect(other.recover(digest, packed)).toBe(address);
      }
    }),
    { numRuns: 60 },
  );
});

test("all implementations recover the same from arbitrary and from damaged signatures", async () => {
  const damage = fc.record({ at: fc.nat(64), bit: fc.nat(7) });
  await fc.assert(
    fc.asyncProperty(
      bytes32,
      privateKey,
      fc.array(damage, { maxLength: 3 }),
      fc.option(fc.uint8Array({ minLength: 60, maxLength: 70 })),
      async (digest, key, damages, arbitrary) => {
        const signature = Buffer.from(arbitrary ?? pack(wasm.sign(digest, key)));
        for (const { at, bit } of damages) {
          const byte = signature[at];
          if (byte !== undefined) signature[at] = byte ^ (1 << bit);
        }
        const expected = await reference(digest, signature);
        for (const build of builds) expect(build.recover(digest, signature)).toBe(expected);
      },
    ),
    { numRuns: 150 },
  );
});

describe.each(builds.map((build) => [build.build, build] as const))(
  "the %s build",
  (_name, build) => {
    const digest = Buffer.alloc(32, 7);
    const key = Buffer.from(freshAccount().privateKey.slice(2), "hex");
    const good = pack(build.sign(digest, key));

    test("makes signatures in the lower half of the order only", () => {
      for (let index = 0; index < 40; index += 1) {
        const { s } = build.sign(Buffer.alloc(32, index), key);
        expect(BigInt(hex(s)) <= ORDER / 2n).toBe(true);
      }
    });

    test("recovers nothing from the other signature of the same signer (high s)", () => {
      const s = ORDER - BigInt(hex(good.subarray(32, 64)));
      const high = Buffer.concat([
        good.subarray(0, 32),
        Buffer.from(s.toString(16).padStart(64, "0"), "hex"),
        Buffer.from([good[64] === 27 ? 28 : 27]),
      ]);
      expect(build.recover(digest, high)).toBeNull();
    });

    test.each([0, 1, 2, 26, 29, 30, 255])("recovers nothing with v = %i", (v) => {
      const signature = Buffer.from(good);
      signature[64] = v;
      expect(build.recover(digest, signature)).toBeNull();
    });

    test("recovers another address with the wrong one of 27 and 28", () => {
      const signature = Buffer.from(good);
      signature[64] = good[64] === 27 ? 28 : 27;
      expect(build.recover(digest, signature)).not.toBe(build.addressOf(key));
    });

    test.each([
      ["empty", Buffer.alloc(0)],
      ["64 bytes", good.subarray(0, 64)],
      ["66 bytes", Buffer.concat([good, Buffer.alloc(1)])],
      ["all zero but v", Buffer.concat([Buffer.alloc(64), Buffer.from([27])])],
      ["r zero", Buffer.concat([Buffer.alloc(32), good.subarray(32)])],
      ["s zero", Buffer.concat([good.subarray(0, 32), Buffer.alloc(32), good.subarray(64)])],
      ["r beyond the order", Buffer.concat([Buffer.alloc(32, 255), good.subarray(32)])],
    ])("recovers nothing from a signature that is %s", (_title, signature) => {
      expect(build.recover(digest, signature)).toBeNull();
    });

    test("refuses keys that are not keys", () => {
      const order = Buffer.from(ORDER.toString(16), "hex");
      for (const wrong of [Buffer.alloc(32), order, Buffer.alloc(32, 255)]) {
        expect(() => build.addressOf(wrong)).toThrow();
        expect(() => build.sign(digest, wrong)).toThrow();
      }
    });
  },
);

test("a digest of real typed data recovers to its signer", async () => {
  const { account, address } = freshAccount();
  const typed = {
    domain: { name: "USDC", version: "2", chainId: 84_532 },
    types: { Note: [{ name: "text", type: "string" }] },
    primaryType: "Note",
    message: { text: "paid" },
  } as const;
  const signature = Buffer.from((await account.signTypedData(typed)).slice(2), "hex");
  const digest = Buffer.from(hashTypedData(typed).slice(2), "hex");
  expect(secp256k1.recover(digest, signature)).toBe(address.toLowerCase());
});
