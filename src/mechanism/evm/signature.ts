/**
 * secp256k1 in two builds of the same C library: a native addon where its prebuilt binary loads, else
 * WebAssembly. The addon's own package falls back to slow JavaScript without a word, so its binding is
 * loaded by itself and its absence is seen.
 */
import { createRequire } from "node:module";
import type * as Secp256k1Addon from "secp256k1";
import { keccak256 } from "../../x402/keccak.ts";

/** Bytes of an EOA signature: r, s, v. */
const SIGNATURE_BYTES = 65;

/** Half the order of the curve, rounded down: the largest `s` that tokens accept (EIP-2). */
const HALF_ORDER = Buffer.from(
  "7fffffffffffffffffffffffffffffff5d576e7357a4501ddfe92f46681b20a0",
  "hex",
);

export interface RecoverableSignature {
  /** 32 bytes, big-endian. */
  readonly r: Uint8Array;
  /** 32 bytes, big-endian, in the lower half of the order. */
  readonly s: Uint8Array;
  readonly yParity: 0 | 1;
}

export interface Secp256k1 {
  /** Which build it is; shown at start-up. */
  readonly build: "native" | "wasm";
  /**
   * The address (lower case) that signed the 32-byte digest, or null. As strict as the tokens are: 65
   * bytes, v 27 or 28, s in the lower half, r and s not zero. Never throws.
   */
  recover(digest: Uint8Array, signature: Uint8Array): string | null;
  /** Deterministic (RFC 6979). Throws when the 32 bytes are not a private key. */
  sign(digest: Uint8Array, privateKey: Uint8Array): RecoverableSignature;
  /** The address (lower case) of a private key. Throws when the 32 bytes are not one. */
  addressOf(privateKey: Uint8Array): string;
}

/** What a build has to offer; all of it may throw. Public keys are uncompressed, 65 bytes. */
interface Curve {
  recover(compact: Uint8Array, recovery: 0 | 1, digest: Uint8Array): Uint8Array;
  sign(digest: Uint8Array, key: Uint8Array): { compact: Uint8Array; recovery: number };
  publicKey(key: Uint8Array): Uint8Array;
}

/** The native build, or null where the package has no binary for this platform. */
export function loadNative(): Secp256k1 | null {
  const require = createRequire(import.meta.url);
  let addon: typeof Secp256k1Addon;
  try {
    addon = require("secp256k1/bindings.js");
  } catch {
    return null;
  }
  return overCurve("native", {
    recover: (compact, recovery, digest) => addon.ecdsaRecover(compact, recovery, digest, false),
    sign(digest, key) {
      const { signature, recid } = addon.ecdsaSign(digest, key);
      return { compact: signature, recovery: recid };
    },
    publicKey: (key) => addon.publicKeyCreate(key, false),
  });
}

/** The WebAssembly build; about 0.2 s to load. */
export async function loadWasm(): Promise<Secp256k1> {
  const { secp256k1 } = await import("@bitauth/libauth");
  return overCurve("wasm", {
    recover: (compact, recovery, digest) =>
      orThrow(secp256k1.recoverPublicKeyUncompressed(compact, recovery, digest)),
    sign(digest, key) {
      const signed = orThrow(secp256k1.signMessageHashRecoverableCompact(key, digest));
      return { compact: signed.signature, recovery: signed.recoveryId };
    },
    publicKey: (key) => orThrow(secp256k1.derivePublicKeyUncompressed(key)),
  });
}

/** The build in use. */
export const secp256k1: Secp256k1 = loadNative() ?? (await loadWasm());

function overCurve(build: Secp256k1["build"], curve: Curve): Secp256k1 {
  return {
    build,
    recover(digest, signature) {
      const v = signature[64];
      if (signature.length !== SIGNATURE_BYTES || (v !== 27 && v !== 28)) return null;
      if (Buffer.compare(signature.subarray(32, 64), HALF_ORDER) > 0) return null;
      try {
        // Both builds refuse r or s that is zero or not below the order.
        const recovery = v === 27 ? 0 : 1;
        return addressOfPublicKey(curve.recover(signature.subarray(0, 64), recovery, digest));
      } catch {
        return null;
      }
    },
    sign(digest, privateKey) {
      const { compact, recovery } = curve.sign(digest, privateKey);
      return {
        r: compact.subarray(0, 32),
        s: compact.subarray(32, 64),
        yParity: recovery === 0 ? 0 : 1,
      };
    },
    addressOf: (privateKey) => addressOfPublicKey(curve.publicKey(privateKey)),
  };
}

/** The last 20 bytes of the hash of the key's two coordinates (Yellow Paper, appendix F). */
function addressOfPublicKey(publicKey: Uint8Array): string {
  const hash = keccak256(publicKey.subarray(1));
  return `0x${Buffer.from(hash.buffer, hash.byteOffset + 12, 20).toString("hex")}`;
}

/** libauth answers an error as text. */
function orThrow<Value>(answer: Value | string): Value {
  if (typeof answer === "string") throw new Error(answer);
  return answer;
}
