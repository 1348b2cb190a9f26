/**
 * A purchase by the official client, with a look at what it sends: `x402-fetch` does the paying, and the
 * `fetch` that it is given remembers the payment header.
 */
import type { Hex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { createSigner, decodeXPaymentResponse, wrapFetchWithPayment } from "x402-fetch";
import { decodePaymentHeader } from "../../src/x402/header.ts";
import type { PaymentPayload } from "../../src/x402/x402.ts";

/** Ten dollars: the client's own default of ten cents would refuse the dearer routes. */
const MOST_ATOMIC = 10_000_000n;

/** Whose money is spent; the client takes the first offer that this account can pay. */
export type Purse =
  | { readonly kind: "evm"; readonly key: Hex }
  /** Base58 of 64 bytes; without a URL the client asks the public node of the network that it pays on. */
  | { readonly kind: "solana"; readonly key: string; readonly rpcUrl?: string };

export interface Purchase {
  readonly status: number;
  readonly body: string;
  /** What the client signed; undefined when nothing was asked for. */
  readonly payment: PaymentPayload | undefined;
  readonly receipt: { readonly success: boolean; readonly transaction: string } | undefined;
}

export async function purchase(
  purse: Purse,
  url: string,
  init: RequestInit = {},
): Promise<Purchase> {
  let payment: PaymentPayload | undefined;
  const watching: typeof fetch = async (input, request) => {
    const header = new Headers(request?.headers).get("X-PAYMENT");
    const decoded = header === null ? undefined : decodePaymentHeader(header);
    if (decoded?.ok) payment = decoded.value;
    return fetch(input, request);
  };
  const pay = await payWith(purse, watching);
  const response = await pay(url, { method: "GET", ...init });
  const receipt = response.headers.get("X-PAYMENT-RESPONSE");
  return {
    status: response.status,
    body: await response.text(),
    payment,
    receipt: receipt === null ? undefined : decodeXPaymentResponse(receipt),
  };
}

async function payWith(purse: Purse, request: typeof fetch) {
  if (purse.kind === "evm") {
    return wrapFetchWithPayment(request, privateKeyToAccount(purse.key), MOST_ATOMIC);
  }
  // One key serves both Solana networks, whatever the name.
  const signer = await createSigner("solana", purse.key);
  const { rpcUrl } = purse;
  const config = { svmConfig: rpcUrl === undefined ? {} : { rpcUrl } };
  return wrapFetchWithPayment(request, signer, MOST_ATOMIC, undefined, config);
}
