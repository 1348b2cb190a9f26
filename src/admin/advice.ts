/**
 * What the state of a payment, or the refusal of a request, means for buyer and seller, and what either can do
 * about it: the one place of these texts.
 */
import type { PaymentDetail, PaymentSummary } from "../ledger/books.ts";
import { MAX_DELIVERY_ATTEMPTS } from "../ledger/ledger.ts";
import type { PaymentOutcome } from "../telemetry/metrics.ts";
import { isErrorCode, type ErrorCode } from "../x402/error-code.ts";

/** A payment; its submission is asked for only where the outcome is not known. */
type Advised = PaymentSummary & Partial<Pick<PaymentDetail, "submission">>;

/** One or two sentences without a final period. */
export function adviceOn(payment: Advised): string {
  switch (payment.state) {
    case "CLAIMED":
      return (
        "nothing is signed yet, the payer still holds the money; where the process that claimed it is " +
        "gone, the next one drops the claim and the buyer can send the same payment again"
      );
    case "SIGNED":
      return payment.heldTransaction === null ? adviceOnUnresolved(payment) : adviceOnHeld(payment);
    case "SETTLED":
      return adviceOnSettled(payment);
    case "DELIVERING":
      return (
        `paid, attempt ${payment.attempts} of ${MAX_DELIVERY_ATTEMPTS} to deliver it is running; ` +
        "where its process is gone, the next one takes the attempt for broken"
      );
    case "DELIVERED":
      return "paid and delivered, nothing is left to do";
    case "FAILED":
      return payment.heldTransaction === null ? adviceOnFailed(payment) : PAID_BACK;
  }
}

const PAID_BACK =
  "it was paid, and you have paid it back by other means: the buyer has to sign a new payment";

function adviceOnHeld({ key, heldTransaction }: Advised): string {
  return (
    `the seller has the money, by ${heldTransaction ?? "a transaction"}, which is not ours: another gateway of ` +
    "this payee may have sold for it, or the buyer or somebody else sent it. Look there for its payer and " +
    `nonce; then \`coinslot payments FILE --resolve ${key}\` with --deliver where nobody has sold for it, or ` +
    "with --refund once you have paid it back"
  );
}

function adviceOnFailed({ failureCode }: Advised): string {
  const said =
    "failed for certain, no money moved: the buyer has to sign a new payment. " +
    "Should the chain show the transfer after all, the payment counts as paid";
  return isErrorCode(failureCode) ? `${said}. The reason: ${adviceOnCode(failureCode)}` : said;
}

function adviceOnUnresolved({ submission, facilitator }: Advised): string {
  const recovery =
    "a running gateway finds the outcome by itself, `coinslot recover` does so without one; " +
    "the buyer must send the same payment again and not sign another one";
  if (submission != null) return `signed by us, not yet known to be in a block: ${recovery}`;
  return `handed to ${facilitator ?? "another facilitator"}, which may have moved the money: ${recovery}`;
}

function adviceOnSettled({ binding, attempts }: Advised): string {
  if (binding === null) {
    return "paid; another resource server asked for the settlement, the delivery is its own";
  }
  const left = MAX_DELIVERY_ATTEMPTS - attempts;
  if (left > 0) {
    const times = `${left} attempt${left === 1 ? "" : "s"} left`;
    return (
      `paid, not delivered: the buyer can send the same payment again from the same address, or ` +
      `sign a new one anywhere, which is not charged; ${times}`
    );
  }
  return (
    "paid, not delivered, and no attempt is left: the payer's next payment for the same URL brings more, " +
    "and is not charged, and so does `coinslot payments --resolve` with --deliver; or give the money back, " +
    "and say so with --refund"
  );
}

/** What the seller can do about a request that ended so; `error` is what the client was told, `code: sentence`. */
export function adviceOnRequest(outcome: PaymentOutcome, error: string | null): string {
  const code = error?.split(":", 1)[0];
  if (outcome !== "challenged" && isErrorCode(code)) return adviceOnCode(code);
  return ON_OUTCOME[outcome];
}

/** One or two sentences without a final period. */
function adviceOnCode(code: ErrorCode): string {
  return ON_CODE[code];
}

const ON_OUTCOME: Readonly<Record<PaymentOutcome, string>> = {
  free: "nothing is left to do",
  denied: "nothing is left to do",
  rejected: "the request could not be read in one way only; the answer says why",
  challenged:
    "nothing is paid yet: a client that can pay asks again with a payment, nothing is left to do here",
  limited:
    "too many requests without payment came from this address; `limits.unpaidPerIp` and `limits.unprovenPerIp` say how many may",
  malformed:
    "the client has to send one payment, in the header and the form that the protocol has for its version",
  refused: "nothing was charged: the buyer has to sign a new payment",
  unavailable:
    "no payment was taken: the backend or the facilitator could not be asked. The log has the reason under " +
    "the request's id, and `coinslot doctor` looks for it",
  unknown:
    "the buyer must send the same payment again and not sign another one; a running gateway finds the " +
    "outcome by itself",
  paid: "paid and delivered, nothing is left to do",
  replayed: "the kept answer was given once more and nothing was charged for it",
  undelivered:
    "paid, and the buyer did not get all of it: the same payment can be sent again. Look at the backend",
};

const TRY_AGAIN =
  "the buyer can send it again later; the log has the reason under the request's id";

const ON_CODE: Readonly<Record<ErrorCode, string>> = {
  insufficient_funds:
    "the payer's account holds less of the token than the price: the buyer has to fund it, or pay from another",
  invalid_exact_evm_payload_authorization_valid_after:
    "the payment is not valid yet: the buyer's clock is ahead of the chain's, or validAfter is in the future",
  invalid_exact_evm_payload_authorization_valid_before:
    "the payment has expired or is about to: the buyer has to sign a new one and send it at once. Where that " +
    "happens often, compare clocks, and raise `maxTimeoutSeconds`",
  invalid_exact_evm_payload_authorization_value:
    "another amount was signed than the price: the buyer has to sign what the 402 answer asks for now",
  invalid_exact_evm_payload_signature:
    "the signature is not the payer's for this token: most often the client signs for another chain, or with " +
    "another name or version of the token than `extra` in the 402 answer tells",
  invalid_exact_evm_payload_recipient_mismatch:
    "the payment was signed for another payee than `payTo`: the buyer has to sign what the 402 answer asks for",
  invalid_network:
    "the route is not sold on that network: the buyer has to pay on one of the 402 answer's, or `accept` has " +
    "to name it",
  invalid_payload:
    "the payment cannot be used for this request; the sentence beside the code says why, and the client's " +
    "author can put it right",
  invalid_payment_requirements:
    "what was asked for and what the facilitator takes do not fit together: `coinslot doctor` compares them",
  invalid_scheme: "the client has to pay by the scheme exact, the only one there is here",
  unsupported_scheme: "the client has to pay by the scheme exact, the only one there is here",
  invalid_x402_version:
    "the client has to send the payment in the header of the version that it names",
  invalid_transaction_state:
    "the payment was used before, or the chain refuses it: the buyer has to sign a new one. " +
    "`coinslot payments --show` tells what became of the first",
  unexpected_verify_error: `the payment could not be judged and was not taken: ${TRY_AGAIN}`,
  unexpected_settle_error: `the settlement could not be finished: ${TRY_AGAIN}. Not another one: the same`,
};
