import type { Confirmation, Observer, Standing } from "../../../../src/mechanism/mechanism.ts";
import { ChainError } from "../../../../src/mechanism/mechanism.ts";
import { ok } from "../../../../src/x402/result.ts";
import type { FacilitatorRequest } from "../../../../src/x402/x402.ts";
import { TRANSACTION } from "./example-request.ts";

export interface ScriptedObserver extends Observer {
  /** Whose transactions are on the chain, by hash. */
  readonly senders: Map<string, string>;
  /** The transaction that was named at each look. */
  readonly looks: readonly (string | undefined)[];
  /** The head after which a use was to be at each look. */
  readonly heads: readonly (number | null)[];
  /** Where the chain stands before a hand-over. */
  stands: Standing | Error;
  /** How often that was asked. */
  standings: number;
}

/** The newest block before a hand-over. */
export const HEAD = 4_711;

/** A chain that says what a test says, look by look; the last word is repeated. */
export function scriptObserver(
  ...words: readonly (Confirmation | Error | (() => Confirmation))[]
): ScriptedObserver {
  const looks: (string | undefined)[] = [];
  const heads: (number | null)[] = [];
  const senders = new Map<string, string>();
  return {
    network: "base-sepolia",
    looks,
    heads,
    senders,
    stands: { head: HEAD, used: null },
    standings: 0,
    senderOf: async (transaction) => senders.get(transaction),
    parse: (request: FacilitatorRequest) => ok(request.paymentPayload),
    async standing() {
      this.standings += 1;
      if (this.stands instanceof Error) throw this.stands;
      return this.stands;
    },
    async reconcile(_, { claimed, after }) {
      const word = words[Math.min(looks.length, words.length - 1)] ?? UNUSED;
      looks.push(claimed);
      heads.push(after);
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
