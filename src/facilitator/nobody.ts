/** Why none of several facilitators can be asked. */
import { solanaTransactionOf } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import { FacilitatorFault } from "../payments/facilitator.ts";

export const NO_RECEIPTS = "receipts on this network cannot be looked at without an RPC endpoint";

export function nobody(
  code: FacilitatorFault["code"],
  message = "no facilitator serves this network",
): FacilitatorFault {
  return new FacilitatorFault("unavailable", code, message);
}

/** For a payment whose fee payer none of the facilitators has. */
export function describeForeign({
  paymentPayload,
  paymentRequirements,
}: FacilitatorRequest): string {
  const transaction = solanaTransactionOf(paymentPayload);
  const account = transaction.ok ? transaction.value.feePayer : "its fee payer";
  return `no facilitator pays network fees on ${paymentRequirements.network} from ${account}`;
}
