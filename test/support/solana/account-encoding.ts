/** Accounts as answers show them: base58, base64, or parsed for the programs that matter here. */
import { toBase58 } from "./base58.ts";
import { invalidParams, INVALID_REQUEST, RpcError } from "./rpc-error.ts";
import type { Config } from "./rpc-params.ts";
import { lookupTableAddresses, type StoredAccount } from "./runtime.ts";
import { tokenAmount } from "./token-balances.ts";
import {
  EXTENSION,
  readMint,
  readTokenAccount,
  TOKEN_PROGRAM,
  type Extension,
  type TokenAccount,
} from "./token-layout.ts";

/** Longest data that goes into base58, bytes. */
const MAX_BASE58_BYTES = 128;
/** Every account is exempt from rent: its epoch never comes. */
const NEVER = 18_446_744_073_709_551_615n;
const LOOKUP_TABLE_PROGRAM = "AddressLookupTab1e1111111111111111111111111";
const LOOKUP_TABLE = 1;

const ENCODINGS = ["base58", "base64", "jsonParsed", "binary"] as const;
export type AccountEncoding = (typeof ENCODINGS)[number];

export interface EncodedAccount {
  readonly data: unknown;
  readonly executable: boolean;
  readonly lamports: bigint;
  readonly owner: string;
  readonly rentEpoch: bigint;
  readonly space: number;
}

export interface EncodingOptions {
  readonly encoding: AccountEncoding;
  readonly slice?: { readonly offset: number; readonly length: number };
  /** Where a token account's mint is looked up. */
  readonly accountOf: (address: string) => StoredAccount | null;
}

export function askedEncoding(
  config: Config | undefined,
  fallback: AccountEncoding,
): AccountEncoding {
  const asked = config?.string("encoding") ?? fallback;
  const known = ENCODINGS.find((each) => each === asked);
  if (known !== undefined) return known;
  throw invalidParams(`Invalid params: unknown variant \`${asked}\`, expected an encoding.`);
}

export function askedSlice(config: Config): Pick<EncodingOptions, "slice"> {
  const slice = config.config("dataSlice");
  if (slice === undefined) return {};
  return { slice: { offset: slice.integer("offset") ?? 0, length: slice.integer("length") ?? 0 } };
}

export function encodeAccount(account: StoredAccount, options: EncodingOptions): EncodedAccount {
  const { lamports, owner, executable } = account;
  const space = account.data.length;
  const data = encodeData(account, options);
  return { data, executable, lamports, owner, rentEpoch: NEVER, space };
}

function encodeData(account: StoredAccount, options: EncodingOptions): unknown {
  const { encoding, slice } = options;
  if (encoding === "jsonParsed") {
    const parsed = parseAccount(account, options.accountOf);
    if (parsed !== null) return { ...parsed, space: account.data.length };
  }
  const { offset, length } = slice ?? { offset: 0, length: account.data.length };
  const data = account.data.subarray(offset, offset + length);
  if (encoding === "base64" || encoding === "jsonParsed") {
    return [Buffer.from(data).toString("base64"), "base64"];
  }
  if (data.length > MAX_BASE58_BYTES) {
    const words =
      `Encoded binary (base 58) data should be less than ${MAX_BASE58_BYTES} bytes, ` +
      "please use Base64 encoding.";
    throw new RpcError(INVALID_REQUEST, words);
  }
  return encoding === "base58" ? [toBase58(data), "base58"] : toBase58(data);
}

interface Parsed {
  readonly program: string;
  readonly parsed: { readonly type: string; readonly info: unknown };
}

function parseAccount(
  account: StoredAccount,
  accountOf: (address: string) => StoredAccount | null,
): Parsed | null {
  if (account.owner === LOOKUP_TABLE_PROGRAM) return parseLookupTable(account);
  const program = account.owner === TOKEN_PROGRAM ? "spl-token" : "spl-token-2022";
  const mint = readMint(account);
  if (mint !== null) {
    const { mintAuthority, decimals, freezeAuthority } = mint;
    const supply = String(mint.supply);
    const base = { mintAuthority, supply, decimals, isInitialized: true, freezeAuthority };
    const info = { ...base, ...parseExtensions(mint.extensions) };
    return { program, parsed: { type: "mint", info } };
  }
  const token = readTokenAccount(account);
  const decimals = token === null ? undefined : readMint(accountOf(token.mint))?.decimals;
  if (token === null || decimals === undefined) return null;
  return { program, parsed: { type: "account", info: parseTokenAccount(token, decimals) } };
}

function parseTokenAccount(token: TokenAccount, decimals: number): object {
  const { mint, owner, state, delegate, closeAuthority, nativeReserve } = token;
  return {
    mint,
    owner,
    tokenAmount: tokenAmount(token.amount, decimals),
    state,
    isNative: nativeReserve !== null,
    ...(nativeReserve === null ? {} : { rentExemptReserve: tokenAmount(nativeReserve, decimals) }),
    ...(delegate === null
      ? {}
      : { delegate, delegatedAmount: tokenAmount(token.delegatedAmount, decimals) }),
    ...(closeAuthority === null ? {} : { closeAuthority }),
    ...parseExtensions(token.extensions),
  };
}

function parseExtensions(extensions: readonly Extension[]): object {
  return extensions.length === 0 ? {} : { extensions: extensions.map(parseExtension) };
}

function parseExtension({ type, data }: Extension): object {
  const bytes = Buffer.from(data);
  const extension = Object.entries(EXTENSION).find(([, number]) => number === type)?.[0];
  if (extension === undefined) return { extension: "unparseableExtension" };
  if (bytes.length === 0) return { extension };
  return { extension, state: extensionState(type, bytes) };
}

function extensionState(type: number, bytes: Buffer): object {
  switch (type) {
    case EXTENSION.transferFeeConfig:
      return {
        transferFeeConfigAuthority: keyOrNull(bytes, 0),
        withdrawWithheldAuthority: keyOrNull(bytes, 32),
        withheldAmount: bytes.readBigUInt64LE(64),
        olderTransferFee: transferFee(bytes, 72),
        newerTransferFee: transferFee(bytes, 90),
      };
    case EXTENSION.transferFeeAmount:
      return { withheldAmount: bytes.readBigUInt64LE(0) };
    case EXTENSION.transferHook:
      return { authority: keyOrNull(bytes, 0), programId: keyOrNull(bytes, 32) };
    case EXTENSION.transferHookAccount:
      return { transferring: bytes[0] === 1 };
    case EXTENSION.permanentDelegate:
      return { delegate: keyOrNull(bytes, 0) };
    default:
      return { accountState: bytes[0] === 2 ? "frozen" : "initialized" };
  }
}

function transferFee(bytes: Buffer, offset: number): object {
  return {
    epoch: bytes.readBigUInt64LE(offset),
    maximumFee: bytes.readBigUInt64LE(offset + 8),
    transferFeeBasisPoints: bytes.readUInt16LE(offset + 16),
  };
}

/** Here a key of zeros means none. */
function keyOrNull(bytes: Buffer, offset: number): string | null {
  const key = bytes.subarray(offset, offset + 32);
  return key.every((byte) => byte === 0) ? null : toBase58(key);
}

function parseLookupTable(account: StoredAccount): Parsed | null {
  const data = Buffer.from(account.data);
  if (data.length < 56 || data.readUInt32LE(0) !== LOOKUP_TABLE) return null;
  const info = {
    deactivationSlot: String(data.readBigUInt64LE(4)),
    lastExtendedSlot: String(data.readBigUInt64LE(12)),
    lastExtendedSlotStartIndex: data.readUInt8(20),
    ...(data[21] === 1 ? { authority: toBase58(data.subarray(22, 54)) } : {}),
    addresses: lookupTableAddresses(account),
  };
  return { program: "address-lookup-table", parsed: { type: "lookupTable", info } };
}
