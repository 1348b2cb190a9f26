/**
 * What a buyer may sign: an offer on a network and in a token that this program knows by itself. The seller's
 * word is never taken for what a token is worth, or for the EIP-712 domain of a known one.
 */
import { isEvmAddress, sameAddress } from "../x402/address.ts";
import { formatAmount } from "../x402/amount.ts";
import {
  findNetwork,
  type EvmNetwork,
  type SolanaNetwork,
  type TokenDomain,
} from "../x402/network.ts";
import { err, ok, type Result } from "../x402/result.ts";
import { ADDRESS_BYTES, decodeBase58, isSolanaAddress } from "../x402/solana-address.ts";
import type { SellersOffer } from "./offer.ts";

/** What is known of a token; null where nothing but the seller's word is. */
interface KnownToken {
  readonly symbol: string;
  readonly decimals: number;
}

interface CommonTerms {
  readonly offer: SellersOffer;
  /** Null: allowed by its address alone, worth nobody knows what. A known one is worth a dollar. */
  readonly token: KnownToken | null;
}

/** An offer that may be signed. */
export type BuyerTerms =
  | (CommonTerms & {
      readonly kind: "evm";
      readonly network: EvmNetwork;
      readonly domain: TokenDomain;
    })
  | (CommonTerms & {
      readonly kind: "solana";
      readonly network: SolanaNetwork;
      /** The seller's facilitator, base58: it pays the network fee. */
      readonly feePayer: string;
      /** Null: to be read from the chain. */
      readonly tokenProgram: string | null;
      /** What the seller wants to find in the transaction; null: nothing. */
      readonly memo: string | null;
      /** A recent one that the seller tells, base58; null: to be read from the chain. */
      readonly blockhash: string | null;
    });

/** What version 2 calls the one way to move tokens that is signed here. */
const EIP_3009 = "eip3009";
/** The most that a token account on Solana holds: 2^64 - 1. */
const MAX_UINT64 = 2n ** 64n - 1n;
/** Longest memo that is signed, bytes: the transaction has room for hardly more. */
const MAX_MEMO_BYTES = 256;
/** Longest name of a token, characters. */
const MAX_NAME = 64;

/**
 * The terms of an offer, or a sentence on why it is not signed.
 * @param allowedAssets addresses of tokens that the buyer vouches for; null: there is no way to
 */
export function readTerms(
  offer: SellersOffer,
  allowedAssets: readonly string[] | null,
): Result<BuyerTerms, string> {
  const network = findNetwork(offer.network);
  if (network === undefined) return err("the network is not known here");
  return network.kind === "evm"
    ? evmTerms(offer, network, allowedAssets)
    : solanaTerms(offer, network, allowedAssets);
}

function evmTerms(
  offer: SellersOffer,
  network: EvmNetwork,
  allowedAssets: readonly string[] | null,
): Result<BuyerTerms, string> {
  if (!isEvmAddress(offer.payTo)) return err("payTo is not an EVM address");
  if (!isEvmAddress(offer.asset)) return err("asset is not an EVM address");
  const { assetTransferMethod: method = EIP_3009 } = offer.extra;
  if (method !== EIP_3009) return err("it is to be paid in another way than by EIP-3009");
  const { asset } = network;
  if (sameAddress(asset.address, offer.asset)) {
    const token = { symbol: asset.symbol, decimals: asset.decimals };
    return ok({ kind: "evm", offer, network, token, domain: asset.eip712 });
  }
  if (!allowedAssets?.some((each) => sameAddress(each, offer.asset)))
    return unknownAsset(offer, allowedAssets);
  const { name, version } = offer.extra;
  if (!isName(name) || !isName(version)) {
    return err("the offer does not name the token's EIP-712 domain (extra.name, extra.version)");
  }
  return ok({ kind: "evm", offer, network, token: null, domain: { name, version } });
}

function solanaTerms(
  offer: SellersOffer,
  network: SolanaNetwork,
  allowedAssets: readonly string[] | null,
): Result<BuyerTerms, string> {
  const { feePayer, memo, recentBlockhash: hash } = offer.extra;
  if (!isSolanaAddress(offer.payTo)) return err("payTo is not a Solana address");
  if (!isSolanaAddress(offer.asset)) return err("asset is not a Solana address");
  if (typeof feePayer !== "string" || !isSolanaAddress(feePayer)) {
    return err("the offer names nobody who pays the network fee (extra.feePayer)");
  }
  if (offer.amount > MAX_UINT64) return err("no token account can hold this amount");
  const wanted = readMemo(memo);
  if (wanted === undefined) return err("extra.memo is not a text of a usable length");
  const blockhash =
    typeof hash === "string" && decodeBase58(hash, ADDRESS_BYTES) !== undefined ? hash : null;
  const common = { kind: "solana", offer, network, feePayer, memo: wanted, blockhash } as const;
  const { asset } = network;
  if (asset.address === offer.asset) {
    const token = { symbol: asset.symbol, decimals: asset.decimals };
    return ok({ ...common, token, tokenProgram: asset.tokenProgram });
  }
  if (!allowedAssets?.includes(offer.asset)) return unknownAsset(offer, allowedAssets);
  return ok({ ...common, token: null, tokenProgram: null });
}

function readMemo(memo: unknown): string | null | undefined {
  if (memo === undefined || memo === null || memo === "") return null;
  if (typeof memo !== "string") return undefined;
  return Buffer.byteLength(memo) <= MAX_MEMO_BYTES ? memo : undefined;
}

function unknownAsset(
  { asset }: SellersOffer,
  allowedAssets: readonly string[] | null,
): Result<never, string> {
  if (allowedAssets === null) return err("the token is not known here");
  return err(`the token is not known here; --allow-asset ${asset} would allow it, if you know it`);
}

function isName(value: unknown): value is string {
  return typeof value === "string" && value !== "" && value.length <= MAX_NAME;
}

/** `0.01 USDC ($0.01)`, or `77 atomic units of 0x…` where the token is not known. */
export function amountText({ offer, token }: BuyerTerms): string {
  if (token === null) return `${offer.amount} atomic units of the token ${offer.asset}`;
  const amount = formatAmount(offer.amount, token.decimals);
  return `${amount} ${token.symbol} ($${amount})`;
}

/** The most that may be paid: dollars with {@link LIMIT_DECIMALS}, or atomic units of whatever token. */
export type Limit =
  | { readonly kind: "dollars"; readonly amount: bigint; readonly written: string }
  | { readonly kind: "units"; readonly amount: bigint; readonly written: string };

/** No token has more. */
export const LIMIT_DECIMALS = 36;

/** A sentence on why the limit does not allow these terms; undefined where it does. */
export function limitFault(terms: BuyerTerms, limit: Limit): string | undefined {
  const { offer, token } = terms;
  if (limit.kind === "units") {
    return offer.amount <= limit.amount ? undefined : over(terms, `${limit.amount} atomic units`);
  }
  if (token === null) {
    return `nobody knows what ${amountText(terms)} are worth: say the most in atomic units, --max ${offer.amount}units`;
  }
  const cost = offer.amount * 10n ** BigInt(LIMIT_DECIMALS - token.decimals);
  return cost <= limit.amount ? undefined : over(terms, limit.written);
}

function over(terms: BuyerTerms, limit: string): string {
  return `${amountText(terms)} is more than the most that may be paid, ${limit}; raise it with --max`;
}
