/** `facilitator`: who settles which network, and where that is offered to others. */
import {
  isNetworkName,
  networkOf,
  type Asset,
  type EvmAsset,
  type NetworkName,
  type SolanaAsset,
} from "../../x402/network.ts";
import { dollarAsset, type Assets } from "../routes/accepted.ts";
import { readAddress } from "../listener/addresses.ts";
import type { Context } from "../reading/context.ts";
import { resolveHub } from "./hub.ts";
import { resolveListener } from "../listener/listeners.ts";
import type { Fault } from "../reading/problem.ts";
import { fault } from "../reading/reading.ts";
import { Secret } from "./secret.ts";
import {
  DEFAULT_COMMITMENT,
  readSettlers,
  type Settler,
  type WrittenFacilitator,
} from "./settlers.ts";
import type {
  FacilitatorSettings,
  ObservedNetwork,
  OfferSettings,
  RemoteFacilitatorSettings,
  RouteSettings,
} from "../settings.ts";
import { didYouMean } from "../reading/suggestion.ts";

const REMOTE_TIMEOUT_MS = 10_000;

/** The short form of `facilitator` is one remote facilitator. */
function written({ document }: Context): WrittenFacilitator {
  const { facilitator = {} } = document;
  return typeof facilitator === "string" ? { remote: [facilitator] } : facilitator;
}

export function embeddedSettlers(context: Context): readonly Settler[] {
  return readSettlers(written(context).embedded, context);
}

/** Whether a payment on that network can be settled: in this process, or by a remote facilitator. */
export function settlesWith(context: Context, settlers: readonly Settler[]) {
  const remote = (written(context).remote ?? []).length > 0;
  const own = new Set(settlers.map((each) => each.network));
  // A network whose name is mistyped may be the one that is wanted.
  const names = context.tree.find(["facilitator", "embedded", "networks"]);
  const isUnclear =
    names?.kind === "mapping" && [...names.entries.keys()].some((name) => !isNetworkName(name));
  return (network: NetworkName): boolean => remote || isUnclear || own.has(network);
}

export interface FacilitatorParts {
  readonly assets: Assets;
  readonly settlers: readonly Settler[];
  readonly routes: readonly RouteSettings[];
}

export function resolveFacilitator(context: Context, parts: FacilitatorParts): FacilitatorSettings {
  const { listen, basePath = "", embedded, remote = [], foreign = "hold" } = written(context);
  const offers = parts.routes.flatMap(({ action }) =>
    action.kind === "priced" ? action.offers : [],
  );
  const allowed = (embedded?.allow?.payTo ?? []).map(({ text }) => text);
  const payees = [...new Set([...offers.map((offer) => offer.payTo), ...allowed])];
  const assets = allowedAssets(context, parts);
  checkListener(context);
  return {
    listen:
      listen === undefined ? null : resolveListener(listen, ["facilitator", "listen"], context),
    basePath,
    ...resolveHub(written(context), context),
    embedded: parts.settlers.map((each) => {
      const settled = settledAssets(each.network, offers, assets.get(each.network) ?? []);
      return each.kind === "evm"
        ? { ...each, assets: settled.filter(isEvmAsset) }
        : { ...each, assets: settled.filter(isSolanaAsset) };
    }),
    payees: context.tree.has(["routes"]) || allowed.length > 0 ? payees : "any",
    leastAttodollars: embedded?.allow?.minAmount ?? null,
    remote: remote.map(remoteFacilitator),
    foreign,
    observed: resolveObserved(context, { embedded: parts.settlers, offers }),
  };
}

function checkListener({ document, tree, problems }: Context): void {
  const { facilitator } = document;
  if (typeof facilitator !== "object" || !tree.intact(["facilitator"])) return;
  const { listen, embedded, remote = [] } = facilitator;
  if (listen !== undefined && embedded === undefined && remote.length === 0) {
    const message = "a facilitator is served here, but nothing settles: add embedded or remote";
    problems.errorAtKey(["facilitator", "listen"], fault("no-facilitator", message));
  }
  for (const key of ["auth", "basePath", "catalogue"] as const) {
    if (listen !== undefined || facilitator[key] === undefined) continue;
    const message = "has no effect without facilitator.listen";
    problems.add("warning", ["facilitator", key], fault("unused-key", message), "key");
  }
}

/** The tokens that are settled on one network, each once: all of its family. */
function settledAssets(
  network: NetworkName,
  offers: readonly OfferSettings[],
  known: readonly Asset[],
): readonly Asset[] {
  const offered = offers.filter((offer) => offer.network === network).map((offer) => offer.asset);
  const all = [dollarAsset(network), ...offered, ...known];
  return [...new Map(all.map((asset) => [asset.address, asset])).values()];
}

function isEvmAsset(asset: Asset): asset is EvmAsset {
  return "eip712" in asset;
}

function isSolanaAsset(asset: Asset): asset is SolanaAsset {
  return !isEvmAsset(asset);
}

/** `allow.assets`: tokens that others may settle through the embedded networks, by symbol or address. */
function allowedAssets(
  context: Context,
  { assets, settlers }: FacilitatorParts,
): ReadonlyMap<NetworkName, readonly Asset[]> {
  const allowed = new Map<NetworkName, Asset[]>(settlers.map((each) => [each.network, []]));
  const path = ["facilitator", "embedded", "allow", "assets"];
  for (const [index, name] of (written(context).embedded?.allow?.assets ?? []).entries()) {
    const before = [...allowed.values()].flat().length;
    for (const [network, list] of allowed) {
      const asset = assets.find(name, network) ?? assets.findByAddress(name, network);
      if (asset !== undefined) list.push(asset);
    }
    if ([...allowed.values()].flat().length > before) continue;
    if (settlers.some(({ network }) => assets.wasRefused(name, network))) continue;
    const symbols = settlers.flatMap((each) => assets.symbols(each.network));
    context.problems.error([...path, index], unknownAsset(name, symbols));
  }
  return allowed;
}

function unknownAsset(name: string, symbols: readonly string[]): Fault {
  const address = readAddress(name);
  if (!address.ok && address.error.code === "bad-checksum") return address.error;
  const message = `no embedded network has an asset of this ${address.ok ? "address" : "name"}`;
  return fault("unknown-asset", message, didYouMean(name, symbols) ?? "define it under assets");
}

interface Settled {
  readonly embedded: readonly Settler[];
  readonly offers: readonly OfferSettings[];
}

/** `rpc`: what the chains are asked by that others settle on. */
function resolveObserved(context: Context, settled: Settled): readonly ObservedNetwork[] {
  const { problems, tree } = context;
  const { rpc = {}, remote = [] } = written(context);
  const own = new Set(settled.embedded.map((each) => each.network));
  const observed: ObservedNetwork[] = [];
  for (const network of context.networkKeys(["facilitator", "rpc"])) {
    const path = ["facilitator", "rpc", network];
    const urls = rpc[network] ?? [];
    if (urls.length === 0 && tree.intact(path)) {
      problems.error(path, fault("bad-value", "must have at least one URL"));
    }
    if (own.has(network) || remote.length === 0) {
      const message = own.has(network)
        ? "has no effect: this network is settled here, with its own rpc"
        : "has no effect without facilitator.remote";
      problems.add("warning", path, fault("unused-key", message), "key");
      continue;
    }
    observed.push(observe(network, urls, settled.offers));
  }
  checkRemotes(context);
  checkReceipts(context, settled);
  return observed;
}

function observe(
  name: NetworkName,
  urls: readonly URL[],
  offers: readonly OfferSettings[],
): ObservedNetwork {
  const network = networkOf(name);
  const rpc = urls.map((url) => ({ url: new Secret(url.href), host: url.host }));
  const assets = settledAssets(name, offers, []);
  if (network.kind === "solana") {
    const commitment = DEFAULT_COMMITMENT;
    return { kind: "solana", network: name, rpc, commitment, assets: assets.filter(isSolanaAsset) };
  }
  const confirmations = network.recommendedConfirmations;
  return { kind: "evm", network: name, rpc, confirmations, assets: assets.filter(isEvmAsset) };
}

/** A payment is asked for again at the facilitator of its URL: there must be one. */
function checkRemotes(context: Context): void {
  const urls = (written(context).remote ?? []).map((each) =>
    typeof each === "string" ? each : each.url,
  );
  for (const [index, url] of urls.entries()) {
    if (urls.indexOf(url) === index) continue;
    const message = "this is the same facilitator as an earlier one";
    context.problems.error(["facilitator", "remote", index], fault("duplicate-entry", message));
  }
}

/** Where a receipt is wanted there must be a chain to ask. */
function checkReceipts(context: Context, { embedded, offers }: Settled): void {
  const { remote = [], rpc = {} } = written(context);
  const own = new Set(embedded.map((each) => each.network));
  const missing = new Set(
    offers.map(({ network }) => network).filter((each) => !own.has(each) && !(each in rpc)),
  );
  const isBlind = offers.length === 0 && Object.keys(rpc).length === 0;
  for (const [index, each] of remote.entries()) {
    if (typeof each === "string" || each.confirm !== "receipt") continue;
    const path = ["facilitator", "remote", index, "confirm"];
    for (const network of missing) {
      const message = `needs an RPC endpoint for ${network}, which is settled there`;
      const hint = `add facilitator.rpc.${network}: [URL]`;
      context.problems.error(path, fault("no-rpc", message, hint));
    }
    if (!isBlind) continue;
    const message = "needs an RPC endpoint for each network that is settled there";
    context.problems.error(path, fault("no-rpc", message, "add facilitator.rpc.NETWORK: [URL]"));
  }
}

type WrittenRemote = NonNullable<WrittenFacilitator["remote"]>[number];

function remoteFacilitator(remote: WrittenRemote): RemoteFacilitatorSettings {
  if (typeof remote === "string") {
    return { url: remote, headers: [], timeoutMs: REMOTE_TIMEOUT_MS, confirm: "facilitator" };
  }
  const headers = Object.entries(remote.headers ?? {});
  return {
    url: remote.url,
    headers: headers.map(([name, value]) => ({ name, value: new Secret(value) })),
    timeoutMs: remote.timeout ?? REMOTE_TIMEOUT_MS,
    confirm: remote.confirm ?? "facilitator",
  };
}
