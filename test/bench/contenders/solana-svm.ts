/**
 * The smallest Solana facilitator that can be made of `@x402/svm`: express, its scheme for protocol version
 * 1, and one key. It is given one RPC client that it keeps, which is the best it can be given: with a URL
 * it would make another for each call.
 */
import { createServer } from "node:http";
import { createKeyPairSignerFromBytes, createSolanaRpc, devnet } from "@solana/kit";
import { toFacilitatorSvmSigner } from "@x402/svm";
import { ExactSvmSchemeV1 } from "@x402/svm/exact/v1/facilitator";
import express, { type NextFunction, type Request, type Response } from "express";
import { decodeBase58 } from "../../../src/x402/solana-address.ts";
import { serve } from "../process.ts";

const KEYPAIR_BYTES = 64;

const [, , rpcUrl = "", keypair = ""] = process.argv;
const key = decodeBase58(keypair, KEYPAIR_BYTES);
if (key === undefined) throw new TypeError("the second argument is a key pair in base58");
// By network: it does not recognise a client that it is given as such.
const signer = toFacilitatorSvmSigner(await createKeyPairSignerFromBytes(key), {
  "solana-devnet": createSolanaRpc(devnet(rpcUrl)),
});
const scheme = new ExactSvmSchemeV1(signer);

const app = express();
app.use(express.json());
app.post("/verify", async (request, response) => {
  const { paymentPayload, paymentRequirements } = request.body;
  response.json(await scheme.verify(paymentPayload, paymentRequirements));
});
app.post("/settle", async (request, response) => {
  const { paymentPayload, paymentRequirements } = request.body;
  response.json(await scheme.settle(paymentPayload, paymentRequirements));
});
app.use((error: unknown, _request: Request, response: Response, _next: NextFunction) => {
  response.status(500).json({ error: String(error) });
});
serve(createServer(app));
