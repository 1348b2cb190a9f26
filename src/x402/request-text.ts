/** The JSON of a request to a facilitator, made once for the ledger, the verification and the settlement. */
import type { FacilitatorRequest } from "./x402.ts";

/** For as long as somebody has the request. */
const texts = new WeakMap<FacilitatorRequest, string>();

/** Payload, then requirements; without `x402Version`. A request does not change once it is made. */
export function requestText(request: FacilitatorRequest): string {
  const known = texts.get(request);
  if (known !== undefined) return known;
  const { paymentPayload, paymentRequirements } = request;
  const text = JSON.stringify({ paymentPayload, paymentRequirements });
  texts.set(request, text);
  return text;
}
