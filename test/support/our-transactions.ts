/** What accounts of ours have put into blocks: how many payments, how many of them moved, and at what cost. */
import { decodeFunctionData, parseAbi, type Hex, type Log } from "viem";
import { AUTHORIZATION_USED_EVENT } from "../../src/mechanism/evm/token.ts";
import { MULTICALL3_ADDRESS, type Chain } from "./chain.ts";

const multicall = parseAbi([
  "struct Call3 { address target; bool allowFailure; bytes callData; }",
  "function aggregate3(Call3[] calls)",
]);

export interface OurTransactions {
  readonly transactions: number;
  /** Payments in them, and those whose money moved. */
  readonly carried: number;
  readonly moved: number;
  readonly gas: bigint;
  /** Transactions that were reverted as a whole. */
  readonly reverted: number;
  /** Of the gas, the part of payments that did not move. */
  readonly gasOfNothing: bigint;
}

interface Sent {
  readonly hash: Hex;
  readonly from: Hex;
  readonly to: Hex | null;
  readonly input: Hex;
}

/** Reads every block of the chain. */
export async function ourTransactions(
  chain: Chain,
  accounts: readonly string[],
): Promise<OurTransactions> {
  const ours = new Set(accounts.map((account) => account.toLowerCase()));
  const head = Number(await chain.rpc("eth_blockNumber"));
  const sum = { transactions: 0, carried: 0, moved: 0, gas: 0n, reverted: 0, gasOfNothing: 0n };
  for (let number = 1; number <= head; number += 1) {
    const block = await chain.rpc("eth_getBlockByNumber", [`0x${number.toString(16)}`, true]);
    for (const each of (block as { transactions: Sent[] }).transactions) {
      if (!ours.has(each.from.toLowerCase())) continue;
      const receipt = await chain.rpc("eth_getTransactionReceipt", [each.hash]);
      const { logs, gasUsed, status } = receipt as { logs: Log[]; gasUsed: Hex; status: Hex };
      const carried = carriedBy(each);
      const moved = logs.filter(({ topics }) => topics[0] === AUTHORIZATION_USED_EVENT).length;
      sum.transactions += 1;
      sum.carried += carried;
      sum.moved += moved;
      sum.gas += BigInt(gasUsed);
      sum.reverted += status === "0x1" ? 0 : 1;
      sum.gasOfNothing += (BigInt(gasUsed) * BigInt(carried - moved)) / BigInt(carried);
    }
  }
  return sum;
}

function carriedBy({ to, input }: Sent): number {
  if (to?.toLowerCase() !== MULTICALL3_ADDRESS.toLowerCase()) return 1;
  const { args } = decodeFunctionData({ abi: multicall, data: input });
  return args[0].length;
}
