import { encodeAbiParameters, getAddress, hashDomain, keccak256, toHex } from "viem";
import { describe, expect, it } from "vitest";
import { getDefaultAsset } from "x402/shared";
import { EvmNetworkToChainId, NetworkSchema, SupportedSVMNetworks } from "x402/types";
import { hasValidChecksum } from "../../../src/x402/address.ts";
import {
  compareSupported,
  explorerLink,
  findNetwork,
  isNetworkName,
  NETWORK_NAMES,
  networkOf,
  type EvmNetwork,
} from "../../../src/x402/network.ts";
import table from "../../../src/x402/networks.json" with { type: "json" };

const networks = NETWORK_NAMES.map(networkOf);
const evm = networks.filter((network): network is EvmNetwork => network.kind === "evm");

const CHAIN_IDS: Readonly<Record<string, number>> = {
  avalanche: 43_114,
  "avalanche-fuji": 43_113,
  base: 8453,
  "base-sepolia": 84_532,
  iotex: 4689,
  peaq: 3338,
  polygon: 137,
  "polygon-amoy": 80_002,
  sei: 1329,
  "sei-testnet": 1328,
};

const DOMAIN_TYPE = [
  { name: "name", type: "string" },
  { name: "version", type: "string" },
  { name: "chainId", type: "uint256" },
  { name: "verifyingContract", type: "address" },
] as const;

describe("the networks", () => {
  it("are the twelve of protocol section 8.1, in its order", () => {
    expect(NETWORK_NAMES).toEqual([
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
    ]);
  });

  it("are exactly the rows of networks.json", () => {
    const rows = table.networks.map(({ network }) => network);
    expect(rows.sort()).toEqual([...NETWORK_NAMES].sort());
    expect(networks.map(({ name }) => name)).toEqual(NETWORK_NAMES);
  });

  it("are found by their exact name only", () => {
    expect(findNetwork("base")?.name).toBe("base");
    for (const name of ["Base", "base ", "eip155:8453", "8453", "", "__proto__", "constructor"]) {
      expect(findNetwork(name)).toBeUndefined();
      expect(isNetworkName(name)).toBe(false);
    }
  });

  it("are ten of the EVM with the chain ids that their names stand for", () => {
    expect(Object.fromEntries(evm.map(({ name, chainId }) => [name, chainId]))).toEqual(CHAIN_IDS);
  });

  it("are marked as test networks where they are", () => {
    const test = networks.filter(({ testnet }) => testnet).map(({ name }) => name);
    expect(test).toEqual([
      "avalanche-fuji",
      "base-sepolia",
      "polygon-amoy",
      "sei-testnet",
      "solana-devnet",
    ]);
  });

  it("are listed as supported in the order of protocol section 4.3, the others after them", () => {
    expect([...NETWORK_NAMES].sort(compareSupported)).toEqual([
      "base-sepolia",
      "base",
      "avalanche-fuji",
      "avalanche",
      "iotex",
      "solana-devnet",
      "solana",
      "peaq",
      "polygon",
      "polygon-amoy",
      "sei",
      "sei-testnet",
    ]);
  });
});

describe.each(evm)("the network $name", (network) => {
  const { asset, chainId, name } = network;
  const domain = { ...asset.eip712, chainId, verifyingContract: getAddress(asset.address) };

  it("has the domain separator that its token's name, version, chain and address give", () => {
    const viem = hashDomain({
      domain: { ...domain, chainId: BigInt(chainId) },
      types: { EIP712Domain: [...DOMAIN_TYPE] },
    });
    expect(asset.domainSeparator).toBe(viem);
  });

  it("has the domain separator of EIP-712's own definition", () => {
    const type = `EIP712Domain(${DOMAIN_TYPE.map((each) => `${each.type} ${each.name}`).join()})`;
    const encoded = encodeAbiParameters(
      [
        { type: "bytes32" },
        { type: "bytes32" },
        { type: "bytes32" },
        { type: "uint256" },
        { type: "address" },
      ],
      [
        keccak256(toHex(type)),
        keccak256(toHex(domain.name)),
        keccak256(toHex(domain.version)),
        BigInt(chainId),
        domain.verifyingContract,
      ],
    );
    expect(asset.domainSeparator).toBe(keccak256(encoded));
  });

  it("has an asset address with its EIP-55 checksum", () => {
    expect(asset.address).toBe(domain.verifyingContract);
    expect(hasValidChecksum(asset.address)).toBe(true);
  });

  it("agrees with the official version 1 client", () => {
    const official = getDefaultAsset(NetworkSchema.parse(name));
    expect(EvmNetworkToChainId.get(NetworkSchema.parse(name))).toBe(chainId);
    expect(getAddress(official.address)).toBe(asset.address);
    expect(official.decimals).toBe(asset.decimals);
    expect(official.eip712).toEqual(asset.eip712);
  });

  it("links to a transaction's page", () => {
    const link = explorerLink(network, "0xabc");
    expect(link).toContain("0xabc");
    expect(new URL(link).protocol).toBe("https:");
  });
});

describe.each(["solana", "solana-devnet"] as const)("the network %s", (name) => {
  it("has the mint that the official version 1 client has", () => {
    const network = networkOf(name);
    expect(network.kind).toBe("solana");
    expect(SupportedSVMNetworks).toContain(name);
    const official = getDefaultAsset(name);
    expect(network.asset.address).toBe(String(official.address));
    expect(network.asset.decimals).toBe(official.decimals);
  });
});
