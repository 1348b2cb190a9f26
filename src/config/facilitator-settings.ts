/** `facilitator`: who settles which network, and where that is offered to others. */
import { networkOf, type EvmAsset, type NetworkName } from "../x402/network.ts";
import { dollarAsset, type Assets } from "./accepted.ts";
import type { Context } from "./context.ts";
import type { ConfigDocument } from "./document.ts";
import { listenAddress } from "./listeners.ts";
import { readSigner } from "./private-key.ts";
import { fault, readNetwork } from "./reading.ts";
import { Secret } from "./secret.ts";
import type {
  EmbeddedNetwork,
  FacilitatorSettings,
  ObservedNetwork,
  Offer,
  RemoteFacilitator,
  Route,
  Signer,
} from "./settings.ts";
import { didYouMean } from "./suggestion.ts";
import type { Path } from "./tree.ts";

const REMOTE_TIMEOUT_MS = 10_000;
const NETWORKS: Path = ["facilitator", "embedded", "networks"];

type Written = Exclude<ConfigDocument["facilitator"], string | undefined>;
type WrittenNetwork = NonNullable<Written["embedded"]>["networks"][string];

/** The networks that this process settles itself, without what depends on the routes. */
export type Settler = Omit<EmbeddedNetwork, "assets">;

/** The map form of `facilitator`; the short form is one remote facilitator. */
function written({ document }: Context): Written {
  const { facilitator = {} } = document;
  return typeof facilitator === "string" ? { remote: [facilitator] } : facilitator;
}

/** Reads the embedded networks; whether they are enough is only known with the routes. */
export function readSettlers(context: Context): readonly Settler[] {
  const { embedded } = written(context);
  const networks = Object.entries(embedded?.networks ?? {});
  const settlers: Settler[] = [];
  for (const [name, network] of networks) {
    const path = [...NETWORKS, name];
    const read = readNetwork(name);
    if (read.ok) settlers.push(settler(read.value, network, context));
    else context.problems.errorAtKey(path, read.error);
  }
  if (embedded !== undefined && networks.length === 0 && context.tree.intact(NETWORKS)) {
    context.problems.error(NETWORKS, fault("bad-value", "must have at least one network"));
  }
  return settlers;
}

function settler(name: NetworkName, network: WrittenNetwork, context: Context): Settler {
  const { problems, tree } = context;
  const path = [...NETWORKS, name];
  const signers = readSigners(name, network.signers, context);
  if (network.rpc.length === 0 && tree.intact([...path, "rpc"])) {
    problems.error([...path, "rpc"], fault("bad-value", "must have at least one URL"));
  }
  if (network.signers.length === 0 && tree.intact([...path, "signers"])) {
    problems.error([...path, "signers"], fault("bad-value", "must have at least one key"));
  }
  return {
    network: name,
    rpc: network.rpc.map((url) => ({ url: new Secret(url.href), host: url.host })),
    signers,
    confirmations: network.confirmations ?? recommendedConfirmations(name),
    nativePriceAttodollars: network.nativePrice ?? null,
  };
}

function recommendedConfirmations(name: NetworkName): number {
  const network = networkOf(name);
  return network.kind === "evm" ? network.recommendedConfirmations : 1;
}

function readSigners(
  network: NetworkName,
  references: readonly string[],
  context: Context,
): readonly Signer[] {
  const { problems } = context;
  const signers: Signer[] = [];
  for (const [index, reference] of references.entries()) {
    const path = [...NETWORKS, network, "signers", index];
    const signer = readSigner(reference, context);
    if (!signer.ok) {
      problems.error(path, signer.error);
      continue;
    }
    if (signer.value.source === "literal") {
      const { testnet } = networkOf(network);
      const message = `a private key ${testnet ? "should" : "must"} not stand in the configuration`;
      const hint = "write env:NAME or file:PATH";
      problems.add(testnet ? "warning" : "error", path, fault("literal-key", message, hint));
    }
    const key = signer.value.key.reveal();
    if (signers.some((each) => each.key.reveal() === key)) {
      // Two signers with one key would take each other's account nonces.
      problems.error(path, fault("duplicate-entry", "this is the same key as an earlier one"));
    }
    signers.push(signer.value);
  }
  return signers;
}

/** Whether a payment on that network can be settled: in this process, or by a remote facilitator. */
export function settlesWith(context: Context, settlers: readonly Settler[]) {
  const remote = (written(context).remote ?? []).length > 0;
  const own = new Set(settlers.map((each) => each.network));
  return (network: NetworkName): boolean => remote || own.has(network);
}

export interface FacilitatorParts {
  readonly assets: Assets;
  readonly settlers: readonly Settler[];
  readonly routes: readonly Route[];
}

export function resolveFacilitator(context: Context, parts: FacilitatorParts): FacilitatorSettings {
  const { listen, basePath = "", auth, embedded, remote = [] } = written(context);
  const offers = parts.routes.flatMap(({ action }) =>
    action.kind === "priced" ? action.offers : [],
  );
  const allowed = embedded?.allow?.payTo ?? [];
  const payees = [...new Set([...offers.map((offer) => offer.payTo), ...allowed])];
  const assets = allowedAssets(context, parts);
  checkListener(context);
  return {
    listen: listen === undefined ? null : listenAddress(listen),
    basePath,
    bearer: auth === undefined ? null : new Secret(auth.bearer),
    embedded: parts.settlers.map((each) => ({
      ...each,
      assets: settledAssets(each.network, offers, assets.get(each.network) ?? []),
    })),
    payees: context.tree.has(["routes"]) || allowed.length > 0 ? payees : "any",
    remote: remote.map(remoteFacilitator),
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
  for (const key of ["auth", "basePath"] as const) {
    if (listen !== undefined || facilitator[key] === undefined) continue;
    const message = "has no effect without facilitator.listen";
    problems.add("warning", ["facilitator", key], fault("unused-key", message), "key");
  }
}

/** The tokens that are settled on one network, each once. */
function settledAssets(
  network: NetworkName,
  offers: readonly Offer[],
  known: readonly EvmAsset[],
): readonly EvmAsset[] {
  const offered = offers.filter((offer) => offer.network === network).map((offer) => offer.asset);
  const all = [dollarAsset(network), ...offered, ...known];
  return [...new Map(all.map((asset) => [asset.address, asset])).values()];
}

/** `allow.assets`: symbols of tokens that others may settle through the embedded networks. */
function allowedAssets(
  context: Context,
  { assets, settlers }: FacilitatorParts,
): ReadonlyMap<NetworkName, readonly EvmAsset[]> {
  const allowed = new Map<NetworkName, EvmAsset[]>(settlers.map((each) => [each.network, []]));
  const path = ["facilitator", "embedded", "allow", "assets"];
  for (const [index, symbol] of (written(context).embedded?.allow?.assets ?? []).entries()) {
    const before = [...allowed.values()].flat().length;
    for (const [network, list] of allowed) {
      const asset = assets.find(symbol, network);
      if (asset !== undefined) list.push(asset);
    }
    if ([...allowed.values()].flat().length > before) continue;
    const symbols = settlers.flatMap((each) => assets.symbols(each.network));
    const message = "no embedded network has an asset of this name";
    const hint = didYouMean(symbol, symbols) ?? "define it under assets";
    context.problems.error([...path, index], fault("unknown-asset", message, hint));
  }
  return allowed;
}

interface Settled {
  readonly embedded: readonly Settler[];
  readonly offers: readonly Offer[];
}

/** `rpc`: what the chains are asked by that others settle on. */
function resolveObserved(context: Context, settled: Settled): readonly ObservedNetwork[] {
  const { problems, tree } = context;
  const { rpc = {}, remote = [] } = written(context);
  const own = new Set(settled.embedded.map((each) => each.network));
  const observed: ObservedNetwork[] = [];
  for (const [name, urls] of Object.entries(rpc)) {
    const path = ["facilitator", "rpc", name];
    const read = readNetwork(name);
    if (!read.ok) {
      problems.errorAtKey(path, read.error);
      continue;
    }
    const network = read.value;
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
    observed.push({
      network,
      rpc: urls.map((url) => ({ url: new Secret(url.href), host: url.host })),
      confirmations: recommendedConfirmations(network),
      assets: settledAssets(network, settled.offers, []),
    });
  }
  checkRemotes(context);
  checkReceipts(context, settled);
  return observed;
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

type WrittenRemote = NonNullable<Written["remote"]>[number];

function remoteFacilitator(remote: WrittenRemote): RemoteFacilitator {
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
