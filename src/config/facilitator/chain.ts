/** How a chain is asked: what the networks have in common that are settled here and elsewhere. */
import type { Asset, EvmAsset, NetworkName, SolanaAsset } from "../../x402/network.ts";
import { dollarAsset } from "../routes/accepted.ts";
import type { OfferSettings } from "../routes/pricing.ts";
import { RPC_URL } from "../reading/forms.ts";
import { bad, readRpcUrl, readWord, type Reader } from "../reading/reading.ts";
import { listOf, optional, text } from "../reading/shapes.ts";
import { Secret } from "./secret.ts";

export interface AskedChain {
  readonly network: NetworkName;
  /** At least one, tried in this order. */
  readonly rpc: readonly RpcEndpoint[];
}

/** RPC URLs often carry an API key, so the URL is secret and `host` is for messages. */
interface RpcEndpoint {
  readonly url: Secret;
  readonly host: string;
}

/** What the cluster has to say about a Solana transaction before it counts as settled. */
const COMMITMENTS = ["confirmed", "finalized"] as const;

export type Commitment = (typeof COMMITMENTS)[number];

/** Where a Solana transaction counts; `processed` is known to Solana, and refused here. */
const readCommitment: Reader<Commitment> = (text) => {
  const read = readWord(COMMITMENTS)(text);
  if (read.ok || text !== "processed") return read;
  return bad(read.error.message, "a block that is only processed may still be dropped");
};

export const commitment = optional(
  text(readCommitment, { enum: COMMITMENTS }),
  "Solana: where a transaction counts as settled; finalized takes about 13 seconds.",
  "confirmed",
);

/** URLs of one chain. */
export const rpc = listOf(text(readRpcUrl, RPC_URL));

export function endpointOf(url: URL): RpcEndpoint {
  return { url: new Secret(url.href), host: url.host };
}

/** The tokens that are settled on one network, each once: all of its family. */
export function settledAssets(
  network: NetworkName,
  offers: readonly OfferSettings[],
  known: readonly Asset[],
): readonly Asset[] {
  const offered = offers.filter((offer) => offer.network === network).map((offer) => offer.asset);
  const all = [dollarAsset(network), ...offered, ...known];
  return [...new Map(all.map((asset) => [asset.address, asset])).values()];
}

export function isEvmAsset(asset: Asset): asset is EvmAsset {
  return "eip712" in asset;
}

export function isSolanaAsset(asset: Asset): asset is SolanaAsset {
  return !isEvmAsset(asset);
}
