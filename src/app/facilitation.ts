/** Configuration -> everything that verifies and settles: mechanisms, their gate, the facilitators. */
import { createPrivateKey } from "node:crypto";
import type { Config, RemoteFacilitatorSettings as RemoteSettings } from "../config/config.ts";
import { EmbeddedFacilitator } from "../payments/settlement/embedded.ts";
import { FacilitatorRouter } from "../facilitator/facilitator-router.ts";
import { NetworkGate, type NetworkProbe } from "../payments/settlement/network-gate.ts";
import { RemoteFacilitator } from "../facilitator/remote.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { EvmFirstLooks } from "../mechanism/evm/first-look.ts";
import type { FirstLooks, Mechanism, Observer, WalletBalance } from "../mechanism/mechanism.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Time } from "../time/time.ts";
import { findNetwork, networkOf, type Asset, type NetworkName } from "../x402/network.ts";
import { createMechanisms, createObservers } from "./chains.ts";
import { KnownFeePayers, type FeePayerSources } from "./fee-payers.ts";
import { findLosses } from "./gas-costs.ts";
import { readBalances } from "./gauges.ts";
import { isSameToken } from "../x402/token.ts";
import { describeWallets, type FeeWallet } from "./wallets.ts";

export interface Facilitation {
  /** What settles: embedded where a network is settled here, else the remote ones. */
  readonly router: FacilitatorRouter;
  /** What is certain of a payment before it is handed to one elsewhere. */
  readonly firstLooks: FirstLooks;
  /** Not started: who sells nothing need not ask for them. */
  readonly feePayers: KnownFeePayers;
  /** The chains that can be asked what became of a payment, by network. */
  readonly observers: ReadonlyMap<string, Observer>;
  /** Settles in this process, on the networks of {@link mechanisms}, and sees what it signed before to its end. */
  readonly embedded: EmbeddedFacilitator;
  /** Those elsewhere. */
  readonly remotes: readonly RemoteFacilitator[];
  readonly mechanisms: readonly Mechanism[];
  readonly gate: NetworkGate;
  readonly probes: readonly NetworkProbe[];
  readonly wallets: readonly FeeWallet[];
}

/** What facilitation stands on. */
export interface Ground {
  readonly ledger: Ledger;
  readonly telemetry: Telemetry;
  readonly time: Time;
}

/** A network whose endpoint shows another chain or another token than configured: refused at start. */
class StartError extends Error {
  override readonly name = "StartError";
  readonly code = "START_REFUSED";
}

/** Builds everything and checks the networks; `closing` gets what must be closed. Starts no recovery. */
export async function openFacilitation(
  config: Config,
  ground: Ground,
  closing: AsyncDisposableStack,
): Promise<Facilitation> {
  const { ledger, telemetry, time } = ground;
  const mechanisms = await createMechanisms(config, ground);
  for (const mechanism of mechanisms) closing.defer(() => mechanism.close());
  const gate = new NetworkGate(mechanisms, telemetry, time);
  closing.defer(() => gate.close());
  telemetry.metrics.networks.observeOpen(() => {
    return new Map(mechanisms.map(({ network }) => [network, gate.isOpen(network)]));
  });
  const probes = await gate.probe();
  const wrong = probes.filter(({ state }) => state === "wrong");
  if (wrong.length > 0) throw new StartError(wrong.map(describe).join("\n"));

  const { foreign } = config.facilitator;
  const describeAsset = (network: string, asset: string) => {
    const { embedded, observed } = config.facilitator;
    const settings = [...embedded, ...observed].find((each) => each.network === network);
    const usual = findNetwork(network)?.asset;
    const assets: readonly Asset[] = settings?.assets ?? (usual === undefined ? [] : [usual]);
    const known = assets.find((each) => isSameToken(network, each.address, asset));
    return known ?? { symbol: "unknown", decimals: 0 };
  };
  const nativePrice = (network: string): bigint | null => {
    const settings = config.facilitator.embedded.find((each) => each.network === network);
    return settings?.nativePriceAttodollars ?? null;
  };
  const remotes = config.facilitator.remote.map((settings) => createRemote(settings, ground));
  for (const remote of remotes) closing.defer(() => remote.close());
  const observed = await createObservers(config, ground);
  for (const observer of observed) closing.defer(() => observer.close());
  // A payment that was handed over before its network was settled here is looked for as well.
  const chains = new Map([...observed, ...mechanisms].map((each) => [each.network, each]));
  const observers: ReadonlyMap<string, Observer> = chains;
  const embedded = new EmbeddedFacilitator({
    mechanisms,
    followers: chains,
    ledger,
    gate,
    telemetry,
    time,
    foreign,
    describeAsset,
    nativePrice,
  });
  const firstLooks = new EvmFirstLooks(() => Math.floor(time.now() / 1000));
  const router = new FacilitatorRouter({
    embedded,
    remotes,
    observers,
    firstLooks,
    telemetry,
    time,
    foreign,
    describeAsset,
  });
  const feePayers = createFeePayers(config, { mechanisms, router, remotes, telemetry, time });
  // Of the networks that can be asked now.
  const { signal } = new AbortController();
  const open = mechanisms.filter(({ network }) => gate.isOpen(network));
  const read = open.map(async (mechanism) => {
    return [mechanism.network, await readBalances(mechanism, ground, signal)] as const;
  });
  const balances = new Map(await Promise.all(read));
  return {
    router,
    firstLooks,
    feePayers,
    observers,
    embedded,
    remotes,
    mechanisms,
    gate,
    probes: probes.map((probe) => withLosses(probe, config, balances)),
    wallets: describeWallets(config, mechanisms, balances),
  };
}

type Balances = ReadonlyMap<NetworkName, readonly WalletBalance[]>;

function withLosses(probe: NetworkProbe, config: Config, balances: Balances): NetworkProbe {
  for (const [network, [wallet]] of balances) {
    if (network !== probe.network || wallet === undefined) continue;
    return { ...probe, findings: [...probe.findings, ...findLosses(config, network, wallet)] };
  }
  return probe;
}

/** Facilitators elsewhere are asked only where a payment on Solana depends on what they tell. */
function createFeePayers(
  { routes, facilitator }: Config,
  { remotes, ...sources }: Omit<FeePayerSources, "networks">,
): KnownFeePayers {
  const offers = routes.flatMap(({ action }) => (action.kind === "priced" ? action.offers : []));
  const sold = offers.map(({ network }) => network);
  const networks = [...new Set(sold)].filter((name) => networkOf(name).kind === "solana");
  const isSoldElsewhere = networks.some((name) => sources.router.isRemote(name));
  // One of several is chosen by the account that a payment names, also for those who ask us to settle.
  const isChosenFrom = facilitator.listen !== null && remotes.length > 1;
  const asked = isSoldElsewhere || isChosenFrom ? remotes : [];
  return new KnownFeePayers({ ...sources, networks, remotes: asked });
}

export function createRemote(
  settings: RemoteSettings,
  { telemetry, time }: Pick<Ground, "telemetry" | "time">,
): RemoteFacilitator {
  const { cdp } = settings;
  const headers = settings.headers.map(({ name, value }) => [name, value.reveal()] as const);
  return new RemoteFacilitator({
    url: settings.url,
    headers: Object.fromEntries(headers),
    cdp: cdp === null ? undefined : { keyId: cdp.keyId, key: createPrivateKey(cdp.key.reveal()) },
    timeoutMs: settings.timeoutMs,
    confirm: settings.confirm,
    telemetry,
    time,
  });
}

function describe({ network, findings }: NetworkProbe): string {
  const errors = findings.filter(({ level }) => level === "error");
  // Most say by themselves which network it is.
  const title = `${network}: `;
  return errors
    .map(({ message }) => (message.startsWith(title) ? message : title + message))
    .join("\n");
}
