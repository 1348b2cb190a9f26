/** Where a cluster stands with a payment that somebody else is about to be asked to settle. */
import { askingTheSeller, type Refusal } from "../../x402/result.ts";
import type { Standing } from "../mechanism.ts";
import { RpcRefusal, type Rpc } from "../rpc.ts";
import { readHead } from "./endpoints.ts";
import type { SolanaAuthorization } from "./payment.ts";
import { simulate } from "./simulation.ts";

/** What the runtime says of a message that is on the chain, for as long as its blockhash is valid. */
const ON_CHAIN = "AlreadyProcessed";

const EXECUTED: Refusal = {
  code: "invalid_transaction_state",
  detail: askingTheSeller(
    "the transaction has been executed before: sign a fresh one for another purchase",
  ),
};

/**
 * See `Observer.standing`, in one call. The runtime knows messages, whatever signatures come with them. By the
 * newest slot, confirmed or not: what is sent later is in a later one on every fork.
 * @throws {ChainError} when the chain cannot be asked
 */
export async function readStanding(
  rpc: Rpc,
  { transaction, feePayer }: SolanaAuthorization,
  signal: AbortSignal,
): Promise<Standing> {
  try {
    const { slot, failure } = await simulate(rpc, transaction.bytes, feePayer, signal);
    return { head: slot, used: failure?.name === ON_CHAIN ? EXECUTED : null };
  } catch (error) {
    // Whether such a transaction can be settled is for whoever is asked to.
    if (!(error instanceof RpcRefusal)) throw error;
    return { head: Number(await readHead(rpc, signal)), used: null };
  }
}
