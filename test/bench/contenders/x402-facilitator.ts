/**
 * The smallest facilitator that can be made of the npm package `x402`: express, its schemas, its
 * `verify` and `settle`, and one viem client.
 */
import { createServer } from "node:http";
import express, { type NextFunction, type Request, type Response } from "express";
import { createPublicClient, createWalletClient, http, publicActions, type Chain } from "viem";
import { privateKeyToAccount } from "viem/accounts";
import { baseSepolia } from "viem/chains";
import { settle, verify } from "x402/facilitator";
import { PaymentPayloadSchema, PaymentRequirementsSchema } from "x402/types";
import { serve } from "../process.ts";

const [, , rpcUrl = "", privateKey = ""] = process.argv;
const chain: Chain = baseSepolia;
const reader = createPublicClient({ chain, transport: http(rpcUrl) });

const app = express();
app.use(express.json());
app.post("/verify", async (request, response) => {
  const { paymentPayload, paymentRequirements } = request.body;
  const payment = PaymentPayloadSchema.parse(paymentPayload);
  const requirements = PaymentRequirementsSchema.parse(paymentRequirements);
  response.json(await verify(reader, payment, requirements));
});
if (privateKey !== "") {
  const account = privateKeyToAccount(`0x${privateKey.slice(2)}`);
  const transport = http(rpcUrl);
  const signer = createWalletClient({ chain, transport, account }).extend(publicActions);
  app.post("/settle", async (request, response) => {
    const { paymentPayload, paymentRequirements } = request.body;
    const payment = PaymentPayloadSchema.parse(paymentPayload);
    const requirements = PaymentRequirementsSchema.parse(paymentRequirements);
    response.json(await settle(signer, payment, requirements));
  });
}
// What they throw at concurrent settlements would fill the screen; it is counted as not settled.
app.use((_error: unknown, _request: Request, response: Response, _next: NextFunction) => {
  response.status(500).end();
});
serve(createServer(app));
