/**
 * What a facilitator elsewhere has answered, of whichever implementation and version, in our words: decided by the body
 * wherever it has one, and undefined where it says nothing of the payment.
 */
import type { Reply } from "../http1/small-request.ts";
import { isErrorCode, type ErrorCode } from "../x402/error-code.ts";
import { payerOf } from "../x402/payment-key.ts";
import { printable } from "../x402/printable.ts";
import { askingTheSeller } from "../x402/result.ts";
import { codeOfV2 } from "../x402/version-2.ts";
import type { FacilitatorRequest, SettleResponse, VerifyResponse } from "../x402/x402.ts";

/**
 * Reasons of other implementations for a settlement that was sent and not seen to its end, such as
 * `settlement_pending` and `…_confirmation_timed_out`: the money may move after the answer.
 */
const NOT_OVER = /pending|time[-_ ]?d?[-_ ]?out|node_failure/i;

/** What the official package of version 2 says where the protocol has a code (`@x402/evm`, `@x402/svm`). */
const OFFICIAL: ReadonlyMap<unknown, ErrorCode> = new Map([
  ["invalid_exact_evm_authorization_value", "invalid_exact_evm_payload_authorization_value"],
  ["invalid_exact_evm_insufficient_balance", "insufficient_funds"],
  ["invalid_exact_evm_nonce_already_used", "invalid_transaction_state"],
  ["invalid_exact_evm_recipient_mismatch", "invalid_exact_evm_payload_recipient_mismatch"],
  ["invalid_exact_evm_signature", "invalid_exact_evm_payload_signature"],
  ["invalid_exact_evm_network_mismatch", "invalid_network"],
  ["invalid_exact_svm_network_mismatch", "invalid_network"],
  ["invalid_exact_evm_scheme", "invalid_scheme"],
]);

/**
 * Longest sentence that is passed on, characters: it stands in two headers of an answer, and some say what a node said,
 * with all that it was asked.
 */
const MAX_SAID = 200;

const OTHER_VERSION: ErrorCode = "invalid_x402_version";

export interface RemoteAnswer {
  readonly status: number;
  readonly lines: Reply["lines"];
  readonly body: Readonly<Record<string, unknown>> | undefined;
}

/** Whether an answer says that it wants another version. */
export function wantsOther(answer: VerifyResponse | SettleResponse | undefined): boolean {
  if (answer === undefined) return false;
  if ("isValid" in answer) return !answer.isValid && answer.invalidReason === OTHER_VERSION;
  return !answer.success && answer.errorReason === OTHER_VERSION;
}

export function hasTransaction({ body }: Pick<RemoteAnswer, "body">): boolean {
  return textOf(body?.["transaction"]) !== undefined;
}

export function readVerdict(
  { body }: RemoteAnswer,
  request: FacilitatorRequest,
  facilitator: string,
): VerifyResponse | undefined {
  if (body === undefined || typeof body["isValid"] !== "boolean") return undefined;
  const payer = wordOf(body["payer"]) ?? payerOf(request.paymentPayload);
  if (body["isValid"]) return { isValid: true, payer };
  const reason = body["invalidReason"] ?? body["invalid_reason"] ?? body["error"];
  const { code, detail } = translate(
    OFFICIAL.get(reason) ?? reason,
    "invalid_payload",
    facilitator,
  );
  const said = textOf(body["detail"]) ?? textOf(body["invalidMessage"]) ?? detail;
  // Others mean by this code that the payment is used.
  const told = code === "invalid_transaction_state" ? askingTheSeller(said) : said;
  return { isValid: false, invalidReason: code, payer, detail: told };
}

export function readOutcome(
  { status, body }: RemoteAnswer,
  request: FacilitatorRequest,
  facilitator: string,
): SettleResponse | undefined {
  if (body === undefined || typeof body["success"] !== "boolean") return undefined;
  const { network } = request.paymentRequirements;
  const payer = wordOf(body["payer"]) ?? payerOf(request.paymentPayload);
  if (body["success"]) {
    const transaction = wordOf(body["transaction"]);
    // Success without a transaction proves nothing either way.
    return transaction === undefined ? undefined : { success: true, transaction, network, payer };
  }
  const reason = body["errorReason"] ?? body["error_reason"] ?? body["error"];
  // Where the reason is not one of the protocol's, anything that hints at a transaction counts.
  const mayHaveMoved = status >= 500 || hasTransaction({ body }) || NOT_OVER.test(String(reason));
  const otherwise = mayHaveMoved ? "unexpected_settle_error" : "invalid_transaction_state";
  const word = mayHaveMoved ? reason : (OFFICIAL.get(reason) ?? reason);
  const { code, detail } = translate(word, otherwise, facilitator);
  return {
    success: false,
    errorReason: code,
    transaction: "",
    network,
    payer,
    detail: textOf(body["detail"]) ?? textOf(body["errorMessage"]) ?? detail,
  };
}

/** A reason outside the closed list is still a refusal; its text goes into the detail. */
function translate(
  reason: unknown,
  otherwise: ErrorCode,
  facilitator: string,
): { code: ErrorCode; detail: string } {
  const code = codeOfV2(reason);
  if (isErrorCode(code)) return { code, detail: `refused by facilitator ${facilitator}` };
  const said = textOf(reason) ?? "no reason";
  return { code: otherwise, detail: `refused by facilitator ${facilitator}: ${said}` };
}

/** A hash, a signature or an address: it goes into header lines, so nothing else passes. */
export function wordOf(value: unknown): string | undefined {
  return typeof value === "string" && /^[A-Za-z0-9]{1,128}$/.test(value) ? value : undefined;
}

function textOf(value: unknown): string | undefined {
  return typeof value === "string" && value !== ""
    ? printable(value.slice(0, MAX_SAID))
    : undefined;
}
