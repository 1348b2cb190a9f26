/** `facilitator.remote` and `facilitator.rpc`: who settles elsewhere, and what their chains are asked by. */
import { z } from "zod";
import {
  networkOf,
  type EvmAsset,
  type NetworkName,
  type SolanaAsset,
} from "../../x402/network.ts";
import type { OfferSettings } from "../routes/pricing.ts";
import {
  commitment,
  endpointOf,
  isEvmAsset,
  isSolanaAsset,
  rpc,
  settledAssets,
  type AskedChain,
  type Commitment,
} from "./chain.ts";
import { cdp, resolveCdpKey, type CdpKeySettings } from "./cdp-key.ts";
import { Secret } from "./secret.ts";
import type { Context } from "../reading/context.ts";
import { BASE_URL, NETWORK } from "../reading/forms.ts";
import { fault, ONE_OF_TWO, readFacilitatorUrl } from "../reading/reading.ts";
import {
  described,
  duration,
  headerKey,
  headerValue,
  map,
  named,
  optional,
  text,
  word,
} from "../reading/shapes.ts";

export interface RemoteFacilitatorSettings {
  /** Absolute http(s) URL without query, fragment or trailing slash. */
  readonly url: string;
  readonly headers: readonly { readonly name: string; readonly value: Secret }[];
  readonly timeoutMs: number;
  /** What its settlements count by: its own word, or a receipt from the chain, which is observed then. */
  readonly confirm: "facilitator" | "receipt";
  /** Signs a token for each request; null: none is sent. */
  readonly cdp: CdpKeySettings | null;
}

/** A chain that is asked what became of a payment which others settled. */
export type ObservedNetwork = EvmObservedNetwork | SolanaObservedNetwork;

export interface EvmObservedNetwork extends AskedChain {
  readonly kind: "evm";
  /** Blocks that hold a settlement before it counts, at least 1: what suits the network. */
  readonly confirmations: number;
  /** Tokens settled there: the network's own stablecoin first, then our routes'. */
  readonly assets: readonly EvmAsset[];
}

export interface SolanaObservedNetwork extends AskedChain {
  readonly kind: "solana";
  readonly commitment: Commitment;
  /** Tokens settled there: the network's own stablecoin first, then our routes'. */
  readonly assets: readonly SolanaAsset[];
}

const remoteMap = map({
  url: described(text(readFacilitatorUrl, BASE_URL), "Where the facilitator is, without /verify."),
  headers: optional(
    z.record(headerKey, headerValue, "must be a map"),
    'Sent with every request; secrets belong here: { Authorization: "Bearer ${TOKEN}" }.',
  ),
  auth: optional(
    map({ cdp: described(cdp, "An API key of Coinbase's Developer Platform.") }),
    "A token for each request, signed with a key of ours, for facilitators that want one.",
  ),
  timeout: optional(duration, "Longest that an answer may take.", "10s"),
  confirm: optional(
    word(["facilitator", "receipt"]),
    "What its settlements count by: its own word, or a receipt from the chain, which is then asked " +
      "through `facilitator.rpc`.",
    "facilitator",
  ),
});

/** A URL alone, or a map. */
export const remote = z.union(
  [text(readFacilitatorUrl, BASE_URL).transform((url) => remoteMap.parse({ url })), remoteMap],
  "must be a URL or { url, … }",
);

/** By network. */
export const observedRpc = named(rpc, NETWORK);

/** `remote`, with the keys to which it refers. */
export function resolveRemotes(
  written: readonly z.output<typeof remote>[],
  context: Context,
): readonly RemoteFacilitatorSettings[] {
  return written.map(({ url, headers = {}, auth, timeout, confirm }, index) => {
    const path = ["facilitator", "remote", index];
    const names = Object.keys(headers);
    const rival = names.find((name) => name.toLowerCase() === "authorization");
    if (auth !== undefined && rival !== undefined) {
      const message = "is written by auth, which signs a token for each request";
      const found = fault("bad-header", message, "remove this header, or auth");
      context.problems.errorAtKey([...path, "headers", rival], found);
    }
    const key = auth && resolveCdpKey(auth.cdp, [...path, "auth", "cdp"], context);
    return {
      url,
      headers: names.map((name) => ({ name, value: new Secret(headers[name] ?? "") })),
      timeoutMs: timeout,
      confirm,
      cdp: key ?? null,
    };
  });
}

interface Settled {
  readonly embedded: readonly { readonly network: NetworkName }[];
  readonly offers: readonly OfferSettings[];
}

/** The keys of a facilitator that say what others settle. */
interface Elsewhere {
  readonly remote: readonly RemoteFacilitatorSettings[];
  readonly rpc: z.output<typeof observedRpc>;
}

/** `rpc`: what the chains are asked by that others settle on. */
export function resolveObserved(
  { remote, rpc }: Elsewhere,
  settled: Settled,
  context: Context,
): readonly ObservedNetwork[] {
  const { problems, tree } = context;
  const own = new Set(settled.embedded.map((each) => each.network));
  const observed: ObservedNetwork[] = [];
  for (const network of context.networkKeys(["facilitator", "rpc"])) {
    const path = ["facilitator", "rpc", network];
    const urls = rpc[network] ?? [];
    if (urls.length === 0 && tree.intact(path)) {
      problems.error(path, fault("bad-value", "must have at least one URL"));
    }
    if (own.has(network) || (remote.length === 0 && tree.intact(["facilitator", "remote"]))) {
      const message = own.has(network)
        ? "has no effect: this network is settled here, with its own rpc"
        : "has no effect without facilitator.remote";
      problems.add("warning", path, fault("unused-key", message, "remove it"), "key");
      continue;
    }
    observed.push(observe(network, urls, settled.offers));
  }
  checkRemotes(remote, context);
  checkReceipts({ remote, rpc }, settled, context);
  return observed;
}

function observe(
  name: NetworkName,
  urls: readonly URL[],
  offers: readonly OfferSettings[],
): ObservedNetwork {
  const network = networkOf(name);
  const rpc = urls.map(endpointOf);
  const assets = settledAssets(name, offers, []);
  if (network.kind === "solana") {
    const settled = {
      commitment: commitment.parse(undefined),
      assets: assets.filter(isSolanaAsset),
    };
    return { kind: "solana", network: name, rpc, ...settled };
  }
  const confirmations = network.recommendedConfirmations;
  return { kind: "evm", network: name, rpc, confirmations, assets: assets.filter(isEvmAsset) };
}

/** A payment is asked for again at the facilitator of its URL: there must be one. */
function checkRemotes(remote: readonly RemoteFacilitatorSettings[], { problems }: Context): void {
  const urls = remote.map(({ url }) => url);
  for (const [index, url] of urls.entries()) {
    if (urls.indexOf(url) === index) continue;
    const message = "this is the same facilitator as an earlier one";
    problems.error(["facilitator", "remote", index], fault("duplicate-entry", message, ONE_OF_TWO));
  }
}

/** Where a receipt is wanted there must be a chain to ask. */
function checkReceipts(
  { remote, rpc }: Elsewhere,
  { embedded, offers }: Settled,
  { problems }: Context,
): void {
  const own = new Set(embedded.map((each) => each.network));
  const missing = new Set(
    offers.map(({ network }) => network).filter((each) => !own.has(each) && !(each in rpc)),
  );
  const isBlind = offers.length === 0 && Object.keys(rpc).length === 0;
  for (const [index, each] of remote.entries()) {
    if (each.confirm !== "receipt") continue;
    const path = ["facilitator", "remote", index, "confirm"];
    for (const network of missing) {
      const message = `needs an RPC endpoint for ${network}, which is settled there`;
      const hint = `add facilitator.rpc.${network}: [URL]`;
      problems.error(path, fault("no-rpc", message, hint));
    }
    if (!isBlind) continue;
    const message = "needs an RPC endpoint for each network that is settled there";
    problems.error(path, fault("no-rpc", message, "add facilitator.rpc.NETWORK: [URL]"));
  }
}
