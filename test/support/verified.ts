/** What a facilitator's verification has found of a payment that is good, for the settlement that follows it. */
import type { Facilitator, Verified } from "../../src/payments/facilitator.ts";
import type { FacilitatorRequest } from "../../src/x402/x402.ts";

export async function verifiedBy(
  facilitator: Facilitator,
  request: FacilitatorRequest,
  signal: AbortSignal,
): Promise<Verified> {
  const read = facilitator.read(request);
  const verdict = read.ok ? await facilitator.verify(read.value, signal) : read;
  if (!verdict.ok) throw new Error(verdict.error.detail);
  return verdict.value;
}
