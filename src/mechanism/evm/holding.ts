/** What an account holds of a token, be it ERC-20 or ERC-721: both answer the same question. */
import type { HeldToken } from "../../x402/holding.ts";
import { ChainError } from "../mechanism.ts";
import type { Rpc } from "../rpc.ts";
import { parseHexData, toQuantity, WORD } from "./abi.ts";
import { balanceOfCall } from "./token.ts";

/** Balances that are asked for at a time, and that wait for that. */
export const MAX_HOLDING_CALLS = 8;
export const MAX_HOLDING_WAITING = 56;
/** What a token may take for its answer: the seller has named it, and a proxy in front of it takes a fraction of that. */
const MAX_HOLDING_GAS = 300_000;

/** By the newest block. @throws {ChainError} when the chain cannot be asked, or what is there is no such token */
export async function readHolding(
  rpc: Rpc,
  { token, owner }: HeldToken,
  signal: AbortSignal,
): Promise<bigint> {
  const call = { to: token, data: `0x${balanceOfCall(owner)}`, gas: toQuantity(MAX_HOLDING_GAS) };
  const answer = parseHexData(await rpc.call("eth_call", [call, "latest"], signal));
  // Where there is no contract the answer is empty, and no zero.
  if (answer?.length !== WORD) {
    throw new ChainError("CHAIN_ANSWER", `${token} does not answer balanceOf as a token does`);
  }
  return BigInt(`0x${answer}`);
}
