/**
 * An EVM payment as a value (protocol section 2.2), and everything about it that needs neither chain
 * nor clock of its own: what the requirements ask, and whether the authorization gives it.
 */
import { LRUCache } from "lru-cache";
import { checksumAddress, isEvmAddress, sameAddress } from "../../x402/address.ts";
import { parseUint256 } from "../../x402/amount.ts";
import { isEvmPayload } from "../../x402/payment-key.ts";
import type { EvmAsset, EvmNetwork, NetworkName } from "../../x402/network.ts";
import { err, ok, refuse, type Refusal, type Result } from "../../x402/result.ts";
import {
  EXACT_SCHEME,
  X402_VERSION_2,
  type EvmPayload,
  type FacilitatorRequest,
  type PaymentRequirements,
} from "../../x402/x402.ts";
import { unitsText } from "../../x402/token.ts";
import type { Checked } from "../mechanism.ts";
import { addressWord, uintWord } from "./abi.ts";
import { authorizationDigest, createToken, type Token } from "./token.ts";
import { secp256k1 } from "./signature.ts";
import { ownSignature, SIGNATURE_DIGITS, withV } from "./written-signature.ts";

/** A parsed payment, and the token that it is in. Addresses and nonce in lower case, with `0x`. */
export interface EvmCheckedAuthorization {
  readonly token: Token;
  readonly from: string;
  readonly to: string;
  /** Atomic token units. */
  readonly value: bigint;
  /** Unix seconds. */
  readonly validAfter: bigint;
  /** Unix seconds. */
  readonly validBefore: bigint;
  readonly nonce: string;
  /** Hex without `0x`, lower case, and without what ERC-6492 wraps it in. */
  readonly signature: string;
  /** The six members above as ABI words: both what was signed and what the token is called with. */
  readonly words: string;
  /** Whether the signature was proven to be the payer's own; a smart wallet's cannot be, locally. */
  readonly proven: boolean;
}

/** What requirements have to be like, to be served at all. */
export interface TokenTerms {
  /** By lower-case address. */
  readonly tokens: ReadonlyMap<string, Token>;
  /** Lower-case addresses; null allows every recipient. */
  readonly payTo: ReadonlySet<string> | null;
  /** Seconds of validity that must be left, so that the authorization does not expire before its block. */
  readonly validBeforeMarginSeconds: number;
}

/** Seconds of validity that must be left by default: about two blocks of the slowest network. */
export const VALID_BEFORE_MARGIN_SECONDS = 6;

export function createTokens(
  { chainId }: EvmNetwork,
  assets: readonly EvmAsset[],
): ReadonlyMap<string, Token> {
  return new Map(assets.map((asset) => [asset.address.toLowerCase(), createToken(asset, chainId)]));
}

const NONCE = /^0x[0-9a-fA-F]{64}$/;
const SIGNATURE = /^0x(?:[0-9a-fA-F]{2})*$/;

/** Reads a whole request for a network, without judging the payment. */
export function readRequest(
  request: FacilitatorRequest,
  network: NetworkName,
  terms: TokenTerms,
): Result<EvmCheckedAuthorization, Refusal> {
  const fault = envelopeFault(request, network);
  if (fault !== undefined) return err(fault);
  const token = readRequirements(request.paymentRequirements, terms);
  return token.ok ? readAuthorization(request, token.value) : token;
}

/**
 * Reads a payment that others accepted, or an earlier life of ours did, in whatever token that was: of one that
 * is not configured only the address is known, and nothing else is needed to find its events.
 */
export function readAccepted(
  request: FacilitatorRequest,
  { name, chainId }: EvmNetwork,
  tokens: TokenTerms["tokens"],
): Result<EvmCheckedAuthorization, Refusal> {
  const fault = envelopeFault(request, name);
  if (fault !== undefined) return err(fault);
  const { asset: address } = request.paymentRequirements;
  if (!isEvmAddress(address)) return unfit("asset is not an EVM address");
  const asset = { address, symbol: "", decimals: 0, eip712: { name: "", version: "" } };
  const token = tokens.get(address.toLowerCase()) ?? createToken(asset, chainId);
  return readAuthorization(request, token);
}

/** Whether it is for that network at all. */
function envelopeFault(
  { paymentPayload, paymentRequirements }: FacilitatorRequest,
  network: NetworkName,
): Refusal | undefined {
  for (const part of [paymentPayload, paymentRequirements]) {
    if (part.scheme !== EXACT_SCHEME) {
      return { code: "invalid_scheme", detail: `only ${EXACT_SCHEME} is served` };
    }
    if (part.network !== network) return { code: "invalid_network", detail: `this is ${network}` };
  }
  return undefined;
}

/** The token that the requirements ask for, or `invalid_payment_requirements` with the first fault. */
function readRequirements(
  requirements: PaymentRequirements,
  terms: TokenTerms,
): Result<Token, Refusal> {
  const token = terms.tokens.get(requirements.asset.toLowerCase());
  if (token === undefined) return unfit("asset is not one that is served on this network");
  if (!isEvmAddress(requirements.payTo)) return unfit("payTo is not an EVM address");
  if (terms.payTo !== null && !terms.payTo.has(requirements.payTo.toLowerCase())) {
    return unfit("payTo is not a recipient that is served here");
  }
  if (parseUint256(requirements.maxAmountRequired) === undefined) {
    return unfit("maxAmountRequired is not an amount in atomic units");
  }
  // Members of the EIP-712 domain; where they are absent, the token's own are meant.
  for (const member of ["name", "version"] as const) {
    const stated = requirements.extra?.[member] ?? token.asset.eip712[member];
    if (stated !== token.asset.eip712[member]) {
      return unfit(`extra.${member} is not the token's, ${token.asset.eip712[member]}`);
    }
  }
  if (requirements.maxTimeoutSeconds <= terms.validBeforeMarginSeconds) {
    return unfit(`maxTimeoutSeconds must exceed ${terms.validBeforeMarginSeconds}`);
  }
  return ok(token);
}

/** Reads the payload for that token and recovers its signer. Refusal: `invalid_payload`. */
function readAuthorization(
  request: FacilitatorRequest,
  token: Token,
): Result<EvmCheckedAuthorization, Refusal> {
  const { payload } = request.paymentPayload;
  if (!isEvmPayload(payload)) {
    return refuse("invalid_payload", "the payload must hold signature and authorization");
  }
  const members = readMembers(payload);
  if (members === undefined) {
    return refuse("invalid_payload", "the authorization or its signature is malformed");
  }
  const { from, to, value, validAfter, validBefore, nonce, signature } = members;
  const words =
    addressWord(from) +
    addressWord(to) +
    uintWord(value) +
    uintWord(validAfter) +
    uintWord(validBefore) +
    nonce.slice(2);
  const unsigned = { token, words, from };
  const proven = isProven({ ...unsigned, signature });
  const own = proven ? undefined : withV(signature);
  if (own !== undefined && isProven({ ...unsigned, signature: own })) {
    return ok({ ...members, token, words, signature: own, proven: true });
  }
  return ok({ ...members, token, words, proven });
}

/** Signatures of each token whose answer is remembered: a payment is read several times on its way. */
const MAX_REMEMBERED = 1_024;
const remembered = new WeakMap<Token, LRUCache<string, Answer>>();

interface Answer {
  /** All that is signed, the payer among it. */
  readonly words: string;
  readonly proven: boolean;
}

function isProven({
  token,
  words,
  from,
  signature,
}: Pick<EvmCheckedAuthorization, "token" | "words" | "from" | "signature">): boolean {
  if (signature.length !== SIGNATURE_DIGITS) return false;
  const answers = remembered.get(token) ?? new LRUCache<string, Answer>({ max: MAX_REMEMBERED });
  remembered.set(token, answers);
  const known = answers.get(signature);
  if (known?.words === words) return known.proven;
  const digest = authorizationDigest(token, words);
  const proven = secp256k1.recover(digest, Buffer.from(signature, "hex")) === from;
  answers.set(signature, { words, proven });
  return proven;
}

type Members = Omit<EvmCheckedAuthorization, "token" | "words" | "proven">;

/** Undefined for what the wire schema would not have let through. */
function readMembers({ authorization, signature }: EvmPayload): Members | undefined {
  const { from, to, nonce } = authorization;
  const value = parseUint256(authorization.value);
  const validAfter = parseUint256(authorization.validAfter);
  const validBefore = parseUint256(authorization.validBefore);
  if (value === undefined || validAfter === undefined || validBefore === undefined) {
    return undefined;
  }
  if (!isEvmAddress(from) || !isEvmAddress(to)) return undefined;
  if (!NONCE.test(nonce) || !SIGNATURE.test(signature)) return undefined;
  return {
    from: from.toLowerCase(),
    to: to.toLowerCase(),
    value,
    validAfter,
    validBefore,
    nonce: nonce.toLowerCase(),
    signature: ownSignature(signature.slice(2).toLowerCase()),
  };
}

/**
 * The first fault other than the signature: recipient, window, amount (protocol section 4.1). In version 1 a payment may
 * be of more than is asked for, in version 2 of nothing else.
 */
export function firstFault(
  authorization: EvmCheckedAuthorization,
  { paymentPayload, paymentRequirements: requirements }: FacilitatorRequest,
  now: number,
  marginSeconds: number,
): Refusal | null {
  if (!sameAddress(authorization.to, requirements.payTo)) {
    return {
      code: "invalid_exact_evm_payload_recipient_mismatch",
      detail: "the authorization pays another address than payTo",
    };
  }
  const seconds = BigInt(Math.floor(now));
  if (authorization.validBefore < seconds + BigInt(marginSeconds)) {
    return {
      code: "invalid_exact_evm_payload_authorization_valid_before",
      detail: `validBefore is past or less than ${marginSeconds} s away`,
    };
  }
  if (authorization.validAfter > seconds) {
    return {
      code: "invalid_exact_evm_payload_authorization_valid_after",
      detail: "validAfter is still to come",
    };
  }
  const amount = BigInt(requirements.maxAmountRequired);
  const isMore = paymentPayload.x402Version === X402_VERSION_2 && authorization.value > amount;
  if (authorization.value < amount || isMore) {
    return {
      code: "invalid_exact_evm_payload_authorization_value",
      detail: `the authorization pays ${isMore ? "more" : "less"} than ${unitsText([amount], authorization.token.asset)}`,
    };
  }
  return null;
}

/** Nobody signs for it, and it has no code. */
const NOBODY = `0x${"0".repeat(40)}`;

/**
 * Why a payment is refused whose signature is no key's of the payer's, whatever a wallet would say of it: by the wire
 * the signature comes before every other fault, and nothing has proven it. Null: it may be a wallet's.
 */
function unprovenFault({ from }: EvmCheckedAuthorization, fault: Refusal | null): Refusal | null {
  const code = "invalid_exact_evm_payload_signature";
  if (from === NOBODY) return { code, detail: "the zero address signs nothing" };
  if (fault === null) return null;
  const detail = `the signature is not the payer's own key's; of a smart wallet's payment: ${fault.detail}`;
  return { code, detail };
}

/**
 * What the local checks have found, by the first fault other than the signature.
 * @param denied why no signature is looked at that is no key's of the payer's
 */
export function checkedBy(
  authorization: EvmCheckedAuthorization,
  fault: Refusal | null,
  denied?: Refusal,
): Checked<EvmCheckedAuthorization> {
  const { proven, from } = authorization;
  return {
    authorization,
    payer: checksumAddress(from),
    proven,
    // An unproven signature leaves nobody else to judge it.
    runsCode: !proven,
    fault: proven ? fault : (denied ?? unprovenFault(authorization, fault)),
  };
}

function unfit(detail: string): Result<never, Refusal> {
  return refuse("invalid_payment_requirements", detail);
}
