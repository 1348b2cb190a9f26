/** A buyer that speaks the protocol by hand, for what the official clients would never send. */
import { encodeHeaderJson, PAYMENT_HEADERS, RECEIPT_HEADERS } from "../../src/x402/header.ts";
import { paymentV2 } from "../../src/x402/version-2.ts";
import {
  X402_VERSION,
  X402_VERSION_2,
  type EvmAuthorization,
  type FacilitatorRequest,
  type PaymentRequirements,
  type X402Version,
} from "../../src/x402/x402.ts";
import type { Chain } from "./chain.ts";
import { freshAccount, signPayment, type FreshAccount } from "./payer.ts";

/** Atomic units that a fresh buyer owns: five dollars. */
export const PURSE = 5_000_000n;

export async function richBuyer(chain: Chain): Promise<FreshAccount> {
  const buyer = freshAccount();
  await chain.fund(buyer.address, PURSE);
  return buyer;
}

/** The first offer of a 402 answer. */
export async function quote(url: string, init: RequestInit = {}): Promise<PaymentRequirements> {
  const response = await fetch(url, init);
  const body: unknown = await response.json();
  const { accepts } = Object(body);
  if (response.status !== 402) throw new Error(`expected 402, not ${response.status}`);
  return accepts[0];
}

/** The versions in which a payment is shown, for tests that try each. */
export const VERSIONS = [X402_VERSION, X402_VERSION_2] as const;

interface SignOptions {
  readonly init?: RequestInit;
  readonly overrides?: Partial<EvmAuthorization>;
  /** Another EIP-712 domain than the token's. */
  readonly domain?: { readonly name?: string; readonly version?: string };
  readonly chainId?: number;
}

/** A signed payment for what a URL costs, as it stands in the header of each version. */
export async function signInBoth(
  buyer: FreshAccount,
  url: string,
  { init, ...signing }: SignOptions = {},
): Promise<Readonly<Record<X402Version, string>>> {
  const requirements = await quote(url, init);
  const payment = await signPayment({ account: buyer.account, requirements, ...signing });
  return inBoth({ paymentPayload: payment, paymentRequirements: requirements });
}

/** The same in one version; default: 1. */
export async function sign(
  buyer: FreshAccount,
  url: string,
  { version = X402_VERSION, ...options }: SignOptions & { readonly version?: X402Version } = {},
): Promise<string> {
  return (await signInBoth(buyer, url, options))[version];
}

/** A payment as it stands in the header of each version. */
export function inBoth(request: FacilitatorRequest): Readonly<Record<X402Version, string>> {
  return { 1: inHeader(request, X402_VERSION), 2: inHeader(request, X402_VERSION_2) };
}

/** The same in one version. */
export function inHeader(request: FacilitatorRequest, version: X402Version): string {
  const { paymentPayload } = request;
  return encodeHeaderJson(version === X402_VERSION ? paymentPayload : paymentV2(request));
}

export interface PaidAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  /** The `error` of an answer about a payment; "" in any other. */
  readonly error: string;
  /** The decoded receipt; undefined where none was sent. */
  readonly receipt: Record<string, unknown> | undefined;
}

/** @param version in whose header it is shown */
export async function present(
  url: string,
  header: string,
  init: RequestInit = {},
  version: X402Version = X402_VERSION,
): Promise<PaidAnswer> {
  const headers = { ...Object(init.headers), [PAYMENT_HEADERS[version]]: header };
  const response = await fetch(url, { ...init, headers });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    error: errorOf(text),
    receipt: headerJson(response.headers, RECEIPT_HEADERS[version]),
  };
}

/** What a header of the protocol says; undefined where it is not there. */
export function headerJson(headers: Headers, name: string): ReturnType<typeof JSON.parse> {
  const value = headers.get(name);
  return value === null ? undefined : JSON.parse(atob(value));
}

function errorOf(text: string): string {
  try {
    const { error } = Object(JSON.parse(text));
    return typeof error === "string" ? error : "";
  } catch {
    return "";
  }
}
