/**
 * A facilitator for others, as far as it may be: payments of payers who are on a list are not settled here for anybody,
 * nor any on a network that is paused or has burnt its gas. What was begun before goes on: whether it was, the ledger
 * knows.
 */
import { FacilitatorFault } from "../payments/facilitator.ts";
import { failure, invalid } from "../payments/said-no.ts";
import type { SaleGuard } from "../payments/sale/sale-guard.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { paymentKey, payerOf } from "../x402/payment-key.ts";
import type { FacilitatorRequest } from "../x402/x402.ts";
import type { WireFacilitator } from "./wire-facilitator.ts";

export interface GuardedGround {
  readonly guard: Pick<SaleGuard, "barOf">;
  readonly ledger: Pick<Ledger, "outcome">;
}

export function guarded(open: WireFacilitator, { guard, ledger }: GuardedGround): WireFacilitator {
  const barOf = ({ paymentPayload, paymentRequirements: { network } }: FacilitatorRequest) =>
    guard.barOf({ network, payer: payerOf(paymentPayload) });

  /** Neither dropped nor failed, after which it would be begun anew. */
  const isBegun = async (request: FacilitatorRequest): Promise<boolean> => {
    const key = paymentKey(request);
    if (!key.ok) return false;
    const { kind } = await ledger.outcome(key.value);
    return kind !== "gone" && kind !== "failed";
  };

  return {
    supported: (signal) => open.supported(signal),
    async verify(request, signal, client) {
      const bar = barOf(request);
      if (bar === undefined) return open.verify(request, signal, client);
      if (bar.status === 403) return invalid(bar.refusal, payerOf(request.paymentPayload));
      throw new FacilitatorFault("unavailable", "unexpected_verify_error", bar.refusal.detail);
    },
    async settle(request, options) {
      const bar = barOf(request);
      if (bar === undefined || (await isBegun(request))) return open.settle(request, options);
      if (bar.status === 403) {
        const { network } = request.paymentRequirements;
        return failure(bar.refusal, network, payerOf(request.paymentPayload));
      }
      throw new FacilitatorFault("unavailable", "unexpected_settle_error", bar.refusal.detail);
    },
  };
}
