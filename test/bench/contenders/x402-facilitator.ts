/**
 * The smallest facilitator that can be made of the npm package `x402`: express, its schemas, its
 * `verify`, and one viem client.
 */
import express from "express";
import { createPublicClient, http } from "viem";
import { baseSepolia } from "viem/chains";
import { verify } from "x402/facilitator";
import { PaymentPayloadSchema, PaymentRequirementsSchema } from "x402/types";
import { ready } from "../process.ts";

const [, , rpcUrl = ""] = process.argv;
const client = createPublicClient({ chain: baseSepolia, transport: http(rpcUrl) });

const app = express();
app.use(express.json());
app.post("/verify", async (request, response) => {
  const { paymentPayload, paymentRequirements } = request.body;
  const payment = PaymentPayloadSchema.parse(paymentPayload);
  const requirements = PaymentRequirementsSchema.parse(paymentRequirements);
  response.json(await verify(client, payment, requirements));
});
const server = app.listen(0, "127.0.0.1", () => {
  const address = server.address();
  if (typeof address === "object") ready(`http://127.0.0.1:${address?.port}`);
});
server.keepAliveTimeout = 75_000;
