/** Somebody who has seen a payment, and puts it on chain himself. */
import { encodeFunctionData, parseAbi, parseSignature, type Hex } from "viem";
import { decodePaymentHeader } from "../../src/x402/header.ts";
import { isEvmPayload } from "../../src/x402/payment-key.ts";
import type { Chain } from "./chain.ts";

const abi = parseAbi([
  "function transferWithAuthorization(address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s)",
]);

/** Resolves with the transaction, which is in a block. */
export async function submitAsStranger(chain: Chain, header: string): Promise<Hex> {
  const payment = decodePaymentHeader(header);
  if (!payment.ok || !isEvmPayload(payment.value.payload)) throw new Error("no EVM payment");
  const { authorization, signature } = payment.value.payload;
  const { from, to, value, validAfter, validBefore, nonce } = authorization;
  const { r, s, v = 27n } = parseSignature(signature as Hex);
  const numbers = [BigInt(value), BigInt(validAfter), BigInt(validBefore)] as const;
  const args = [from as Hex, to as Hex, ...numbers, nonce as Hex, Number(v), r, s] as const;
  return chain.submit(chain.asset, encodeFunctionData({ abi, args }));
}

/** How many transactions wait for a block. */
export async function pendingOn(chain: Chain): Promise<number> {
  return Number(Object(await chain.rpc("txpool_status"))["pending"]);
}

/** Puts it on chain in place of the one transaction that waits for a block; then the chain goes on by itself. */
export async function overtake(chain: Chain, header: string): Promise<Hex> {
  await chain.rpc("anvil_dropAllTransactions");
  await chain.rpc("evm_setAutomine", [true]);
  return submitAsStranger(chain, header);
}
