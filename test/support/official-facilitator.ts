/**
 * A facilitator of version 2 alone as its operator makes it of the official packages, unmodified: `x402Facilitator` of
 * `@x402/core` with the exact scheme of `@x402/evm`, behind the three endpoints as their example serves them.
 */
import { createServer, type IncomingMessage } from "node:http";
import { json } from "node:stream/consumers";
import { x402Facilitator } from "@x402/core/facilitator";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { ExactEvmScheme } from "@x402/evm/exact/facilitator";
import { createWalletClient, http, publicActions, type Chain as ViemChain } from "viem";
import { baseSepolia } from "viem/chains";
import { drain, listen } from "../../src/gateway/listener/listener.ts";
import type { Chain } from "./chain.ts";
import { freshAccount } from "./payer.ts";

export interface OfficialFacilitator {
  readonly url: string;
  /** What was asked, in order. */
  readonly calls: readonly { readonly path: string; readonly body: unknown }[];
  [Symbol.asyncDispose](): Promise<void>;
}

/** On a chain that looks like Base Sepolia; `confirmationTimeoutMs`: how long it waits for a transaction. */
export async function startOfficialFacilitator(
  before: Chain,
  confirmationTimeoutMs = 10_000,
): Promise<OfficialFacilitator> {
  const { account, address } = freshAccount();
  await before.fund(address, 0n, 10n ** 18n);
  // Without the formatters of its own network, which the package's types do not know.
  const chain: ViemChain = baseSepolia;
  const transport = http(before.rpcUrl);
  const client = createWalletClient({ chain, transport, account, pollingInterval: 20 }).extend(
    publicActions,
  );
  const signer = toFacilitatorEvmSigner(
    {
      address,
      readContract: (args) => client.readContract(args),
      verifyTypedData: (args) => client.verifyTypedData(args as never),
      writeContract: (args) => client.writeContract({ ...args, chain, account } as never),
      sendTransaction: (args) => client.sendTransaction({ ...args, chain, account }),
      waitForTransactionReceipt: (args) => client.waitForTransactionReceipt(args),
      getCode: (args) => client.getCode(args),
    },
    { confirmationTimeoutMs },
  );
  const facilitator = new x402Facilitator();
  facilitator.register("eip155:84532", new ExactEvmScheme(signer));
  const calls: { path: string; body: unknown }[] = [];
  const answer = async (path: string, request: IncomingMessage): Promise<unknown> => {
    if (path === "/supported") {
      calls.push({ path, body: undefined });
      return facilitator.getSupported();
    }
    const body = Object(await json(request));
    calls.push({ path, body });
    const { paymentPayload, paymentRequirements } = body;
    return path === "/verify"
      ? facilitator.verify(paymentPayload, paymentRequirements)
      : facilitator.settle(paymentPayload, paymentRequirements);
  };
  const server = createServer((request, response) => {
    answer(request.url ?? "", request).then(
      (body) => response.writeHead(200).end(JSON.stringify(body)),
      // As the example does.
      (cause: unknown) => response.writeHead(500).end(JSON.stringify({ error: String(cause) })),
    );
  });
  const { port } = await listen(server, { host: "127.0.0.1", port: 0 });
  return {
    url: `http://127.0.0.1:${port}`,
    calls,
    [Symbol.asyncDispose]: () => drain(server, AbortSignal.abort()),
  };
}
