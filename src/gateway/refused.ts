/** What is answered where a payment was not taken: the one table from a refusal to a status. */
import type { PaymentOutcome, ReplayReason } from "../telemetry/metrics.ts";
import type { Admission } from "../payments/sale/admission.ts";
import type { Said } from "../payments/sale/offers.ts";
import type { Refusal } from "../x402/result.ts";
import { X402_VERSION, X402_VERSION_2, type X402Version } from "../x402/x402.ts";
import { errorText, RETRY_AFTER, settlementLines } from "./answers.ts";

export interface Refused extends Said {
  readonly status: 400 | 402 | 409 | 500;
  readonly outcome: PaymentOutcome;
  /** Raw header lines of the answer. */
  readonly lines: readonly string[];
}

export interface NotTaken extends Refused {
  /** Why a payment that was presented before is not taken again; null: that is not the reason. */
  readonly replay: ReplayReason | null;
}

/**
 * @param cors raw header lines that every answer to the request has
 * @param version in which a receipt is told; default: nothing was shown that could have one
 */
export function readRefusal(
  refused:
    | { readonly kind: "malformed"; readonly refusal: Refusal }
    | Extract<Admission, { kind: "refused" | "unavailable" | "unknown" | "owed" }>,
  cors: readonly string[],
  version: X402Version = X402_VERSION,
): NotTaken {
  const later = [...cors, ...RETRY_AFTER];
  const say = (
    status: Refused["status"],
    outcome: PaymentOutcome,
    refusal: Refusal,
    lines = cors,
  ): NotTaken => {
    const errorV2 = errorText(refusal, X402_VERSION_2);
    return {
      status,
      outcome,
      error: errorText(refusal, X402_VERSION),
      errorV2,
      lines,
      replay: null,
    };
  };
  switch (refused.kind) {
    case "malformed":
      return say(400, "malformed", refused.refusal);
    case "refused": {
      const { refusal, settlement, replay = null } = refused;
      const receipt = settlement === undefined ? [] : settlementLines(settlement, version);
      const lines = [...cors, ...receipt];
      return { ...say(402, "refused", refusal, lines), replay };
    }
    case "owed":
      return say(409, "refused", { code: "invalid_transaction_state", detail: refused.detail });
    case "unavailable":
      return say(500, "unavailable", refused.refusal, later);
    case "unknown": {
      const refusal: Refusal = { code: "unexpected_settle_error", detail: refused.detail };
      return say(500, "unknown", refusal, later);
    }
  }
}
