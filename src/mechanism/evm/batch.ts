/**
 * Several payments in one transaction: Multicall3's `aggregate3`, in which each may fail without the
 * others. Before it is signed it is simulated with the very gas limit that is signed.
 */
import { ChainError } from "../mechanism.ts";
import { RpcRefusal, type Rpc } from "../rpc.ts";
import { decodeAggregate3, encodeAggregate3, parseHexData, toQuantity } from "./abi.ts";
import type { EvmCheckedAuthorization } from "./authorization.ts";
import { MULTICALL3_ADDRESS } from "./inspection.ts";
import { hasCode } from "./probe.ts";
import { transferCall } from "./token.ts";

/** A node's words for a call that failed as a whole, or that it will not run with so much gas. */
const FAILED_AS_A_WHOLE = /revert|gas/i;

/** Call data for Multicall3, hex without `0x`. */
export function batchCall(authorizations: readonly EvmCheckedAuthorization[]): string {
  return encodeAggregate3(
    authorizations.map(({ token, words, signature, proven }) => {
      return { target: token.address, callData: transferCall(words, signature, proven) };
    }),
  );
}

interface BatchSimulation {
  readonly authorizations: readonly EvmCheckedAuthorization[];
  /** Who will send it. */
  readonly account: string;
  readonly gasLimit: bigint;
}

/**
 * Which of the transfers succeed when they are made together, in order. All false when the call as a whole
 * cannot be run.
 * @throws {ChainError} when the chain cannot be asked
 */
export async function simulateBatch(
  rpc: Rpc,
  { authorizations, account, gasLimit }: BatchSimulation,
  signal: AbortSignal,
): Promise<readonly boolean[]> {
  const call = {
    from: account,
    to: MULTICALL3_ADDRESS,
    data: `0x${batchCall(authorizations)}`,
    gas: toQuantity(gasLimit),
  };
  let answer: unknown;
  try {
    answer = await rpc.call("eth_call", [call, "pending"], signal);
  } catch (error) {
    if (!(error instanceof RpcRefusal) || !FAILED_AS_A_WHOLE.test(error.rpcMessage)) throw error;
    return authorizations.map(() => false);
  }
  const results = decodeAggregate3(parseHexData(answer) ?? "");
  if (results?.length === authorizations.length) return results.map(({ success }) => success);
  throw new ChainError("CHAIN_ANSWER", `${rpc.host}: Multicall3 did not answer a simulation`);
}

/**
 * Which of the addresses have code, in one call: it runs as the constructor of a contract that is never
 * made, and its answer has one byte for each address. Where a node does not do that, it is asked for the
 * code of each.
 *
 * The token asks a payer with code about the signature (ERC-1271; an EOA has code by EIP-7702), and that
 * code may behave in a simulation and burn the gas of all the others in a block.
 * @param block a number in hex, `latest` or `pending`
 * @throws {ChainError} when the chain cannot be asked
 */
export async function readHasCode(
  rpc: Rpc,
  addresses: readonly string[],
  signal: AbortSignal,
  block = "pending",
): Promise<readonly boolean[]> {
  const question = { data: `0x${hasCodeProgram(addresses)}` };
  let flags: string | undefined;
  try {
    flags = parseHexData(await rpc.call("eth_call", [question, block], signal));
  } catch (error) {
    if (!(error instanceof RpcRefusal)) throw error;
  }
  if (flags?.length === 2 * addresses.length && /^(?:0[01])*$/.test(flags)) {
    return addresses.map((_, index) => flags[2 * index + 1] === "1");
  }
  return Promise.all(addresses.map((address) => hasCode(rpc, address, signal, block)));
}

/** For at most 255 addresses. */
function hasCodeProgram(addresses: readonly string[]): string {
  const steps = addresses.map(
    // PUSH20 address, EXTCODESIZE, ISZERO, ISZERO, PUSH1 index, MSTORE8
    (address, index) => `73${address.slice(2)}3b151560${byte(index)}53`,
  );
  // PUSH1 count, PUSH1 0, RETURN
  return `${steps.join("")}60${byte(addresses.length)}6000f3`;
}

function byte(value: number): string {
  return value.toString(16).padStart(2, "0");
}
