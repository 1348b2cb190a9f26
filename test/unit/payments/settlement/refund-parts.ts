/** What chain and facilitator say in tests of refunds, and a ledger with others before the one that is looked at. */
import type { OpenRefund } from "../../../../src/ledger/ledger.ts";
import type { Confirmation } from "../../../../src/mechanism/mechanism.ts";
import type { RefundsOptions } from "../../../../src/payments/settlement/refunds.ts";
import type { SettleResponse } from "../../../../src/x402/x402.ts";
import { examplePayment, PAYER } from "../../ledger/example-payment.ts";
import { NETWORK } from "../../ledger/ledger-driver.ts";

export const SALE = examplePayment(1);
export const VALID_MS = 600_000;
export const OVER_MS = 900_000;
export const UNUSED: Confirmation = { kind: "unknown", detail: "unused", isUnused: true };
const refusal = { code: "invalid_transaction_state", detail: "expired unused" } as const;
export const EXPIRED: Confirmation = { kind: "failed", refusal, retriable: false };
export const RETRIABLE: Confirmation = { kind: "failed", refusal, retriable: true };

export const settled: SettleResponse = {
  success: true,
  transaction: "0xback",
  network: NETWORK,
  payer: PAYER,
};
export const refused: SettleResponse = {
  success: false,
  errorReason: "insufficient_funds",
  detail: "the wallet is empty",
  transaction: "",
  network: NETWORK,
  payer: PAYER,
};

/** A ledger that tells of the others before it tells of the sale, each until it has failed. */
export function behind(
  ledger: RefundsOptions["ledger"],
  others: readonly OpenRefund[],
  sale: OpenRefund,
  onFailed?: (key: string, detail: string) => void,
): RefundsOptions["ledger"] {
  const failed = new Set<string>();
  return {
    queues: {
      refunds: async (network, limit, state) =>
        [...others, sale]
          .filter((each) => each.network === network && each.state === (state ?? each.state))
          .filter(({ key }) => !failed.has(key))
          .slice(0, limit),
    },
    outcome: (key) => ledger.outcome(key),
    step(key, transition) {
      const { to } = Object(transition);
      if (to?.kind === "failed") {
        failed.add(key);
        onFailed?.(key, to.detail);
      }
      return ledger.step(key, transition);
    },
  };
}
