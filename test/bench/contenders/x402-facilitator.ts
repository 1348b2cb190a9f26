/**
 * The smallest facilitator that can be made of the npm package `x402`: express, its schemas, its
 * `verify`, and one viem client.
 */
import { createServer } from "node:http";
import express from "express";
import { createPublicClient, http, type Chain } from "viem";
import { baseSepolia } from "viem/chains";
import { verify } from "x402/facilitator";
import { PaymentPayloadSchema, PaymentRequirementsSchema } from "x402/types";
import { serve } from "../process.ts";

const [, , rpcUrl = ""] = process.argv;
const chain: Chain = baseSepolia;
const client = createPublicClient({ chain, transport: http(rpcUrl) });

const app = express();
app.use(express.json());
app.post("/verify", async (request, response) => {
  const { paymentPayload, paymentRequirements } = request.body;
  const payment = PaymentPayloadSchema.parse(paymentPayload);
  const requirements = PaymentRequirementsSchema.parse(paymentRequirements);
  response.json(await verify(client, payment, requirements));
});
serve(createServer(app));
