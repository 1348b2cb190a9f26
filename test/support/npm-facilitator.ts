/**
 * A facilitator as its operator makes it of the npm package `x402`, unmodified: its schemas, its `verify` and its
 * `settle`, behind the two endpoints. It looks at no nonce, keeps nothing, and answers a payment that was
 * settled before as one that fails.
 */
import { createServer, type IncomingMessage } from "node:http";
import { json } from "node:stream/consumers";
import {
  createPublicClient,
  createWalletClient,
  http,
  publicActions,
  type Chain as ViemChain,
} from "viem";
import { baseSepolia } from "viem/chains";
import { settle, verify } from "x402/facilitator";
import { PaymentPayloadSchema, PaymentRequirementsSchema } from "x402/types";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import type { Chain } from "./chain.ts";
import { freshAccount } from "./payer.ts";

export interface NpmFacilitator {
  readonly url: string;
  /** The paths that were asked for, in order. */
  readonly calls: readonly string[];
  /** Something on the way sends each settlement twice, and passes on the answer to the second. */
  isRepeated: boolean;
  [Symbol.asyncDispose](): Promise<void>;
}

/** On a chain that looks like Base Sepolia. */
export async function startNpmFacilitator(before: Chain): Promise<NpmFacilitator> {
  const { account, address } = freshAccount();
  await before.fund(address, 0n, 10n ** 18n);
  // Without the formatters of its own network, which the package's types do not know.
  const chain: ViemChain = baseSepolia;
  const transport = http(before.rpcUrl);
  const reader = createPublicClient({ chain, transport, pollingInterval: 20 });
  const signer = createWalletClient({ chain, transport, account, pollingInterval: 20 }).extend(
    publicActions,
  );
  const calls: string[] = [];
  const answer = async (path: string, request: IncomingMessage): Promise<unknown> => {
    const { paymentPayload, paymentRequirements } = Object(await json(request));
    const payment = PaymentPayloadSchema.parse(paymentPayload);
    const wanted = PaymentRequirementsSchema.parse(paymentRequirements);
    if (path === "/verify") return verify(reader, payment, wanted);
    if (facilitator.isRepeated) await settle(signer, payment, wanted);
    return settle(signer, payment, wanted);
  };
  const server = createServer((request, response) => {
    const { url = "" } = request;
    calls.push(url);
    answer(url, request).then(
      (body) => response.writeHead(200).end(JSON.stringify(body)),
      // As the examples do.
      () => response.writeHead(400).end(JSON.stringify({ error: "Invalid request" })),
    );
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  const facilitator: NpmFacilitator = {
    url: `http://127.0.0.1:${port}`,
    calls,
    isRepeated: false,
    [Symbol.asyncDispose]: () => drain(server, AbortSignal.abort()),
  };
  return facilitator;
}
