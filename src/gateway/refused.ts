/** What is answered where a payment was not taken: the one table from a refusal to a status. */
import type { PaymentOutcome, ReplayReason } from "../telemetry/metrics.ts";
import type { Admission } from "../payments/sale/admission.ts";
import { errorText, RETRY_AFTER, settlementLines } from "./answers.ts";

export interface Refused {
  readonly status: 400 | 402 | 409 | 500;
  readonly outcome: PaymentOutcome;
  readonly error: string;
  /** Raw header lines of the answer. */
  readonly lines: readonly string[];
}

interface Declined extends Refused {
  /** Why a payment that was presented before is not taken again; null: that is not the reason. */
  readonly replay: ReplayReason | null;
}

export function readRefusal(
  admission: Extract<Admission, { kind: "refused" | "unavailable" | "unknown" | "owed" }>,
): Declined {
  switch (admission.kind) {
    case "refused": {
      const { refusal, settlement, replay = null } = admission;
      const lines = settlement === undefined ? [] : settlementLines(settlement);
      return { status: 402, outcome: "refused", error: errorText(refusal), lines, replay };
    }
    case "unavailable":
      return {
        status: 500,
        outcome: "unavailable",
        error: errorText(admission.refusal),
        lines: RETRY_AFTER,
        replay: null,
      };
    case "owed": {
      const error = errorText({ code: "invalid_transaction_state", detail: admission.detail });
      return { status: 409, outcome: "refused", error, lines: [], replay: null };
    }
    case "unknown": {
      const error = errorText({ code: "unexpected_settle_error", detail: admission.detail });
      return { status: 500, outcome: "unknown", error, lines: RETRY_AFTER, replay: null };
    }
  }
}
