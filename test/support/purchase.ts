/**
 * A purchase by the official client, with a look at what it sends: `x402-fetch` does the paying, and the
 * `fetch` that it is given remembers the payment header.
 */
import type { Hex } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { decodeXPaymentResponse, wrapFetchWithPayment } from "x402-fetch";
import { decodePaymentHeader } from "../../src/x402/header.ts";
import type { PaymentPayload } from "../../src/x402/x402.ts";

/** Ten dollars: the client's own default of ten cents would refuse the dearer routes. */
const MOST_ATOMIC = 10_000_000n;

export interface Purchase {
  readonly status: number;
  readonly body: string;
  /** What the client signed; undefined when nothing was asked for. */
  readonly payment: PaymentPayload | undefined;
  readonly receipt: { readonly success: boolean; readonly transaction: string } | undefined;
}

export async function purchase(
  privateKey: Hex,
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
  const account = privateKeyToAccount(privateKey);
  const pay = wrapFetchWithPayment(watching, account, MOST_ATOMIC);
  const response = await pay(url, { method: "GET", ...init });
  const receipt = response.headers.get("X-PAYMENT-RESPONSE");
  return {
    status: response.status,
    body: await response.text(),
    payment,
    receipt: receipt === null ? undefined : decodeXPaymentResponse(receipt),
  };
}
