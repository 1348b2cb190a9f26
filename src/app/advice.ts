/** What a payment's state means for its buyer and its seller, and what either can do about it. */
import type { PaymentDetail } from "../ledger/books.ts";
import { MAX_DELIVERY_ATTEMPTS } from "../ledger/ledger.ts";

/** One or two sentences without a final period. */
export function adviceOn(payment: PaymentDetail): string {
  switch (payment.state) {
    case "CLAIMED":
      return (
        "nothing is signed yet, the payer still holds the money; where the process that claimed it is " +
        "gone, the next one drops the claim and the buyer can send the same X-PAYMENT again"
      );
    case "SIGNED":
      return adviceOnUnresolved(payment);
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
      return (
        "failed for certain, no money moved: the buyer has to sign a new payment. " +
        "Should the chain show the transfer after all, the payment counts as paid"
      );
  }
}

function adviceOnUnresolved({ submission, facilitator }: PaymentDetail): string {
  const recovery =
    "a running gateway finds the outcome by itself, `coinslot recover` does so without one; " +
    "the buyer must send the same X-PAYMENT again and not sign another one";
  if (submission !== null) return `signed by us, not yet known to be in a block: ${recovery}`;
  return `handed to ${facilitator ?? "another facilitator"}, which may have moved the money: ${recovery}`;
}

function adviceOnSettled({ binding, attempts }: PaymentDetail): string {
  if (binding === null) {
    return "paid; another resource server asked for the settlement, the delivery is its own";
  }
  const left = MAX_DELIVERY_ATTEMPTS - attempts;
  if (left > 0) {
    const times = `${left} attempt${left === 1 ? "" : "s"} left`;
    return `paid, not delivered: the buyer can send the same X-PAYMENT again; ${times}`;
  }
  return (
    "paid, not delivered, and no attempt is left: give the buyer what was bought in another way, " +
    "or the money back"
  );
}
