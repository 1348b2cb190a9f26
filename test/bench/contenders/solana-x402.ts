/**
 * The smallest Solana facilitator that can be made of the npm package `x402`: express, its schemas, its
 * `verify` and `settle`, and one key. It makes its RPC clients itself, from the URL it is given; the
 * websocket is at the same address.
 */
import { createServer } from "node:http";
import express, { type NextFunction, type Request, type Response } from "express";
import { settle, verify } from "x402/facilitator";
import { createSigner, PaymentPayloadSchema, PaymentRequirementsSchema } from "x402/types";
import { serve } from "../process.ts";

const [, , rpcUrl = "", keypair = ""] = process.argv;
const signer = await createSigner("solana-devnet", keypair);
const config = { svmConfig: { rpcUrl } };
// It prints every failure; they are counted by their answers.
console.error = () => undefined;

const app = express();
app.use(express.json());
app.post("/verify", async (request, response) => {
  const { paymentPayload, paymentRequirements } = request.body;
  const payment = PaymentPayloadSchema.parse(paymentPayload);
  const requirements = PaymentRequirementsSchema.parse(paymentRequirements);
  response.json(await verify(signer, payment, requirements, config));
});
app.post("/settle", async (request, response) => {
  const { paymentPayload, paymentRequirements } = request.body;
  const payment = PaymentPayloadSchema.parse(paymentPayload);
  const requirements = PaymentRequirementsSchema.parse(paymentRequirements);
  response.json(await settle(signer, payment, requirements, config));
});
app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
  response.status(500).json({ error: String(error) });
});
serve(createServer(app));
