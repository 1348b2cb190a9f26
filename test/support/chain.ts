/** The local chain that `coinslot try` starts, with what tests do to it besides. */
import { encodeFunctionData, parseAbi, toHex, type Address, type Hex } from "viem";
import {
  OWNER,
  startLocalChain,
  type ChainOptions,
  type LocalChain,
} from "../../src/trial/local-chain.ts";
import { walletCode } from "./erc1271-wallet.ts";
import { freshAccount } from "./payer.ts";

export { MULTICALL3_ADDRESS } from "../../src/trial/local-chain.ts";

export interface Chain extends LocalChain {
  setBlacklisted(address: Address, blacklisted: boolean): Promise<void>;
  pause(): Promise<void>;
  unpause(): Promise<void>;
  /** A call by somebody who is no party to anything; its hash, once it is in a block. */
  submit(to: Address, data: Hex): Promise<Hex>;
  /** Installs an ERC-1271 wallet of one owner at a fresh address. */
  deployWallet(owner: Address): Promise<Address>;
  mine(blocks?: number): Promise<void>;
  setNextBlockTimestamp(unixSeconds: number): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

const token = parseAbi([
  "function blacklist(address account)",
  "function unBlacklist(address account)",
  "function pause()",
  "function unpause()",
]);

/** The third development account of the node. */
export const STRANGER = "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC";

/** Starts the chain; ready to be paid on when the promise resolves. */
export async function startChain(options: ChainOptions = {}): Promise<Chain> {
  const chain = await startLocalChain(options);
  const administer = async (data: Hex): Promise<void> => {
    await chain.transact({ from: OWNER, to: chain.asset, data });
  };
  return {
    ...chain,
    setBlacklisted(address, blacklisted) {
      const functionName = blacklisted ? "blacklist" : "unBlacklist";
      return administer(encodeFunctionData({ abi: token, functionName, args: [address] }));
    },
    pause: () => administer(encodeFunctionData({ abi: token, functionName: "pause" })),
    unpause: () => administer(encodeFunctionData({ abi: token, functionName: "unpause" })),
    submit: (to, data) => chain.transact({ from: STRANGER, to, data }),
    async deployWallet(owner) {
      const { address } = freshAccount();
      await chain.rpc("anvil_setCode", [address, walletCode(owner)]);
      return address;
    },
    async mine(blocks = 1) {
      await chain.rpc("anvil_mine", [toHex(blocks)]);
    },
    async setNextBlockTimestamp(unixSeconds) {
      await chain.rpc("evm_setNextBlockTimestamp", [unixSeconds]);
    },
    [Symbol.asyncDispose]: () => chain.stop(),
  };
}
