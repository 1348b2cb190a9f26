/** The smallest facilitator that can be made of `@x402/evm`: express, its v1 scheme, and one viem client. */
import { createServer } from "node:http";
import { toFacilitatorEvmSigner } from "@x402/evm";
import { ExactEvmSchemeV1 } from "@x402/evm/exact/v1/facilitator";
import express, { type NextFunction, type Request, type Response } from "express";
import { createWalletClient, http, publicActions } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { baseSepolia } from "viem/chains";
import { serve } from "../process.ts";

const [, , rpcUrl = "", privateKey = ""] = process.argv;
const account = privateKeyToAccount(`0x${privateKey.slice(2)}`);
const client = createWalletClient({
  chain: baseSepolia,
  transport: http(rpcUrl),
  account,
}).extend(publicActions);
const signer = toFacilitatorEvmSigner({ ...client, address: account.address } as never);
const scheme = new ExactEvmSchemeV1(signer);

const app = express();
app.use(express.json());
app.post("/settle", async (request, response) => {
  const { paymentPayload, paymentRequirements } = request.body;
  response.json(await scheme.settle(paymentPayload, paymentRequirements));
});
// What they throw at concurrent settlements would fill the screen; it is counted as not settled.
app.use((_error: unknown, _request: Request, response: Response, _next: NextFunction) => {
  response.status(500).end();
});
serve(createServer(app));
