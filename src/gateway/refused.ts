/** What is answered where a payment was not taken: the one table from a refusal to a status. */
import type { PaymentOutcome, ReplayReason } from "../telemetry/metrics.ts";
import type { Admission } from "../payments/sale/admission.ts";
import type { Said } from "../payments/sale/offers.ts";
import type { Refusal } from "../x402/result.ts";
import { X402_VERSION, X402_VERSION_2 } from "../x402/x402.ts";
import { encodeHeaderJson, RECEIPT_HEADERS } from "../x402/header.ts";
import { payerOf } from "../x402/payment-key.ts";
import { pendingV2 } from "../x402/version-2.ts";
import {
  errorText,
  onlyTheMost,
  RETRY_AFTER,
  saysWhere,
  settlementLines,
  type Help,
} from "./answers.ts";
import { versionOf, type PricedDecision } from "./decision.ts";

export interface Refused extends Said {
  readonly status: 400 | 402 | 403 | 409 | 429 | 500 | 503;
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
 * @param help where its buyer is sent who has to ask the seller
 * @param decision by which its client is told in the envelope in which it speaks
 */
export function readRefusal(
  refused:
    | { readonly kind: "malformed"; readonly refusal: Refusal }
    | Extract<Admission, { kind: "refused" | "unavailable" | "unknown" | "owed" | "barred" }>,
  cors: readonly string[],
  help: Help,
  decision: PricedDecision,
): NotTaken {
  const later = [...cors, ...RETRY_AFTER];
  const say = (
    status: Refused["status"],
    outcome: PaymentOutcome,
    told: Refusal,
    lines = cors,
  ): NotTaken => {
    const { provisional, told: beside } = decision;
    const most = provisional === undefined ? "" : `; ${onlyTheMost(provisional)}`;
    const only = most + (beside === undefined ? "" : `; ${beside}`);
    const refusal = { ...told, detail: saysWhere(told.detail, help) + only };
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
      // One that could be read was looked into, and counts as such.
      return say(400, decision.kind === "presented" ? "refused" : "malformed", refused.refusal);
    case "refused": {
      const { refusal, settlement, replay = null } = refused;
      const version = versionOf(decision);
      const receipt = settlement === undefined ? [] : settlementLines(settlement, version);
      const lines = [...cors, ...receipt];
      return { ...say(402, "refused", refusal, lines), replay };
    }
    case "owed": {
      const refusal: Refusal = { code: "invalid_transaction_state", detail: refused.detail };
      return say(409, "refused", refusal, [...cors, ...help.lines]);
    }
    case "barred": {
      const { status, refusal: told, seconds } = refused;
      const wait = seconds === null ? help.lines : ["Retry-After", String(seconds)];
      const lines = [...cors, ...wait];
      if (status !== 503) return say(status, "refused", told, lines);
      const other = otherWays(decision);
      if (other === null) return say(503, "unavailable", told, lines);
      return say(402, "unavailable", { ...told, detail: `${told.detail}, or ${other}` }, lines);
    }
    case "unavailable": {
      const other = otherWays(decision);
      if (other === null) return say(500, "unavailable", refused.refusal, later);
      const { detail } = refused.refusal;
      return say(
        402,
        "unavailable",
        { ...refused.refusal, detail: `${detail}, or ${other}` },
        later,
      );
    }
    case "unknown": {
      const refusal: Refusal = { code: "unexpected_settle_error", detail: refused.detail };
      return say(500, "unknown", refusal, [...later, ...pendingLines(decision, refused)]);
    }
  }
}

/** What else its buyer can do where payments on its network are not taken now; null: nothing. */
function otherWays(decision: PricedDecision): string | null {
  if (decision.kind !== "presented") return null;
  const { offers } = decision;
  if (!offers.isClosed(decision.payment.network) || offers.areNone) return null;
  return "pay in another way that is asked for here";
}

/** Version 2 has a word for what was sent and may still come to pass: the same payment is to be sent again. */
function pendingLines(
  decision: PricedDecision,
  { transaction, detail }: Extract<Admission, { kind: "unknown" }>,
): readonly string[] {
  if (decision.kind !== "presented" || decision.version !== X402_VERSION_2) return [];
  if (transaction === undefined) return [];
  const { payment } = decision;
  const told = { network: payment.network, payer: payerOf(payment), detail };
  return [RECEIPT_HEADERS[X402_VERSION_2], encodeHeaderJson(pendingV2(told, transaction))];
}
