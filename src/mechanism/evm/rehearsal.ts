/**
 * A transaction of ours simulated just as it would be sent: sender, gas and fees are those that are signed,
 * so that code which looks at them finds nothing to tell the two apart by. What a block brings of its own
 * (its producer, its randomness, what stands before us in it) no simulation has.
 */
import { ok, refuse, type Refusal, type Result } from "../../x402/result.ts";
import { ChainError } from "../mechanism.ts";
import { RpcRefusal, type Rpc } from "../rpc.ts";
import { parseHexData, revertText, toQuantity } from "./abi.ts";
import type { Fees } from "./fees.ts";
import { EXECUTION_FAILED, refuseTransfer } from "./inspection.ts";
import type { ContractTransaction } from "./transaction.ts";

/** What is to be sent; see {@link ContractTransaction}. */
export interface Rehearsed extends Pick<ContractTransaction, "to" | "data" | "gasLimit" | "fees"> {
  /** Who will send it. */
  readonly account: string;
}

/** A node's words for a sender that cannot pay. */
const CANNOT_PAY = /insufficient funds/i;

/**
 * Asks once, at `pending`.
 * @throws {ChainError} `CHAIN_GAS` when our account cannot pay it, another code when the chain cannot be
 * asked
 */
export async function rehearse(
  rpc: Rpc,
  { account, to, data, gasLimit, fees }: Rehearsed,
  signal: AbortSignal,
): Promise<Result<void, Refusal>> {
  const call = { from: account, to, data: `0x${data}`, gas: toQuantity(gasLimit), ...feesOf(fees) };
  try {
    await rpc.call("eth_call", [call, "pending"], signal);
    return ok(undefined);
  } catch (error) {
    if (!(error instanceof RpcRefusal)) throw error;
    if (CANNOT_PAY.test(error.rpcMessage)) throw new ChainError("CHAIN_GAS", error.message);
    if (!EXECUTION_FAILED.test(error.rpcMessage)) throw error;
    const said = revertText(parseHexData(error.data) ?? "");
    if (said !== "") return refuseTransfer(said);
    return refuse(
      "invalid_transaction_state",
      "the transfer fails when it is simulated as it would be sent",
    );
  }
}

function feesOf(fees: Fees): Readonly<Record<string, string>> {
  if (fees.kind === "legacy") return { gasPrice: toQuantity(fees.gasPrice) };
  return {
    maxFeePerGas: toQuantity(fees.maxFeePerGas),
    maxPriorityFeePerGas: toQuantity(fees.maxPriorityFeePerGas),
  };
}
