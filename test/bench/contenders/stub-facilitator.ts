/**
 * A facilitator that finds every payment valid and settles it at once, so that what is measured is what a
 * seller's own process takes for a paid request.
 */
import { randomBytes } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import { serve } from "../process.ts";
import { NETWORK } from "./wares.ts";

const server = createServer(async (request, response) => {
  const answer = await answerTo(request);
  response.writeHead(200, { "Content-Type": "application/json" });
  response.end(JSON.stringify(answer));
});

async function answerTo(request: IncomingMessage): Promise<object> {
  if (request.method === "GET") {
    request.resume();
    return { kinds: [{ x402Version: 1, scheme: "exact", network: NETWORK }] };
  }
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  const { paymentPayload } = JSON.parse(Buffer.concat(parts).toString("utf8"));
  const payer: string = paymentPayload.payload.authorization.from;
  if (request.url === "/verify") return { isValid: true, payer };
  const transaction = `0x${randomBytes(32).toString("hex")}`;
  return { success: true, transaction, network: NETWORK, payer };
}

serve(server);
