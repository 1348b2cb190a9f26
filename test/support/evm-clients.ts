/** The official clients of both versions of the protocol, each buying one URL with an EVM account. */
import { wrapAxiosWithPayment, x402Client as AxiosX402Client } from "@x402/axios";
import { ExactEvmScheme } from "@x402/evm/exact/client";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/client";
import { decodePaymentResponseHeader, wrapFetchWithPayment, x402Client } from "@x402/fetch";
import { create } from "axios";
import { decodeXPaymentResponse as decodeAxiosResponse, withPaymentInterceptor } from "x402-axios";
import { decodeXPaymentResponse, wrapFetchWithPayment as wrapFetchOfVersion1 } from "x402-fetch";
import type { FreshAccount } from "./payer.ts";

export interface EvmPurchase {
  readonly status: number;
  readonly body: unknown;
  /** As the client itself decodes it. */
  readonly receipt: Readonly<Record<string, unknown>>;
}

export type EvmClient = (
  url: string,
  buyer: Pick<FreshAccount, "account">,
  body?: object,
) => Promise<EvmPurchase>;

/** Which versions a client of the newer packages was given a scheme for. */
type Schemes = "version 2" | "version 1" | "both versions";

const fetchOf =
  (schemes: Schemes): EvmClient =>
  async (url, { account }, body) => {
    const client = new x402Client();
    if (schemes !== "version 1") client.register("eip155:*", new ExactEvmScheme(account));
    if (schemes !== "version 2") client.registerV1("base-sepolia", new ExactEvmSchemeV1(account));
    const response = await wrapFetchWithPayment(fetch, client)(url, requestOf(body));
    const header = response.headers.get("PAYMENT-RESPONSE");
    const older = response.headers.get("X-PAYMENT-RESPONSE") ?? "";
    const receipt = { ...decodePaymentResponseHeader(header ?? older) };
    return { status: response.status, body: await response.json(), receipt };
  };

const axiosOf =
  (schemes: Schemes): EvmClient =>
  async (url, { account }, body) => {
    const client = new AxiosX402Client();
    if (schemes !== "version 1") client.register("eip155:*", new ExactEvmScheme(account));
    if (schemes !== "version 2") client.registerV1("base-sepolia", new ExactEvmSchemeV1(account));
    const paying = wrapAxiosWithPayment(create(), client);
    const { status, data, headers } = await (body === undefined
      ? paying.get(url)
      : paying.post(url, body));
    const header = String(headers["payment-response"] ?? headers["x-payment-response"]);
    return { status, body: data, receipt: { ...decodePaymentResponseHeader(header) } };
  };

/** Those that buy from a seller of both versions, with the version that they choose. */
export const evmClients: Readonly<
  Record<string, { readonly version: 1 | 2; readonly buy: EvmClient }>
> = {
  "x402-fetch 1.2.0": {
    version: 1,
    buy: async (url, { account }, body) => {
      const response = await wrapFetchOfVersion1(fetch, account)(url, requestOf(body));
      const header = response.headers.get("X-PAYMENT-RESPONSE") ?? "";
      const receipt = { ...decodeXPaymentResponse(header) };
      return { status: response.status, body: await response.json(), receipt };
    },
  },
  "x402-axios 0.7.2": {
    version: 1,
    buy: async (url, { account }, body) => {
      const client = withPaymentInterceptor(create(), account);
      const { status, data, headers } = await (body === undefined
        ? client.get(url)
        : client.post(url, body));
      const receipt = { ...decodeAxiosResponse(String(headers["x-payment-response"])) };
      return { status, body: data, receipt };
    },
  },
  "@x402/fetch 2.27.0 with version 2": { version: 2, buy: fetchOf("version 2") },
  "@x402/fetch 2.27.0 with both versions": { version: 2, buy: fetchOf("both versions") },
  "@x402/axios 2.11.0 with version 2": { version: 2, buy: axiosOf("version 2") },
  "@x402/axios 2.11.0 with both versions": { version: 2, buy: axiosOf("both versions") },
};

/** Packages of version 2 that were given schemes of version 1 alone: they look at nothing but the header, where there is one. */
export const evmClientsOfVersion1Alone: Readonly<Record<string, EvmClient>> = {
  "@x402/fetch 2.27.0 with version 1": fetchOf("version 1"),
  "@x402/axios 2.11.0 with version 1": axiosOf("version 1"),
};

function requestOf(body: object | undefined): RequestInit {
  if (body === undefined) return { method: "GET" };
  const headers = { "Content-Type": "application/json" };
  return { method: "POST", headers, body: JSON.stringify(body) };
}
