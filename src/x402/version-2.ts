/**
 * The wire types of the payment protocol, version 2, and their translation. Behind the edge there is one payment with
 * one way to pay, in the shapes of version 1 (`x402.ts`): here it is read from, and written in, those of version 2.
 * What differs beyond names: an EVM payment must pay the amount exactly, and codes say so in words of their own.
 */
import { sameAddress } from "./address.ts";
import type { ErrorCode } from "./error-code.ts";
import { findNetwork, findNetworkByCaip2 } from "./network.ts";
import {
  EXACT_SCHEME,
  X402_VERSION,
  X402_VERSION_2,
  type FacilitatorRequest,
  type PaymentPayload,
  type PaymentRequirements,
  type SettleResponse,
  type SupportedKind,
  type VerifyResponse,
} from "./x402.ts";

/** One acceptable way to pay (specification of version 2, section 5.1.2). */
export interface RequirementsV2 {
  readonly scheme: string;
  /** CAIP-2. */
  readonly network: string;
  /** Atomic token units, decimal digits. */
  readonly amount: string;
  readonly asset: string;
  readonly payTo: string;
  readonly maxTimeoutSeconds: number;
  readonly extra?: Readonly<Record<string, unknown>>;
}

/** What `extra` may say on Solana besides: a buyer who believes it need not ask the chain for it. */
export interface BlockhashHint {
  /** Base58. */
  readonly recentBlockhash: string;
  /** Decimal digits. */
  readonly lastValidBlockHeight?: string;
}

/** What is sold, beside `accepts` (section 5.1.2). */
export interface ResourceV2 {
  readonly url: string;
  readonly description?: string;
  readonly mimeType?: string;
  /** Printable ASCII, at most 32 characters each; at most five tags. */
  readonly serviceName?: string;
  readonly tags?: readonly string[];
  readonly iconUrl?: string;
}

/** By their names: what each says, and a JSON Schema of that (section 5.1.2). */
export type ExtensionsV2 = Readonly<Record<string, Readonly<Record<string, unknown>>>>;

/** The decoded `PAYMENT-SIGNATURE` header (section 5.2). */
export interface PaymentPayloadV2 {
  readonly x402Version: typeof X402_VERSION_2;
  readonly accepted: RequirementsV2;
  readonly payload: PaymentPayload["payload"];
  readonly resource?: ResourceV2;
  readonly extensions?: PaymentPayload["extensions"];
}

/** Content of `PAYMENT-RESPONSE`, and answer of `POST /settle` (section 5.3). */
export type SettleResponseV2 =
  | Extract<SettleResponse, { success: true }>
  | {
      readonly success: false;
      readonly errorReason: string;
      readonly errorMessage?: string;
      readonly transaction: string;
      readonly network: string;
      readonly payer: string;
    };

/** Answer of `POST /verify` (section 7.1). */
type VerifyResponseV2 =
  | { readonly isValid: true; readonly payer: string }
  | {
      readonly isValid: false;
      readonly invalidReason: string;
      readonly invalidMessage?: string;
      readonly payer: string;
    };

/** Says that the money moves before the work is done; official sellers and buyers take its absence for the contrary. */
export const PAYMENT_FLOW = { paymentFlow: "upfront" } as const;

/** What is said of when the money moves; nothing where that is after the work, as is taken of whoever says nothing. */
export function flowOf(isSettledAfter = false): Readonly<Record<string, string>> {
  return isSettledAfter ? {} : PAYMENT_FLOW;
}

/** The code of version 2 for a settlement that was sent, and of which nobody knows yet. */
export const SETTLEMENT_PENDING = "settlement_pending";

const VALUE_MISMATCH = "invalid_exact_evm_payload_authorization_value_mismatch";

/** Names of networks of version 1 in CAIP-2; whatever else is left as it is. */
export function caip2Of(network: string): string {
  return findNetwork(network)?.caip2 ?? network;
}

/** A network in CAIP-2 by its name of version 1; one that nobody here knows is left as it is. */
export function nameOfCaip2(network: string): string {
  return findNetworkByCaip2(network)?.name ?? network;
}

/**
 * The network of a kind of `/supported`, by its name of version 1; undefined where it is in the words of the other
 * version than the kind's, or of none that is known.
 */
export function nameOfKind({ x402Version, network }: SupportedKind): string | undefined {
  if (x402Version === X402_VERSION) return network;
  return x402Version === X402_VERSION_2 ? findNetworkByCaip2(network)?.name : undefined;
}

/** @param extra what is said beside what a way to pay says itself */
export function requirementsV2(
  { scheme, network, maxAmountRequired, asset, payTo, maxTimeoutSeconds, extra: own }: Offered,
  extra: Readonly<Record<string, unknown>> = {},
): RequirementsV2 {
  const said = { ...own, ...extra };
  return {
    scheme,
    network: caip2Of(network),
    amount: maxAmountRequired,
    asset,
    payTo,
    maxTimeoutSeconds,
    ...(Object.keys(said).length > 0 && { extra: said }),
  };
}

type Offered = Omit<PaymentRequirements, "resource" | "description">;

/** A way to pay of version 2 as everything behind the edge reads it. */
export function requirementsOf(
  { network, amount, ...rest }: RequirementsV2,
  { url, description = "", mimeType }: ResourceV2,
): PaymentRequirements {
  return {
    ...rest,
    network: nameOfCaip2(network),
    maxAmountRequired: amount,
    resource: url,
    description,
    ...(mimeType !== undefined && { mimeType }),
  };
}

/** What is sold, as version 2 has it. */
export function resourceV2({
  resource,
  description,
  mimeType = "",
}: Pick<PaymentRequirements, "resource" | "description" | "mimeType">): ResourceV2 {
  return {
    url: resource,
    ...(description !== "" && { description }),
    ...(mimeType !== "" && { mimeType }),
  };
}

/** Longest name of a service, and longest tag, characters; tags of a resource. */
const MAX_SERVICE_WORD = 32;
const MAX_TAGS = 5;
const SERVICE_WORD = new RegExp(`^[\\x20-\\x7e]{1,${MAX_SERVICE_WORD}}$`);

/**
 * What a route's metadata and the seller's name say of the service behind a resource. What version 2 does not take
 * is left out.
 */
export function serviceOf(
  { provider, category, tags }: Readonly<Record<string, unknown>>,
  brand: string,
): Pick<ResourceV2, "serviceName" | "tags"> {
  const serviceName = [provider, brand].find(isServiceWord);
  const words = [...(Array.isArray(tags) ? tags : [tags]), category].filter(isServiceWord);
  // Of each that spelling which comes first.
  const spelt = words.map((word) => word.toLowerCase());
  const kept = words.filter((_, index) => spelt.indexOf(spelt[index] ?? "") === index);
  return {
    ...(serviceName !== undefined && { serviceName }),
    ...(kept.length > 0 && { tags: kept.slice(0, MAX_TAGS) }),
  };
}

function isServiceWord(value: unknown): value is string {
  return typeof value === "string" && SERVICE_WORD.test(value);
}

/** A payment in the envelope of version 2, for that way to pay. */
export function paymentV2({
  paymentPayload,
  paymentRequirements,
}: FacilitatorRequest): PaymentPayloadV2 {
  const { payload, extensions } = paymentPayload;
  return {
    x402Version: X402_VERSION_2,
    accepted: requirementsV2(paymentRequirements, PAYMENT_FLOW),
    payload,
    ...(paymentRequirements.resource !== "" && { resource: resourceV2(paymentRequirements) }),
    ...(extensions !== undefined && { extensions }),
  };
}

/** A settlement in the words of version 2. */
export function settlementV2(settlement: SettleResponse): SettleResponseV2 {
  const network = caip2Of(settlement.network);
  if (settlement.success) return { ...settlement, network };
  const { errorReason, detail, codeV2: own, ...rest } = settlement;
  return {
    ...rest,
    network,
    errorReason: own ?? codeV2(errorReason),
    ...(detail !== undefined && { errorMessage: detail }),
  };
}

/** A verdict, or a settlement, in the words of version 1. */
export function inVersion1<Answer extends VerifyResponse | SettleResponse>(
  answer: Answer,
): Omit<Answer, "codeV2"> {
  if (!("codeV2" in answer)) return answer;
  const { codeV2: _, ...told } = answer;
  return told;
}

/** A settlement that was sent, and of which nobody knows yet: the same payment is to be sent again. */
export function pendingV2(
  {
    network,
    payer,
    detail,
  }: Pick<SettleResponse, "network" | "payer"> & { detail?: string | undefined },
  transaction: string,
): SettleResponseV2 {
  const message = detail === undefined ? {} : { errorMessage: detail };
  const told = { network: caip2Of(network), payer, transaction, ...message };
  return { success: false, errorReason: SETTLEMENT_PENDING, ...told };
}

/** A verdict in the words of version 2. */
export function verdictV2(verdict: VerifyResponse): VerifyResponseV2 {
  if (verdict.isValid) return verdict;
  const { invalidReason, detail, codeV2: own, ...rest } = verdict;
  return {
    ...rest,
    invalidReason: own ?? codeV2(invalidReason),
    ...(detail !== undefined && { invalidMessage: detail }),
  };
}

/**
 * What one facilitator takes, for callers of either version: a payment of one is settled as one of the other. First
 * version 1, whose clients take the first kind that they know. Networks that nobody here knows have one name only.
 */
export function inBothVersions(kinds: readonly SupportedKind[]): readonly SupportedKind[] {
  return [X402_VERSION, X402_VERSION_2].flatMap((x402Version) => {
    const isOwn = (kind: SupportedKind): boolean => kind.x402Version === x402Version;
    const byNetwork = new Map<string, SupportedKind>();
    for (const kind of [...kinds].sort((one, other) => Number(isOwn(other)) - Number(isOwn(one)))) {
      const known = findNetwork(kind.network) ?? findNetworkByCaip2(kind.network);
      if (kind.scheme !== EXACT_SCHEME || (known === undefined && !isOwn(kind))) continue;
      const name = x402Version === X402_VERSION ? known?.name : known?.caip2;
      const network = name ?? kind.network;
      if (!byNetwork.has(network)) byNetwork.set(network, { ...kind, x402Version, network });
    }
    return [...byNetwork.values()];
  });
}

/** The code of version 2 that says the same: there a value is wrong because it is another, not because it is less. */
export function codeV2(code: ErrorCode): string {
  return code === "invalid_exact_evm_payload_authorization_value" ? VALUE_MISMATCH : code;
}

/** The code that says the same here; whatever is none stays as it is. */
export function codeOfV2(code: unknown): unknown {
  return code === VALUE_MISMATCH ? "invalid_exact_evm_payload_authorization_value" : code;
}

/** Members of `extra` that are hints, or of which what is signed tells more. */
export const NOT_COMPARED: ReadonlySet<string> = new Set([
  "feePayer",
  "recentBlockhash",
  "lastValidBlockHeight",
]);

/**
 * The member of what a buyer has accepted that is not what is offered; undefined: it is that offer. Of `extra` all
 * that is offered has to be there, and more may be.
 */
export function mismatchOf(
  accepted: RequirementsV2,
  offer: Offered,
  isSettledAfter = false,
): string | undefined {
  const { extra = {}, ...wanted } = requirementsV2(offer, flowOf(isSettledAfter));
  const members = Object.entries(wanted) as [keyof typeof wanted, string | number][];
  const other = members.find(([name, value]) => !isSame(accepted[name], value));
  if (other !== undefined) return other[0];
  const odd = Object.entries(extra).find(([name, value]) => {
    return !NOT_COMPARED.has(name) && !isContained(value, accepted.extra?.[name]);
  });
  return odd && `extra.${odd[0]}`;
}

/** Addresses are one in any case where they are hex. */
function isSame(told: string | number, offered: string | number): boolean {
  if (told === offered) return true;
  return typeof told === "string" && typeof offered === "string" && sameAddress(told, offered);
}

/**
 * Whether all of a value, as JSON has it, is in another one of JSON: members may be added to objects, and to nothing
 * else. A file may hold numbers that JSON has not, and says null of.
 */
export function isContained(value: unknown, other: unknown): boolean {
  if (typeof value === "number" && !Number.isFinite(value)) return other === null;
  if (typeof value !== "object" || value === null) return value === other;
  if (typeof other !== "object" || other === null) return false;
  if (Array.isArray(value) !== Array.isArray(other)) return false;
  if (Array.isArray(value) && value.length !== (other as readonly unknown[]).length) return false;
  return Object.entries(value).every(([name, member]) => {
    return (
      Object.hasOwn(other, name) && isContained(member, (other as Record<string, unknown>)[name])
    );
  });
}
