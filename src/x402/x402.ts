/**
 * The wire types of the payment protocol, version 1 (protocol section 2). Field names are the wire's
 * own. Amounts are strings in atomic token units, times are Unix seconds. Payments of version 2 (`version-2.ts`) have
 * these shapes, too, once they are read, with their own version and the names of networks of version 1.
 */
import type { ErrorCode } from "./error-code.ts";

/** The version of these shapes (section 9). */
export const X402_VERSION = 1;
export const X402_VERSION_2 = 2;

/** The envelopes in which a payment may come. */
export type X402Version = typeof X402_VERSION | typeof X402_VERSION_2;

/** Which of them are spoken. */
export interface SpokenVersions {
  readonly v1: boolean;
  readonly v2: boolean;
}

export const BOTH_VERSIONS: SpokenVersions = { v1: true, v2: true };

export function isVersion(version: number): version is X402Version {
  return version === X402_VERSION || version === X402_VERSION_2;
}

/** The one payment scheme defined: a payment of a specific amount (section 1). */
export const EXACT_SCHEME = "exact";

/** One acceptable way to pay: an element of `accepts` (section 2.1). */
export interface PaymentRequirements {
  readonly scheme: string;
  readonly network: string;
  /** Atomic token units, decimal digits. */
  readonly maxAmountRequired: string;
  /** Token contract (EVM, EIP-55 on the way out) or mint (Solana). */
  readonly asset: string;
  readonly payTo: string;
  /** Absolute URL of the protected resource. */
  readonly resource: string;
  readonly description: string;
  readonly mimeType?: string;
  readonly outputSchema?: Readonly<Record<string, unknown>>;
  /** Whole seconds within which the payment must be complete. */
  readonly maxTimeoutSeconds: number;
  /** EVM: `name` and `version` of the token's EIP-712 domain. Solana: `feePayer`. */
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** Body of a 402 response (section 2.1); our 400 and 500 answers have the same shape. */
export interface PaymentRequiredResponse {
  readonly x402Version: number;
  readonly error: string;
  readonly accepts: readonly PaymentRequirements[];
}

/** EIP-3009 parameters as the wire carries them: numbers are decimal strings (section 2.2). */
export interface EvmAuthorization {
  readonly from: string;
  readonly to: string;
  readonly value: string;
  readonly validAfter: string;
  readonly validBefore: string;
  readonly nonce: string;
}

export interface EvmPayload {
  readonly signature: string;
  readonly authorization: EvmAuthorization;
}

export interface SolanaPayload {
  /** Base64 of a partially signed transaction. */
  readonly transaction: string;
}

/** The decoded `X-PAYMENT` header (section 2.2), or what is left of `PAYMENT-SIGNATURE` behind the edge. */
export interface PaymentPayload {
  /** Of the envelope in which it came: a payment of version 2 must pay the amount exactly. */
  readonly x402Version: number;
  readonly scheme: string;
  readonly network: string;
  /** {@link EvmPayload} or {@link SolanaPayload}; opaque where scheme or network are not ours. */
  readonly payload: EvmPayload | SolanaPayload | Readonly<Record<string, unknown>>;
  /** Version 2: what its client said beside it, by the names of extensions. */
  readonly extensions?: Readonly<Record<string, unknown>>;
}

/** Body of `POST /verify` and `POST /settle` (sections 4.1, 4.2). */
export interface FacilitatorRequest {
  readonly paymentPayload: PaymentPayload;
  readonly paymentRequirements: PaymentRequirements;
}

/** Answer of `POST /verify` (section 2.4). `payer` is `""` when it cannot be known. */
export type VerifyResponse =
  | { readonly isValid: true; readonly payer: string }
  | {
      readonly isValid: false;
      readonly invalidReason: ErrorCode;
      readonly payer: string;
      /** Our extension: one sentence. */
      readonly detail?: string;
      /** What version 2 calls it, where that has a code of its own: for nobody's eyes in version 1. */
      readonly codeV2?: string;
    };

/** Answer of `POST /settle` and content of `X-PAYMENT-RESPONSE` (section 2.3). */
export type SettleResponse =
  | {
      readonly success: true;
      readonly transaction: string;
      readonly network: string;
      readonly payer: string;
    }
  | {
      readonly success: false;
      readonly errorReason: ErrorCode;
      readonly transaction: "";
      readonly network: string;
      readonly payer: string;
      /** Our extension: one sentence. */
      readonly detail?: string;
      /** What version 2 calls it, where that has a code of its own: for nobody's eyes in version 1. */
      readonly codeV2?: string;
    };

/** One element of `kinds` (section 2.5). */
export interface SupportedKind {
  readonly x402Version: number;
  readonly scheme: string;
  readonly network: string;
  readonly extra?: Readonly<Record<string, unknown>>;
}

export interface SupportedResponse {
  readonly kinds: readonly SupportedKind[];
  /** As in version 2: the accounts that settle, by CAIP-2 network or pattern (`eip155:*`). */
  readonly signers?: Readonly<Record<string, readonly string[]>>;
  /**
   * Ours, beyond the protocol: networks on which one durable ledger stands behind every answer. There a request
   * that is repeated with its `Idempotency-Key` gets the same answer, and a refusal is final: the payment was
   * not settled for that key and will not be, whatever the chain shows.
   */
  readonly finalRefusals?: readonly string[];
  /**
   * Ours as well: networks of these kinds on which no payment can be judged or settled at the moment. They stay among
   * the kinds, since sellers read those once, at their start.
   */
  readonly closed?: readonly string[];
}

/** One element of the discovery listing (section 2.6). */
export interface DiscoveredResource {
  readonly resource: string;
  /** `mcp`: a tool, in the words of version 2 alone. */
  readonly type: "http" | "mcp";
  readonly x402Version: number;
  readonly accepts: readonly PaymentRequirements[];
  /** Unix seconds of the last change of the route's public terms. */
  readonly lastUpdated: number;
  readonly metadata?: Readonly<Record<string, unknown>>;
}

/** Answer of `GET /discovery/resources` (section 4.4). */
export interface DiscoveryResponse {
  readonly x402Version: number;
  readonly items: readonly DiscoveredResource[];
  readonly pagination: { readonly limit: number; readonly offset: number; readonly total: number };
}
