/**
 * Readers of addresses: who is paid, and which contract or mint a token is. An EVM address can be told from
 * a mistyped one by its checksum; a Solana address has none, so what is most likely a mistake is refused.
 */
import { checksumAddress, hasValidChecksum, isEvmAddress } from "../../x402/address.ts";
import { NETWORK_NAMES, networkOf, type Network } from "../../x402/network.ts";
import { ok, type Result } from "../../x402/result.ts";
import { ADDRESS_BYTES, decodeBase58, isSolanaAddress } from "../../x402/solana-address.ts";
import { KEYPAIR_BYTES, ownsItsPublicHalf, readByteList } from "../facilitator/keypair.ts";
import type { Fault } from "../reading/problem.ts";
import { bad, fault, type Reader } from "../reading/reading.ts";

/** An address and the family of networks that it belongs to. */
export interface Address {
  readonly kind: Network["kind"];
  readonly text: string;
}

/** Accounts that belong to no one, and why somebody might write them. */
const PROGRAMS: ReadonlyMap<string, string> = new Map([
  ["11111111111111111111111111111111", "the System program"],
  ["TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA", "the Token program"],
  ["TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb", "the Token-2022 program"],
  ["ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL", "the Associated Token Account program"],
]);
const WRAPPED_SOL = "So11111111111111111111111111111111111111112";

/** What the built-in tokens are minted by. */
const MINTS: ReadonlyMap<string, string> = new Map([
  [WRAPPED_SOL, "wrapped SOL"],
  ...NETWORK_NAMES.map(networkOf)
    .filter(({ kind }) => kind === "solana")
    .map(({ name, asset }) => [asset.address, `${asset.symbol} on ${name}`] as const),
]);

const EVM_FORM = "an EVM address (0x and 40 hex digits)";
const SOLANA_FORM = "a Solana address (base58 of 32 bytes)";
const MEANT = "copy the address that is meant";
const NEVER_HERE = "never put one here";

/** EIP-55 checksummed. The zero address is refused: nobody can spend from it. */
export const readEvmAddress: Reader<string> = (text) => {
  if (!isEvmAddress(text)) {
    return bad("must be an EVM address: 0x and 40 hex digits", hintForEvm(text));
  }
  if (/^0x0*$/.test(text)) return bad("is the zero address, from which nobody can spend", MEANT);
  if (hasValidChecksum(text)) return ok(checksumAddress(text));
  const message = "the checksum of the address does not fit: a character is mistyped";
  return { ok: false, error: fault("bad-checksum", message, "copy the address again") };
};

/** As written: upper and lower case differ. Programs are refused: nobody can spend from them. */
const readSolanaAddress: Reader<string> = (text) => {
  if (!isSolanaAddress(text)) {
    return bad("must be a Solana address: base58 of 32 bytes", hintForSolana(text));
  }
  const program = PROGRAMS.get(text);
  if (program === undefined) return ok(text);
  return bad(`is ${program}, from which nobody can spend`, MEANT);
};

/** An address of either family. */
export const readAddress: Reader<Address> = (text) => {
  if (/^0x/i.test(text) || isEvmAddress(`0x${text}`)) return ofKind("evm", readEvmAddress(text));
  if (isSolanaAddress(text)) return ofKind("solana", readSolanaAddress(text));
  return bad(`must be ${EVM_FORM} or ${SOLANA_FORM}`, hintForSolana(text));
};

function ofKind(kind: Address["kind"], read: Result<string, Fault>): Result<Address, Fault> {
  return read.ok ? ok({ kind, text: read.value }) : read;
}

/** A Solana address that can be paid: not the mint of a token, which is easily copied instead. */
export const readSolanaPayee: Reader<string> = (text) => {
  const mint = MINTS.get(text);
  if (mint === undefined) return readSolanaAddress(text);
  return bad(`is the mint of ${mint}, from which nobody can spend`, "give the address of a wallet");
};

/** Somebody of either family who can be paid. */
export const readPayee: Reader<Address> = (text) => {
  const address = readAddress(text);
  return address.ok && address.value.kind === "solana"
    ? ofKind("solana", readSolanaPayee(text))
    : address;
};

function hintForEvm(text: string): string | undefined {
  const digits = /^0x([0-9a-fA-F]+)$/.exec(text)?.[1];
  if (digits?.length === 64) return `this has the length of a private key; ${NEVER_HERE}`;
  if (digits !== undefined) return `${digits.length} hex digits are given`;
  if (isEvmAddress(`0x${text}`)) return "begin with 0x";
  if (isSolanaAddress(text)) return "this is a Solana address, which stands under a key `solana`";
  return secretHint(text);
}

function hintForSolana(text: string): string | undefined {
  if (isEvmAddress(text)) return "this is an EVM address, which stands under a key `evm`";
  const secret = secretHint(text);
  if (secret !== undefined) return secret;
  const isNear = Math.abs(text.length - BASE58_LETTERS) <= 4 && /^[0-9A-Za-z]+$/.test(text);
  if (!isNear) return undefined;
  return /[0OIl]/.test(text)
    ? "base58 has neither 0, O, I nor l: copy the address again"
    : "a character is missing or mistyped: copy the address again";
}

/** Letters of most Solana addresses. */
const BASE58_LETTERS = 44;

/** Says what a text is that must not be in a configuration, or that is taken for an address. */
function secretHint(text: string): string | undefined {
  if (/^(?:0x)?[0-9a-fA-F]{64}$/.test(text)) {
    return `this has the length of a private key; ${NEVER_HERE}`;
  }
  const listed = readByteList(text)?.length;
  if (listed === KEYPAIR_BYTES || listed === ADDRESS_BYTES) {
    return `this is a secret key; ${NEVER_HERE}`;
  }
  const bytes = decodeBase58(text, KEYPAIR_BYTES);
  if (bytes === undefined) return undefined;
  return ownsItsPublicHalf(bytes)
    ? `this is a secret key; ${NEVER_HERE}`
    : "64 bytes are a transaction's signature, or a secret key that must never stand here";
}
