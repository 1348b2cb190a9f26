/**
 * What the state of a payment, or the refusal of a request, means for buyer and seller, and what either can do
 * about it: the one place of these texts, and of whether the operator is who has to do it.
 */
import type { PaymentDetail, PaymentSummary } from "../ledger/books.ts";
import { MAX_DELIVERY_ATTEMPTS, type RefundSummary } from "../ledger/ledger.ts";
import type { PaymentOutcome } from "../telemetry/metrics.ts";
import type { RequestEnd } from "../telemetry/timeline.ts";
import { isErrorCode, type ErrorCode } from "../x402/error-code.ts";

/** So long after its claim a payment without an outcome is not one that is just being settled, milliseconds. */
const UNRESOLVED_MS = 120_000;

/** A payment; its submission is asked for only where the outcome is not known. */
type Advised = PaymentSummary & Partial<Pick<PaymentDetail, "submission">>;

/**
 * One or two sentences without a final period.
 * @param nowMs milliseconds since the epoch
 * @param hasLeft its buyer was seen to leave before the end of the answer
 */
export function adviceOn(payment: Advised, nowMs: number, hasLeft = false): string {
  if (payment.refund !== null) return adviceOnRefund(payment, payment.refund);
  switch (payment.state) {
    case "CLAIMED":
      return (
        "nothing is signed yet, the payer still holds the money; where the process that claimed it is " +
        "gone, the next one drops the claim and the buyer can send the same payment again"
      );
    case "SIGNED":
      return payment.heldTransaction === null ? adviceOnUnresolved(payment) : adviceOnHeld(payment);
    case "SETTLED":
      return adviceOnSettled(payment, nowMs);
    case "DELIVERING":
      return (
        `paid, attempt ${payment.attempts} of ${MAX_DELIVERY_ATTEMPTS} to deliver it is running; ` +
        "where its process is gone, the next one takes the attempt for broken"
      );
    case "DELIVERED":
      return adviceOnDelivered(payment, nowMs, hasLeft);
    case "FAILED":
      return payment.heldTransaction === null ? adviceOnFailed(payment) : PAID_BACK;
  }
}

/** Whether it waits for the operator: for a decision, or because something here has to be put right. */
export function needsOperator(payment: PaymentSummary, nowMs: number): boolean {
  const { state, heldTransaction, binding, isLeft, claimedMs, refund } = payment;
  if (refund !== null) return refund.state === "FAILED";
  if (state === "SETTLED") return binding !== null && isLeft && adviceOnAwaited(payment) === null;
  return state === "SIGNED" && (heldTransaction !== null || nowMs - claimedMs > UNRESOLVED_MS);
}

/** The same of a request whose payment the ledger does not have. */
export function needsOperatorFor({ outcome }: RequestEnd): boolean {
  return outcome === "unavailable" || outcome === "unknown" || outcome === "undelivered";
}

function adviceOnRefund(
  { key }: Advised,
  { state, transaction, detail, creditsAtomic }: RefundSummary,
): string {
  const why = detail === null ? "" : `: ${detail}`;
  const isOfCredits = creditsAtomic !== null;
  switch (state) {
    case "ASKED":
      if (isOfCredits) return creditsToBeSent(key);
      return (
        "to be refunded: a running gateway with the key of `refunds` for its network sends it as soon as no " +
        "reorganization can be expected to undo the payment, which takes a minute or so, and " +
        `nothing is delivered for it any more; \`coinslot payments FILE --resolve ${key} --refund --by-hand\` says that ` +
        "you have paid it back yourself, and nothing is sent then"
      );
    case "SENDING":
      return (
        `being refunded${why}. It is sent by itself as long as its transfer counts, and another one is signed only ` +
        "once the chain has said that it can never be moved: nobody has to do anything, and nobody should pay it back " +
        "by hand meanwhile"
      );
    case "REFUNDED":
      if (isOfCredits && transaction === null)
        return "paid back by you by other means: nothing is left to do";
      return `refunded in ${transaction ?? "a transaction"}: nothing is left to do`;
    case "FAILED":
      return (
        `not refunded, and nothing is under way${why}. Once that is put right, \`coinslot payments FILE --resolve ${key}\` ` +
        "with --refund tries again; with --refund --by-hand where you have paid it back yourself"
      );
  }
}

function creditsToBeSent(key: string): string {
  return (
    "what is taken out of its buyer's balance is to be refunded: a running gateway with the key of `refunds` for its network " +
    "sends it as soon as no reorganization can be expected to undo the payment, and what cannot be sent is in the balance " +
    `again; \`coinslot payments FILE --resolve ${key} --refund --by-hand\` says that you have paid it back yourself, and ` +
    "nothing is sent then"
  );
}

const PAID_BACK =
  "it was paid, and you have paid it back by other means: the buyer has to sign a new payment";

function adviceOnHeld({ key, heldTransaction }: Advised): string {
  return (
    `the seller has the money, by ${heldTransaction ?? "a transaction"}, which is not ours: another gateway of ` +
    "this payee may have sold for it, or the buyer or somebody else sent it. Look there for its payer and " +
    `nonce; then \`coinslot payments FILE --resolve ${key}\` with --deliver where nobody has sold for it, ` +
    "with --refund to give it back from the key of `refunds`, or with --refund --by-hand once you have paid it back or " +
    "somebody has sold for it"
  );
}

function adviceOnFailed({ failureCode, failureDetail }: Advised): string {
  const late = "Should the chain show the transfer after all, the payment counts as paid";
  if (!isErrorCode(failureCode)) return `${FAILED}: the buyer has to sign a new payment. ${late}`;
  const reason = adviceOnCode(failureCode, failureDetail ?? "", null);
  return `${FAILED}. ${late}. The reason: ${reason}`;
}

const FAILED = "failed for certain, no money moved";

function adviceOnUnresolved({ submission, facilitator }: Advised): string {
  const recovery =
    "a running gateway finds the outcome by itself, `coinslot recover` does so without one; " +
    "the buyer must send the same payment again and not sign another one";
  if (submission != null) return `signed by us, not yet known to be in a block: ${recovery}`;
  return `handed to ${facilitator ?? "another facilitator"}, which may have moved the money: ${recovery}`;
}

function adviceOnSettled(payment: Advised, nowMs: number): string {
  const { key, binding, attempts, renewableMs } = payment;
  if (payment.isTransferBack) return "a refund, which has arrived: nothing is left to do";
  if (binding === null) {
    return "paid; another resource server asked for the settlement, the delivery is its own";
  }
  const awaited = adviceOnAwaited(payment);
  if (awaited !== null) return awaited;
  const left = MAX_DELIVERY_ATTEMPTS - attempts;
  if (left > 0) {
    const times = `${left} attempt${left === 1 ? "" : "s"} left`;
    return (
      `paid, not delivered: the buyer can send the same payment again from the same address, or ` +
      `sign a new one anywhere, which is not charged; ${times}. Before that see why the backend did not answer well`
    );
  }
  const again =
    renewableMs <= nowMs
      ? "once the backend is right again its payer asks for the same URL and signs a new payment: that is not " +
        "charged, and brings what is owed"
      : `its payer's new signatures bring more attempts from ${timeOf(renewableMs)} on, and are not charged`;
  return (
    `paid, not delivered, and no attempt is left: ${again}. \`coinslot payments FILE --resolve ${key}\` with ` +
    "--deliver lets this payment be sent again before that; --refund gives the money back, from the key of `refunds` " +
    "where there is one, else by your own hand; --goods says that what the backend answered is what is sold"
  );
}

/** Where nothing has failed and its buyer has the next step; null: something has. */
function adviceOnAwaited({ attempts, ledTo, isHeadOnly }: PaymentSummary): string | null {
  if (attempts > 0) return null;
  if (ledTo !== null) {
    return (
      `paid, and the backend led the buyer on to ${ledTo}, who has not come there yet: the same payment brings ` +
      "what is there, and is not charged again. A client that follows no redirects has to be told to"
    );
  }
  if (!isHeadOnly) return null;
  return (
    "paid, and only the head was asked for (HEAD): nobody has come for the goods yet. The same payment brings them " +
    "by GET, and is not charged again"
  );
}

const DELIVERED = "paid and delivered, nothing is left to do";

/** A kept answer that was given later is one that was read. */
function adviceOnDelivered(
  { isLeft, keptUntilMs, repeatUntilMs }: Advised,
  nowMs: number,
  hasLeft: boolean,
): string {
  if ((isLeft || hasLeft) && repeatUntilMs !== null && nowMs < repeatUntilMs) {
    return (
      "paid, and the buyer left before all of the answer was read: it may be fetched again until " +
      `${timeOf(repeatUntilMs)}, as often as \`repeat\` of its route allows. The same payment from the same address ` +
      "brings it, whole or in parts (Range), and is not charged again"
    );
  }
  if (isLeft && keptUntilMs !== null && nowMs < keptUntilMs) {
    return (
      `paid, and the buyer left before all of the answer was read: it is kept until ${timeOf(keptUntilMs)}. ` +
      "The same payment from the same address brings it, and so does a new one that its payer signs anywhere; " +
      "neither is charged"
    );
  }
  if (isLeft || (hasLeft && keptUntilMs === null)) {
    return (
      "paid, and the buyer left before all of the answer was read: none of it can be had again now, and the payment " +
      "counts as delivered. Who complains has to buy again, or gets the money back: `coinslot payments FILE --resolve " +
      "KEY --refund` where `refunds` has a key"
    );
  }
  return DELIVERED;
}

/** `2026-08-01 12:00:00 UTC` */
function timeOf(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** What the seller can do about a request that ended so; `error` is what the client was told, `code: sentence`. */
export function adviceOnRequest({ outcome, status }: RequestEnd, error: string | null): string {
  const [code, ...detail] = (error ?? "").split(": ");
  if (outcome !== "challenged" && isErrorCode(code)) {
    return adviceOnCode(code, detail.join(": "), status);
  }
  return ON_OUTCOME[outcome];
}

/** One code for whatever the chain, the ledger or the facilitator has against a payment that is in order by itself. */
export const STATE_CODE = "invalid_transaction_state" satisfies ErrorCode;

/** One or two sentences without a final period. */
function adviceOnCode(code: ErrorCode, detail: string, status: number | null): string {
  return code === STATE_CODE ? adviceOnState(detail, status) : ON_CODE[code];
}

/** What tokens say of accounts that may not move them: USDC's contract, and Solana's token program. */
const BLOCKED = /blacklist|denylist|blocklist|frozen/i;
const PAUSED = /paused/i;

function adviceOnState(detail: string, status: number | null): string {
  if (BLOCKED.test(detail)) {
    return (
      "the token's issuer has blocked the payer's account or the payee's, so that no payment from the one or to " +
      "the other can be settled: the buyer has to pay from another account, a new signature of the same one " +
      "changes nothing. Where all buyers are refused so it is your `payTo`, which has to be another address then"
    );
  }
  if (PAUSED.test(detail)) {
    return "the token is paused by its issuer: nobody can pay in it before that ends, a new signature changes nothing";
  }
  if (status === 409) {
    return (
      "nothing was charged for it: what the buyer wants is paid already, or may be. The sentence beside the code " +
      "tells what the buyer can do, and `coinslot payments --show` what is known of the payment"
    );
  }
  if (/\bused\b|\bit is no payment for this one\b/.test(detail)) {
    return (
      "the payment was used before, and nothing was charged for it again: `coinslot payments --show` tells what " +
      "became of it. The buyer signs a new one to buy something else"
    );
  }
  return (
    "the chain or the facilitator does not take the payment as things are, and nothing was charged: the sentence " +
    "beside the code says why. The buyer can sign a new one once that is put right"
  );
}

const ON_OUTCOME: Readonly<Record<PaymentOutcome, string>> = {
  free: "nothing is left to do",
  shadow: "nothing was asked: the route is in shadow mode",
  "shadow-paid":
    "nothing was charged: the route is in shadow mode, and the payment that was shown is as good as before",
  denied: "nothing is left to do",
  credits: "nothing is left to do: it was paid from what its buyer has prepaid",
  member: "nothing was asked: whoever has signed in has it for nothing",
  pass: "nothing was asked: whoever has signed in has paid for it before (`grants`, `passes`)",
  quota: "nothing was asked: the route has so much for nothing (`free`)",
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
  paid: DELIVERED,
  replayed: "the kept answer was given once more and nothing was charged for it",
  undelivered:
    "paid, and the buyer did not get all of it: the same payment can be sent again. Look at the backend",
  unsold:
    "nothing was charged: the route is paid after the work (`settle: after`, or from a balance), and the backend had nothing " +
    "to sell. The same payment can be sent again; look at the backend where it should have had",
};

const TRY_AGAIN =
  "the buyer can send it again later; the log has the reason under the request's id";

const ON_CODE: Readonly<Record<Exclude<ErrorCode, typeof STATE_CODE>, string>> = {
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
  unexpected_verify_error: `the payment could not be judged and was not taken: ${TRY_AGAIN}`,
  unexpected_settle_error: `the settlement could not be finished: ${TRY_AGAIN}. Not another one: the same`,
};
