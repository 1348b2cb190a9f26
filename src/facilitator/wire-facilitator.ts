/** A facilitator in the protocol's words: what `POST /verify` and `POST /settle` are given, and what they answer. */
import { payerOf } from "../x402/payment-key.ts";
import type {
  FacilitatorRequest,
  SettleResponse,
  SupportedResponse,
  VerifyResponse,
} from "../x402/x402.ts";
import type { Facilitator, SettleOptions } from "../payments/facilitator.ts";
import { failure, invalid } from "../payments/said-no.ts";

export interface WireFacilitator {
  /** A refused payment is an answer. Throws {@link FacilitatorFault}, as {@link Facilitator.verify}. */
  verify(
    request: FacilitatorRequest,
    signal: AbortSignal,
    client?: string,
  ): Promise<VerifyResponse>;
  /** Throws {@link FacilitatorFault}, as {@link Facilitator.settle}. */
  settle(request: FacilitatorRequest, options: SettleOptions): Promise<SettleResponse>;
  supported(signal: AbortSignal): Promise<SupportedResponse>;
}

/** What that facilitator says to whoever speaks the protocol. */
export function onTheWire(facilitator: Facilitator): WireFacilitator {
  return {
    async verify(request, signal, client) {
      const read = facilitator.read(request);
      if (!read.ok) return invalid(read.error, payerOf(request.paymentPayload));
      const verdict = await facilitator.verify(read.value, signal, client);
      const { payer } = read.value;
      return verdict.ok ? { isValid: true, payer } : invalid(verdict.error, payer);
    },
    async settle(request, options) {
      const { network } = request.paymentRequirements;
      const read = facilitator.read(request);
      if (!read.ok) return failure(read.error, network, payerOf(request.paymentPayload));
      return facilitator.settle(read.value, options);
    },
    supported: (signal) => facilitator.supported(signal),
  };
}
