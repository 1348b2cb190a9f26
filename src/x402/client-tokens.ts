/**
 * The tokens with which version 2 clients (`@x402/fetch` 2.27.0) pay unless their user says otherwise, on the
 * networks that there are here. A price in another token is one that such a client refuses.
 */
import type { NetworkName } from "./network.ts";

export const USUAL_TOKENS: Readonly<Partial<Record<NetworkName, readonly string[]>>> = {
  base: ["0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"],
  "base-sepolia": ["0x036CbD53842c5426634e7929541eC2318f3dCF7e"],
  avalanche: ["0xB97EF9Ef8734C71904D8002F8b6Bc66Dd9c48a6E"],
  polygon: ["0x3c499c542cEF5E3811e1192ce70d8cC03d5c3359"],
  sei: ["0xe15fC38F6D8c56aF07bbCBe3BAf5708A2Bf42392"],
  "sei-testnet": ["0x4fCF1784B31630811181f670Aea7A7bEF803eaED"],
  solana: [
    "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v",
    "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB",
    "2u1tszSeqZ3qBWF3uNGPFc8TzMk2tdiwknnRMWGWjGWH",
    "2b1kV6DkPAnxd5ixfnxCpjxmKwqjjaYmCZfHsFu24GXo",
    "CASHx9KJUStyftLFWGvEVf59SGeG9sh5FfcnZMVPCASH",
  ],
  "solana-devnet": [
    "4zMMC9srt5Ri5X14GAgXhaHii3GnPAEERYPJgZJDncDU",
    "4F6PM96JJxngmHnZLBh9n58RH4aTVNWvDs2nuwrT5BP7",
    "CXk2AMBfi3TwaEL2468s6zP8xq9NxTXjp9gjMgzeUynM",
  ],
};

/** As those clients compare: letter case counts on Solana only. */
export function isUsualToken(network: string | undefined, asset: string | undefined): boolean {
  const name = network ?? "";
  const tokens = Object.hasOwn(USUAL_TOKENS, name) ? USUAL_TOKENS[name as NetworkName] : undefined;
  if (tokens === undefined || asset === undefined) return false;
  if (name.startsWith("solana")) return tokens.includes(asset);
  return tokens.some((token) => token.toLowerCase() === asset.toLowerCase());
}
