/** What can be wrong with the bytes of a signature that was right: 65 bytes, r, s, v. */
import { toHex, type Hex } from "viem";

/** Order of secp256k1. */
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n;

const faults = {
  empty: () => "0x",
  "one byte": () => "0x1b",
  "without v": (signature) => signature.slice(0, 130),
  /** EIP-2098: v as the highest bit of s. */
  compact: (signature) => {
    const { r, s, v } = split(signature);
    return join(r, s | (BigInt(v - 27) << 255n), "");
  },
  "one byte more": (signature) => `${signature}00`,
  "twice in a row": (signature) => `${signature}${signature.slice(2)}`,
  "v 0 or 1": (signature) => withV(signature, (v) => v - 27),
  "the other v": (signature) => withV(signature, (v) => 55 - v),
  "v 29": (signature) => withV(signature, () => 29),
  "v 255": (signature) => withV(signature, () => 255),
  /** EIP-155, as transactions have it. */
  "v of a transaction": (signature) => withV(signature, (v) => v + 8),
  /** The same point negated: it recovers, but EIP-2 and the token forbid it. */
  "high s": (signature) => {
    const { r, s, v } = split(signature);
    return join(r, ORDER - s, byte(55 - v));
  },
  "r zero": (signature) => withParts(signature, { r: 0n }),
  "s zero": (signature) => withParts(signature, { s: 0n }),
  "r and s zero": (signature) => withParts(signature, { r: 0n, s: 0n }),
  "r the order": (signature) => withParts(signature, { r: ORDER }),
  "s the order": (signature) => withParts(signature, { s: ORDER }),
  "a bit of r flipped": (signature) => withParts(signature, { r: split(signature).r ^ 1n }),
  "a bit of s flipped": (signature) => withParts(signature, { s: split(signature).s ^ 1n }),
  "r and s exchanged": (signature) => {
    const { r, s } = split(signature);
    return withParts(signature, { r: s, s: r });
  },
  "all ones": () => `0x${"ff".repeat(65)}`,
  "all zeros": () => `0x${"00".repeat(65)}`,
  "upper case": (signature) => `0x${signature.slice(2).toUpperCase()}`,
  "without 0x": (signature) => signature.slice(2),
  "0X instead of 0x": (signature) => `0X${signature.slice(2)}`,
  "half a byte short": (signature) => signature.slice(0, -1),
  "no hex": (signature) => `${signature.slice(0, -2)}zz`,
  "with a line break": (signature) => `${signature}\n`,
  "in base64": (signature) => Buffer.from(signature.slice(2), "hex").toString("base64"),
} satisfies Record<string, (signature: Hex) => string>;

type SignatureFault = keyof typeof faults;

export const SIGNATURE_FAULTS = Object.keys(faults) as SignatureFault[];

export function spoilSignature(signature: Hex, fault: SignatureFault): string {
  return faults[fault](signature);
}

interface Parts {
  readonly r: bigint;
  readonly s: bigint;
  /** 27 or 28. */
  readonly v: number;
}

function split(signature: Hex): Parts {
  return {
    r: BigInt(signature.slice(0, 66)),
    s: BigInt(`0x${signature.slice(66, 130)}`),
    v: Number.parseInt(signature.slice(130), 16),
  };
}

function join(r: bigint, s: bigint, end: string): string {
  return toHex(r, { size: 32 }) + toHex(s, { size: 32 }).slice(2) + end;
}

function withParts(signature: Hex, parts: Partial<Parts>): string {
  const { r, s, v } = { ...split(signature), ...parts };
  return join(r, s, byte(v));
}

function withV(signature: Hex, change: (v: number) => number): string {
  const { r, s, v } = split(signature);
  return join(r, s, byte(change(v)));
}

function byte(value: number): string {
  return value.toString(16).padStart(2, "0");
}
