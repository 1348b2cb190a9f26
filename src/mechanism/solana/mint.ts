/**
 * Mints of Token and Token-2022 (V8): decimals, and whether a payment in them is what it seems. Extensions of
 * Token-2022 can take a part of what is paid, or keep it from moving; one that is not known here could do
 * anything, and makes the mint unfit.
 */
import { err, ok, type Result } from "../../x402/result.ts";
import { encodeBase58 } from "../../x402/solana-address.ts";
import { TOKEN_2022_PROGRAM, TOKEN_PROGRAM } from "./programs.ts";
import type { RawAccount } from "./raw-account.ts";

/** What is needed of a mint. */
export interface Mint {
  readonly decimals: number;
  /** The token program that owns it, base58. */
  readonly program: string;
}

/** Bytes of a mint without extensions. */
const MINT_BYTES = 82;
const DECIMALS_OFFSET = 44;
const INITIALIZED_OFFSET = 45;
/** With extensions, mints are as long as token accounts, so that one byte tells them apart. */
const ACCOUNT_TYPE_OFFSET = 165;
const MINT_TYPE = 1;
const EXTENSIONS_OFFSET = 166;
/** Before each extension: its type and its length, little-endian u16 each. */
const EXTENSION_HEADER_BYTES = 4;
const NO_EXTENSION = 0;

/** Undefined where a payment is not impaired, else why it is. */
type Check = (value: DataView) => string | undefined;

/**
 * Extensions that leave a transfer as it is, by their numbers in Token-2022's `ExtensionType`. Some endanger
 * the payee later on, not the payment: a permanent delegate can take tokens back, a pausable mint can be
 * stopped (which simulation tells, payment by payment); as much can the freeze authority that nearly every
 * stablecoin has, without any extension.
 */
const HARMLESS = {
  /** Only once no token is left. */
  mintCloseAuthority: 3,
  /** Has instructions of its own. */
  confidentialTransferMint: 4,
  /** Of what wallets show, not of atomic units. */
  interestBearingConfig: 10,
  permanentDelegate: 12,
  confidentialTransferFeeConfig: 16,
  metadataPointer: 18,
  tokenMetadata: 19,
  groupPointer: 20,
  tokenGroup: 21,
  groupMemberPointer: 22,
  tokenGroupMember: 23,
  confidentialMintBurn: 24,
  /** Of what wallets show, not of atomic units. */
  scaledUiAmount: 25,
  pausable: 26,
  /** Burning is no part of a payment. */
  permissionedBurn: 28,
} as const;

const TRANSFER_FEE = 1;
const DEFAULT_ACCOUNT_STATE = 6;
const NON_TRANSFERABLE = 9;
const TRANSFER_HOOK = 14;

/** By number. Those between are of token accounts, which no mint has. */
const EXTENSIONS: ReadonlyMap<number, Check> = new Map<number, Check>([
  ...Object.values(HARMLESS).map((type): [number, Check] => [type, () => undefined]),
  [TRANSFER_FEE, transferFee],
  [DEFAULT_ACCOUNT_STATE, defaultAccountState],
  [NON_TRANSFERABLE, () => "its tokens cannot be transferred"],
  [TRANSFER_HOOK, transferHook],
]);

/**
 * Reads the account of a mint, or says why it cannot be accepted, in words that go on from "the asset …: ".
 * Fees and hooks can be set later on by the mint's authorities (a fee takes effect two epochs after, some
 * days), so a mint is worth reading again now and then.
 */
export function readMint({ owner, data }: RawAccount): Result<Mint, string> {
  if (owner !== TOKEN_PROGRAM && owner !== TOKEN_2022_PROGRAM) {
    return err(`the account belongs to ${owner}, not to Token or Token-2022, so it is no mint`);
  }
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  if (!isMint(view, owner)) return err("the account is not an initialized mint");
  const fault = data.length === MINT_BYTES ? undefined : extensionFault(view);
  if (fault !== undefined) return err(fault);
  return ok({ decimals: view.getUint8(DECIMALS_OFFSET), program: owner });
}

function isMint(view: DataView, owner: string): boolean {
  const isPlain = view.byteLength === MINT_BYTES;
  const isExtended =
    owner === TOKEN_2022_PROGRAM &&
    view.byteLength >= EXTENSIONS_OFFSET &&
    view.getUint8(ACCOUNT_TYPE_OFFSET) === MINT_TYPE;
  return (isPlain || isExtended) && view.getUint8(INITIALIZED_OFFSET) === 1;
}

/** The first extension that impairs payments; also where the list of them cannot be read to its end. */
function extensionFault(view: DataView): string | undefined {
  let offset = EXTENSIONS_OFFSET;
  while (offset + 2 <= view.byteLength) {
    const type = view.getUint16(offset, true);
    // Nothing comes behind an empty place.
    if (type === NO_EXTENSION) return undefined;
    const start = offset + EXTENSION_HEADER_BYTES;
    const end = start <= view.byteLength ? start + view.getUint16(offset + 2, true) : start;
    if (end > view.byteLength) return UNREADABLE;
    const check = EXTENSIONS.get(type);
    if (check === undefined) {
      return `it has the extension ${type}, which is not known here and could change what a transfer does`;
    }
    const fault = check(new DataView(view.buffer, view.byteOffset + start, end - start));
    if (fault !== undefined) return fault;
    offset = end;
  }
  return offset === view.byteLength ? undefined : UNREADABLE;
}

const UNREADABLE = "its extensions cannot be read";

/** Two authorities, the amount withheld, and the fee before and after a change. */
const TRANSFER_FEE_BYTES = 108;
/** Epoch (8), maximum (8), basis points (2): where the two fees begin. */
const FEE_OFFSETS = { older: 72, newer: 90 } as const;

/** A fee is taken from what the payee receives. One that is zero may still be raised, two epochs ahead. */
function transferFee(value: DataView): string | undefined {
  if (value.byteLength !== TRANSFER_FEE_BYTES) return UNREADABLE;
  for (const [name, offset] of Object.entries(FEE_OFFSETS)) {
    const maximum = value.getBigUint64(offset + 8, true);
    const basisPoints = value.getUint16(offset + 16, true);
    if (basisPoints > 0 && maximum > 0n) {
      return `it takes a transfer fee of ${basisPoints} basis points (the ${name} of its two fees), so payees would receive less than the price`;
    }
  }
  return undefined;
}

/** Authority, program. */
const TRANSFER_HOOK_BYTES = 64;
const HOOK_PROGRAM_OFFSET = 32;

/** A hook wants accounts of its own in each transfer, and runs a program of the issuer's. */
function transferHook(value: DataView): string | undefined {
  if (value.byteLength !== TRANSFER_HOOK_BYTES) return UNREADABLE;
  const program = new Uint8Array(
    value.buffer,
    value.byteOffset + HOOK_PROGRAM_OFFSET,
    TRANSFER_HOOK_BYTES - HOOK_PROGRAM_OFFSET,
  );
  if (program.every((byte) => byte === 0)) return undefined;
  return `each transfer runs the issuer's program ${encodeBase58(program)}, a transfer hook`;
}

/** Uninitialized, initialized, frozen. */
const INITIALIZED_STATE = 1;

/** New accounts that begin frozen receive nothing before the issuer thaws them. */
function defaultAccountState(value: DataView): string | undefined {
  if (value.byteLength !== 1) return UNREADABLE;
  if (value.getUint8(0) === INITIALIZED_STATE) return undefined;
  return "its new token accounts are frozen, so that payees could not be paid";
}
