/** A buyer that speaks the protocol by hand, for what the official clients would never send. */
import { encodePaymentHeader } from "../../src/x402/header.ts";
import type { EvmAuthorization, PaymentRequirements } from "../../src/x402/x402.ts";
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

/** A signed `X-PAYMENT` for what a URL costs. */
export async function sign(
  buyer: FreshAccount,
  url: string,
  options: { readonly init?: RequestInit; readonly overrides?: Partial<EvmAuthorization> } = {},
): Promise<string> {
  const requirements = await quote(url, options.init);
  const { overrides = {} } = options;
  const payment = await signPayment({ account: buyer.account, requirements, overrides });
  return encodePaymentHeader(payment);
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

export async function present(
  url: string,
  header: string,
  init: RequestInit = {},
): Promise<PaidAnswer> {
  const headers = { ...Object(init.headers), "X-PAYMENT": header };
  const response = await fetch(url, { ...init, headers });
  const text = await response.text();
  const encoded = response.headers.get("X-PAYMENT-RESPONSE");
  return {
    status: response.status,
    headers: response.headers,
    text,
    error: errorOf(text),
    receipt: encoded === null ? undefined : JSON.parse(atob(encoded)),
  };
}

function errorOf(text: string): string {
  try {
    const { error } = Object(JSON.parse(text));
    return typeof error === "string" ? error : "";
  } catch {
    return "";
  }
}
