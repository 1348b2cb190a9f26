/** The official clients of both versions of the protocol, each buying one URL with a Solana signer. */
import { createKeyPairSignerFromBytes, type KeyPairSigner } from "@solana/kit";
import {
  decodePaymentResponseHeader,
  wrapFetchWithPayment as wrapFetchV2,
  x402Client,
} from "@x402/fetch";
import { wrapAxiosWithPayment, x402Client as AxiosX402Client } from "@x402/axios";
import { ExactSvmScheme } from "@x402/svm/exact/client";
import { ExactSvmSchemeV1 } from "@x402/svm/exact/v1/client";
import { create } from "axios";
import * as axiosClient from "x402-axios";
import * as fetchClient from "x402-fetch";
import { decodeBase58 } from "../../src/x402/solana-address.ts";
import type { SolanaKey } from "./solana-key.ts";

/** Bytes of a seed and its public key. */
const SECRET_BYTES = 64;

export interface Shopper {
  readonly key: SolanaKey;
  readonly network: "solana" | "solana-devnet";
  /** The client reads the token's mint and a blockhash there. */
  readonly rpcUrl: string;
}

export interface Bought {
  readonly status: number;
  /** Decoded JSON. */
  readonly body: unknown;
  /** As the client itself decodes it; empty where none was sent. */
  readonly receipt: Readonly<Record<string, unknown>>;
}

export type Client = (url: string, shopper: Shopper) => Promise<Bought>;

export const clients: Readonly<Record<string, Client>> = {
  "x402-fetch 1.2.0": async (url, shopper) => {
    const response = await buyWithFetch(url, shopper);
    return bought(response, fetchClient.decodeXPaymentResponse);
  },
  "x402-axios 0.7.2": async (url, { key, network, rpcUrl }) => {
    const signer = await axiosClient.createSigner(network, key.secret);
    const config = { svmConfig: { rpcUrl } };
    const client = axiosClient.withPaymentInterceptor(create(), signer, undefined, config);
    const { status, data, headers } = await client.get(url);
    const header = String(headers["x-payment-response"]);
    return { status, body: data, receipt: { ...axiosClient.decodeXPaymentResponse(header) } };
  },
  "@x402/fetch 2.27.0 with version 2": async (url, { key, rpcUrl }) => {
    const scheme = new ExactSvmScheme(await createSvmSigner(key), { rpcUrl });
    // Tokens beside the well-known ones are to be allowed.
    const client = new x402Client().setSpendControls({ allowedAssets: true });
    const pay = wrapFetchV2(fetch, client.register("solana:*", scheme));
    return bought(await pay(url), decodePaymentResponseHeader);
  },
  "@x402/fetch 2.27.0 with both versions": async (url, { key, network, rpcUrl }) => {
    const signer = await createSvmSigner(key);
    const client = new x402Client().setSpendControls({ allowedAssets: true });
    client.registerV1(network, new ExactSvmSchemeV1(signer, { rpcUrl }));
    client.register("solana:*", new ExactSvmScheme(signer, { rpcUrl }));
    return bought(await wrapFetchV2(fetch, client)(url), decodePaymentResponseHeader);
  },
  "@x402/axios 2.11.0 with version 2": async (url, { key, rpcUrl }) => {
    const scheme = new ExactSvmScheme(await createSvmSigner(key), { rpcUrl });
    const client = new AxiosX402Client().register("solana:*", scheme);
    const { status, data, headers } = await wrapAxiosWithPayment(create(), client).get(url);
    const receipt = { ...decodePaymentResponseHeader(String(headers["payment-response"])) };
    return { status, body: data, receipt };
  },
};

/** x402-fetch, whose requests may be looked at and held back. */
export async function buyWithFetch(
  url: string,
  { key, network, rpcUrl }: Shopper,
  request: typeof fetch = fetch,
): Promise<Response> {
  const signer = await fetchClient.createSigner(network, key.secret);
  const config = { svmConfig: { rpcUrl } };
  return fetchClient.wrapFetchWithPayment(request, signer, undefined, undefined, config)(url);
}

/** A signer as `@solana/kit` has it, from what a wallet exports. */
export function createSvmSigner({ secret }: SolanaKey): Promise<KeyPairSigner> {
  return createKeyPairSignerFromBytes(decodeBase58(secret, SECRET_BYTES) ?? new Uint8Array());
}

async function bought(response: Response, decode: (header: string) => object): Promise<Bought> {
  const { headers } = response;
  const header = headers.get("PAYMENT-RESPONSE") ?? headers.get("X-PAYMENT-RESPONSE");
  const receipt = header === null ? {} : { ...decode(header) };
  return { status: response.status, body: await response.json(), receipt };
}
