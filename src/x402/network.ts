/**
 * The twelve networks of protocol section 8.1 with their default stablecoin. The facts and where each
 * comes from are in `networks.json`; this file gives them types and checks them once at load.
 */
import { z } from "zod";
import table from "./networks.json" with { type: "json" };

/** Exact network strings, in the order of protocol section 8.1. */
export const NETWORK_NAMES = [
  "avalanche",
  "avalanche-fuji",
  "base",
  "base-sepolia",
  "iotex",
  "peaq",
  "polygon",
  "polygon-amoy",
  "sei",
  "sei-testnet",
  "solana",
  "solana-devnet",
] as const;

export type NetworkName = (typeof NETWORK_NAMES)[number];

interface NetworkFacts {
  readonly name: NetworkName;
  /** How version 2 of the protocol names it: `eip155:8453`, or `solana:` and the start of the genesis hash. */
  readonly caip2: string;
  readonly displayName: string;
  readonly testnet: boolean;
  readonly nativeCurrency: {
    readonly name: string;
    readonly symbol: string;
    readonly decimals: number;
  };
  readonly explorer: {
    readonly name: string;
    readonly url: string;
    /** With `{hash}`. */
    readonly tx: string;
    /** With `{address}`. */
    readonly address: string;
  };
  /** Public endpoints, for who has none of their own; the first is the one to try. */
  readonly rpcUrls: readonly string[];
  /** Where each fact was read. */
  readonly sources: readonly string[];
}

/** The EIP-712 domain members of a token that are not its address and chain. */
export interface TokenDomain {
  readonly name: string;
  readonly version: string;
}

export interface EvmAsset {
  readonly symbol: string;
  /** EIP-55 checksummed. */
  readonly address: string;
  readonly decimals: number;
  readonly eip712: TokenDomain;
}

export interface SolanaAsset {
  readonly symbol: string;
  /** Mint, base58. Unlike EVM addresses, upper and lower case differ. */
  readonly address: string;
  readonly decimals: number;
  /** Program that owns the mint, base58; null: not known until the chain is asked. */
  readonly tokenProgram: string | null;
}

/** Told apart by the EIP-712 domain, which only EVM tokens have: `"eip712" in asset`. */
export type Asset = EvmAsset | SolanaAsset;

export interface EvmNetwork extends NetworkFacts {
  readonly kind: "evm";
  readonly chainId: number;
  readonly asset: EvmAsset & {
    /** `DOMAIN_SEPARATOR()` computed from the domain above. */
    readonly domainSeparator: string;
    /** Whether a public source quotes the same value as read from the chain. */
    readonly domainSeparatorEvidence: string;
  };
  readonly recommendedConfirmations: number;
}

export interface SolanaNetwork extends NetworkFacts {
  readonly kind: "solana";
  /** What `getGenesisHash` answers, base58: a cluster's identity, as the chain id is an EVM network's. */
  readonly genesisHash: string;
  readonly asset: SolanaAsset & { readonly tokenProgram: string };
}

export type Network = EvmNetwork | SolanaNetwork;

const address = z.string().regex(/^0x[0-9a-fA-F]{40}$/);
const facts = {
  network: z.enum(NETWORK_NAMES),
  caip2: z.string(),
  displayName: z.string(),
  testnet: z.boolean(),
  nativeCurrency: z.object({ name: z.string(), symbol: z.string(), decimals: z.int() }),
  explorer: z.object({
    name: z.string(),
    url: z.url(),
    tx: z.string().includes("{hash}"),
    address: z.string().includes("{address}"),
  }),
  rpcUrls: z.array(z.url()).min(1),
  sources: z.array(z.string()),
};
const evmRow = z.object({
  ...facts,
  kind: z.literal("evm"),
  chainId: z.int().positive(),
  asset: z.object({
    symbol: z.string(),
    address,
    decimals: z.int().min(0).max(36),
    eip712: z.object({ name: z.string(), version: z.string() }),
    domainSeparator: z.string().regex(/^0x[0-9a-f]{64}$/),
    domainSeparatorEvidence: z.string(),
  }),
  recommendedConfirmations: z.int().positive(),
});
const solanaRow = z.object({
  ...facts,
  kind: z.literal("svm"),
  genesisHash: z.string().regex(/^[1-9A-HJ-NP-Za-km-z]{43,44}$/),
  asset: z.object({
    symbol: z.string(),
    address: z.string(),
    decimals: z.int().min(0).max(18),
    tokenProgram: z.string(),
  }),
});

function toNetwork(row: unknown): Network {
  const { network: name, ...rest } = z.discriminatedUnion("kind", [evmRow, solanaRow]).parse(row);
  return rest.kind === "evm" ? { name, ...rest } : { name, ...rest, kind: "solana" };
}

const networks: ReadonlyMap<string, Network> = new Map(
  table.networks.map(toNetwork).map((network) => [network.name, network]),
);

/** The network of that exact name, or undefined: network strings are case-sensitive (section 2). */
export function findNetwork(name: string): Network | undefined {
  return networks.get(name);
}

const byCaip2: ReadonlyMap<string, Network> = new Map(
  [...networks.values()].map((network) => [network.caip2, network]),
);

/** The network of that CAIP-2 identifier, or undefined. */
export function findNetworkByCaip2(caip2: string): Network | undefined {
  return byCaip2.get(caip2);
}

export function networkOf(name: NetworkName): Network {
  const network = networks.get(name);
  if (network === undefined) throw new Error(`networks.json has no row for ${name}`);
  return network;
}

export function isNetworkName(name: string): name is NetworkName {
  return networks.has(name);
}

/** Address of a transaction's page on the network's explorer. */
export function explorerLink(network: Network, transaction: string): string {
  return network.explorer.tx.replace("{hash}", transaction);
}

/** The networks that protocol section 4.3 names, in its order: what the first clients were made for. */
const FIRST_NETWORKS: readonly NetworkName[] = [
  "base-sepolia",
  "base",
  "avalanche-fuji",
  "avalanche",
  "iotex",
  "solana-devnet",
  "solana",
];

/** False for networks that older clients may not know. */
export function isFirstNetwork(name: NetworkName): boolean {
  return FIRST_NETWORKS.includes(name);
}

/** Sorts by the order of `GET /supported`: that of section 4.3, then the networks it does not name. */
export function compareSupported(left: NetworkName, right: NetworkName): number {
  return rank(left) - rank(right);
}

function rank(name: NetworkName): number {
  const listed = FIRST_NETWORKS.indexOf(name);
  return listed >= 0 ? listed : FIRST_NETWORKS.length + NETWORK_NAMES.indexOf(name);
}
