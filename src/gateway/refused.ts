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
  switch (refused.kind) {
    case "malformed": {
      const error = errorText(refused.refusal);
      return { status: 400, outcome: "malformed", error, lines: cors, replay: null };
    }
    case "refused": {
      const { refusal, settlement, replay = null } = refused;
      const lines = settlement === undefined ? cors : [...cors, ...settlementLines(settlement)];
      return { status: 402, outcome: "refused", error: errorText(refusal), lines, replay };
    }
    case "unavailable": {
      const error = errorText(refused.refusal);
      const lines = [...cors, ...RETRY_AFTER];
      return { status: 500, outcome: "unavailable", error, lines, replay: null };
    }
    case "owed": {
      const error = errorText({ code: "invalid_transaction_state", detail: refused.detail });
      return { status: 409, outcome: "refused", error, lines: cors, replay: null };
    }
    case "unknown": {
      const error = errorText({ code: "unexpected_settle_error", detail: refused.detail });
      const lines = [...cors, ...RETRY_AFTER];
      return { status: 500, outcome: "unknown", error, lines, replay: null };
    }
  }
}
