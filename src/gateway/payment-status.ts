/** What a buyer is told of a payment of his whose receipt has led him here: nothing of what he has bought. */
import type { PaymentStatus, PotBalance } from "../ledger/ledger.ts";
import { errorAnswer, type Answer } from "./answers.ts";

const STATES = {
  CLAIMED: "pending",
  SIGNED: "pending",
  SETTLED: "paid",
  DELIVERING: "delivering",
  DELIVERED: "delivered",
  FAILED: "failed",
} as const;

/** A refund that has failed waits for the seller, as what is held does: whether it comes, and why not, is his to say. */
const REFUNDING = {
  ASKED: "refunding",
  SENDING: "refunding",
  REFUNDED: "refunded",
  FAILED: "held",
} as const;

/**
 * @param status undefined: it is swept away, or was given back
 * @param uses what is left of the requests that it is good for; undefined: it is not counted, or none of them has come yet
 */
export function statusAnswer(
  status: PaymentStatus | undefined,
  lines: readonly string[],
  uses?: PotBalance,
): Answer {
  if (status === undefined) return errorAnswer(404, "not found", lines);
  const { network, asset, amount, transaction, refund, metered } = status;
  const told = {
    state: stateOf(status),
    network,
    asset,
    amount,
    transaction,
    refundTransaction: refund?.transaction ?? null,
    ...(uses !== undefined && refund === null && { uses: usesOf(uses) }),
    // Of what is charged by use; `change` is in its buyer's balance.
    ...(metered !== null && { metered }),
    // Of a payment whose payer had not used all of what it has brought him.
    ...(refund?.creditsAtomic != null && { refundAmount: refund.creditsAtomic }),
  };
  return { status: 200, lines, body: JSON.stringify(told) };
}

function usesOf({ free, leased, untilMs }: PotBalance): object {
  return {
    left: Number(free + leased),
    ...(untilMs !== null && { until: new Date(untilMs).toISOString() }),
  };
}

function stateOf({ state, isHeld, isPaidBack, refund }: PaymentStatus): string {
  if (refund !== null) return REFUNDING[refund.state];
  if (isPaidBack) return "refunded";
  return isHeld ? "held" : STATES[state];
}
