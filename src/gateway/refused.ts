/** What is answered where a payment was not taken: the one table from a refusal to a status. */
import type { PaymentOutcome, ReplayReason } from "../telemetry/metrics.ts";
import type { Admission } from "../payments/sale/admission.ts";
import type { Refusal } from "../x402/result.ts";
import { errorText, RETRY_AFTER, settlementLines } from "./answers.ts";

export interface Refused {
  readonly status: 400 | 402 | 409 | 500;
  readonly outcome: PaymentOutcome;
  readonly error: string;
  /** Raw header lines of the answer. */
  readonly lines: readonly string[];
}

export interface NotTaken extends Refused {
  /** Why a payment that was presented before is not taken again; null: that is not the reason. */
  readonly replay: ReplayReason | null;
}

/** @param cors raw header lines that every answer to the request has */
export function readRefusal(
  refused:
    | { readonly kind: "malformed"; readonly refusal: Refusal }
    | Extract<Admission, { kind: "refused" | "unavailable" | "unknown" | "owed" }>,
  cors: readonly string[],
): NotTaken {
  const later = [...cors, ...RETRY_AFTER];
  const say = (
    status: Refused["status"],
    outcome: PaymentOutcome,
    refusal: Refusal,
    lines = cors,
  ): NotTaken => ({ status, outcome, error: errorText(refusal), lines, replay: null });
  switch (refused.kind) {
    case "malformed":
      return say(400, "malformed", refused.refusal);
    case "refused": {
      const { refusal, settlement, replay = null } = refused;
      const lines = settlement === undefined ? cors : [...cors, ...settlementLines(settlement)];
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
