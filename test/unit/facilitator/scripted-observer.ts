import type { Confirmation, Observer } from "../../../src/mechanism/mechanism.ts";
import { ChainError } from "../../../src/mechanism/mechanism.ts";
import { ok } from "../../../src/x402/result.ts";
import type { FacilitatorRequest } from "../../../src/x402/x402.ts";
import { TRANSACTION } from "./example-request.ts";

export interface ScriptedObserver extends Observer {
  /** Whose transactions are on the chain, by hash. */
  readonly senders: Map<string, string>;
  /** The transaction that was named at each look. */
  readonly looks: readonly (string | undefined)[];
}

/** A chain that says what a test says, look by look; the last word is repeated. */
export function scriptObserver(
  ...words: readonly (Confirmation | Error | (() => Confirmation))[]
): ScriptedObserver {
  const looks: (string | undefined)[] = [];
  const senders = new Map<string, string>();
  return {
    network: "base-sepolia",
    looks,
    senders,
    senderOf: async (transaction) => senders.get(transaction),
    parse: (request: FacilitatorRequest) => ok(request.paymentPayload),
    async reconcile(_, claimed) {
      const word = words[Math.min(looks.length, words.length - 1)] ?? UNUSED;
      looks.push(claimed);
      if (word instanceof Error) throw word;
      return typeof word === "function" ? word() : word;
    },
    close: async () => undefined,
  };
}

export const UNUSED: Confirmation = { kind: "unknown", detail: "the authorization is unused" };
/** Who settles, as the chain shows it. */
export const SIGNER = `0x${"51".repeat(20)}`;
export const confirmedBy = (
  sender: string | undefined,
  transaction = TRANSACTION,
): Confirmation => {
  return { kind: "confirmed", transaction, sender };
};
export const CONFIRMED = confirmedBy(SIGNER);
export const EXPIRED: Confirmation = {
  kind: "failed",
  refusal: { code: "invalid_transaction_state", detail: "the authorization expired unused" },
  retriable: false,
};
export const REVERTED: Confirmation = {
  kind: "failed",
  refusal: { code: "invalid_transaction_state", detail: "the transaction was reverted" },
  retriable: true,
};
export const NO_CHAIN = new ChainError("CHAIN_UNREACHABLE", "rpc.example: no connection");
