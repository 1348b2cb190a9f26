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
  readonly guard: Pick<SaleGuard, "barOf" | "isDenied">;
  readonly ledger: Pick<Ledger, "outcome">;
}

export function guarded(open: WireFacilitator, { guard, ledger }: GuardedGround): WireFacilitator {
  /** Why such a payment, found good, is not settled for its payer. */
  const refusalOf = ({ paymentPayload, paymentRequirements: { network } }: FacilitatorRequest) =>
    guard.barOf({ network, payer: payerOf(paymentPayload) })?.refusal;

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
      const { network } = request.paymentRequirements;
      const stop = guard.barOf({ network, payer: undefined });
      if (stop !== undefined) {
        throw new FacilitatorFault("unavailable", "unexpected_verify_error", stop.refusal.detail);
      }
      const answer = await open.verify(request, signal, client);
      // Only whoever has his key learns that somebody is on a list.
      const refusal = answer.isValid ? refusalOf(request) : undefined;
      return refusal === undefined ? answer : invalid(refusal, payerOf(request.paymentPayload));
    },
    async settle(request, options) {
      const { network } = request.paymentRequirements;
      const payer = payerOf(request.paymentPayload);
      const stop = guard.barOf({ network, payer: undefined });
      const isListed = guard.isDenied(network, payer);
      const isOpen = stop === undefined && !isListed;
      if (isOpen || (await isBegun(request))) return open.settle(request, options);
      if (stop !== undefined) {
        throw new FacilitatorFault("unavailable", "unexpected_settle_error", stop.refusal.detail);
      }
      const answer = await open.verify(request, options.signal, options.client);
      if (!answer.isValid) {
        const { invalidReason: code, detail = "", codeV2 } = answer;
        return failure({ code, detail, ...(codeV2 && { codeV2 }) }, network, payer);
      }
      const refusal = refusalOf(request);
      return refusal === undefined
        ? open.settle(request, options)
        : failure(refusal, network, payer);
    },
  };
}
