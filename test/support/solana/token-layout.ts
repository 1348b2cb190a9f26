/**
 * The accounts of the Token and Token-2022 programs: mints and token accounts with the extensions that
 * matter to a payment, as bytes and as values.
 */
import { fromBase58, toBase58 } from "./base58.ts";
import type { StoredAccount } from "./runtime.ts";

export const TOKEN_PROGRAM = "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA";
export const TOKEN_2022_PROGRAM = "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb";

const MINT_BYTES = 82;
const TOKEN_ACCOUNT_BYTES = 165;
/** Behind the base layout, with extensions: which of the two it is. */
const MINT_TYPE = 1;
const TOKEN_ACCOUNT_TYPE = 2;
const EXTENSIONS_OFFSET = TOKEN_ACCOUNT_BYTES + 1;
const NO_KEY = new Uint8Array(32);

/** Numbers of the extensions that have a name here. */
export const EXTENSION = {
  transferFeeConfig: 1,
  transferFeeAmount: 2,
  defaultAccountState: 6,
  immutableOwner: 7,
  nonTransferable: 9,
  permanentDelegate: 12,
  nonTransferableAccount: 13,
  transferHook: 14,
  transferHookAccount: 15,
} as const;

export interface Extension {
  readonly type: number;
  readonly data: Uint8Array;
}

export interface Mint {
  readonly mintAuthority: string | null;
  readonly supply: bigint;
  readonly decimals: number;
  readonly freezeAuthority: string | null;
  readonly extensions: readonly Extension[];
}

export interface TokenAccount {
  readonly mint: string;
  readonly owner: string;
  readonly amount: bigint;
  readonly delegate: string | null;
  readonly delegatedAmount: bigint;
  readonly state: "uninitialized" | "initialized" | "frozen";
  /** Lamports kept for rent when the account wraps SOL. */
  readonly nativeReserve: bigint | null;
  readonly closeAuthority: string | null;
  readonly extensions: readonly Extension[];
}

const STATES = ["uninitialized", "initialized", "frozen"] as const;

export function isTokenProgram(program: string): boolean {
  return program === TOKEN_PROGRAM || program === TOKEN_2022_PROGRAM;
}

export function encodeMint(mint: Mint): Uint8Array {
  const base = Buffer.concat([
    optionalKey(mint.mintAuthority),
    u64(mint.supply),
    Buffer.from([mint.decimals, 1]),
    optionalKey(mint.freezeAuthority),
  ]);
  return withExtensions(base, MINT_TYPE, mint.extensions);
}

export function encodeTokenAccount(account: TokenAccount): Uint8Array {
  const { nativeReserve } = account;
  const base = Buffer.concat([
    fromBase58(account.mint),
    fromBase58(account.owner),
    u64(account.amount),
    optionalKey(account.delegate),
    Buffer.from([STATES.indexOf(account.state)]),
    u32(nativeReserve === null ? 0 : 1),
    u64(nativeReserve ?? 0n),
    u64(account.delegatedAmount),
    optionalKey(account.closeAuthority),
  ]);
  return withExtensions(base, TOKEN_ACCOUNT_TYPE, account.extensions);
}

/** Null when the account is no initialised mint of a token program. */
export function readMint(account: StoredAccount | null): Mint | null {
  if (account === null || !isTokenProgram(account.owner)) return null;
  const data = Buffer.from(account.data);
  const isMint = data.length === MINT_BYTES || data[TOKEN_ACCOUNT_BYTES] === MINT_TYPE;
  if (!isMint || data[45] !== 1) return null;
  return {
    mintAuthority: readOptionalKey(data, 0),
    supply: data.readBigUInt64LE(36),
    decimals: data.readUInt8(44),
    freezeAuthority: readOptionalKey(data, 46),
    extensions: readExtensions(data),
  };
}

/** Null when the account is no token account. */
export function readTokenAccount(account: StoredAccount | null): TokenAccount | null {
  if (account === null || !isTokenProgram(account.owner)) return null;
  const data = Buffer.from(account.data);
  const isTokenAccount =
    data.length === TOKEN_ACCOUNT_BYTES || data[TOKEN_ACCOUNT_BYTES] === TOKEN_ACCOUNT_TYPE;
  const state = STATES[data[108] ?? 0];
  if (!isTokenAccount || state === undefined || state === "uninitialized") return null;
  return {
    mint: toBase58(data.subarray(0, 32)),
    owner: toBase58(data.subarray(32, 64)),
    amount: data.readBigUInt64LE(64),
    delegate: readOptionalKey(data, 72),
    state,
    nativeReserve: data.readUInt32LE(109) === 0 ? null : data.readBigUInt64LE(113),
    delegatedAmount: data.readBigUInt64LE(121),
    closeAuthority: readOptionalKey(data, 129),
    extensions: readExtensions(data),
  };
}

/** The extensions that an account must have because of those of its mint. */
export function accountExtensionsFor(mint: Mint, program: string): Extension[] {
  if (program !== TOKEN_2022_PROGRAM) return [];
  const needed: Extension[] = [{ type: EXTENSION.immutableOwner, data: new Uint8Array() }];
  for (const { type } of mint.extensions) {
    if (type === EXTENSION.transferFeeConfig) {
      needed.push({ type: EXTENSION.transferFeeAmount, data: new Uint8Array(8) });
    }
    if (type === EXTENSION.transferHook) {
      needed.push({ type: EXTENSION.transferHookAccount, data: new Uint8Array(1) });
    }
    if (type === EXTENSION.nonTransferable) {
      needed.push({ type: EXTENSION.nonTransferableAccount, data: new Uint8Array() });
    }
  }
  return needed;
}

/** `basisPoints` of each transfer are withheld, `maximumFee` atomic units at most. */
export function transferFeeConfig(
  authority: string,
  { basisPoints, maximumFee }: { readonly basisPoints: number; readonly maximumFee: bigint },
): Extension {
  const fee = Buffer.concat([u64(0n), u64(maximumFee), u16(basisPoints)]);
  const key = fromBase58(authority);
  const data = Buffer.concat([key, key, u64(0n), fee, fee]);
  return { type: EXTENSION.transferFeeConfig, data };
}

/** A null program is a hook that is not set. */
export function transferHook(authority: string, program: string | null): Extension {
  const data = Buffer.concat([
    fromBase58(authority),
    program === null ? NO_KEY : fromBase58(program),
  ]);
  return { type: EXTENSION.transferHook, data };
}

function u16(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16LE(value);
  return bytes;
}

export function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

export function u64(value: bigint): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(value);
  return bytes;
}

function optionalKey(key: string | null): Buffer {
  return Buffer.concat([u32(key === null ? 0 : 1), key === null ? NO_KEY : fromBase58(key)]);
}

function readOptionalKey(data: Buffer, offset: number): string | null {
  if (data.readUInt32LE(offset) === 0) return null;
  return toBase58(data.subarray(offset + 4, offset + 36));
}

function withExtensions(base: Buffer, type: number, extensions: readonly Extension[]): Uint8Array {
  if (extensions.length === 0) return base;
  const padding = Buffer.alloc(TOKEN_ACCOUNT_BYTES - base.length);
  const entries = extensions.flatMap((each) => [u16(each.type), u16(each.data.length), each.data]);
  return Buffer.concat([base, padding, Buffer.from([type]), ...entries]);
}

function readExtensions(data: Buffer): Extension[] {
  const extensions: Extension[] = [];
  let offset = EXTENSIONS_OFFSET;
  while (offset + 4 <= data.length) {
    const type = data.readUInt16LE(offset);
    const end = offset + 4 + data.readUInt16LE(offset + 2);
    if (type === 0 || end > data.length) break;
    extensions.push({ type, data: data.subarray(offset + 4, end) });
    offset = end;
  }
  return extensions;
}
