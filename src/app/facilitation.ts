/** Configuration -> everything that verifies and settles: mechanisms, their gate, the facilitators. */
import { createPrivateKey } from "node:crypto";
import {
  soldNetworks,
  type Config,
  type RemoteFacilitatorSettings as RemoteSettings,
} from "../config/config.ts";
import { EmbeddedFacilitator } from "../payments/settlement/embedded.ts";
import { FacilitatorRouter } from "../facilitator/facilitator-router.ts";
import { Lookout } from "../payments/settlement/lookout.ts";
import { NetworkGate, type NetworkProbe } from "../payments/settlement/network-gate.ts";
import { RemoteFacilitator } from "../facilitator/remote.ts";
import { NO_STOPS, type StopSource } from "../payments/sale/stops.ts";
import type { Ledger } from "../ledger/ledger.ts";
import { EvmFirstLooks } from "../mechanism/evm/first-look.ts";
import type {
  Finding,
  FirstLooks,
  Mechanism,
  Observer,
  WalletBalance,
} from "../mechanism/mechanism.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { waitWithin, type Time } from "../time/time.ts";
import { findNetwork, networkOf, type Asset, type NetworkName } from "../x402/network.ts";
import { createMechanisms, createObservers, type Surroundings } from "./chains.ts";
import { FIRST_ANSWERS_MS, KnownFeePayers, type FeePayerSources } from "./fee-payers.ts";
import { KnownNetworks } from "./known-networks.ts";
import { findLosses } from "./gas-costs.ts";
import { readBalances } from "./gauges.ts";
import { ATTODOLLAR_DECIMALS } from "../x402/amount.ts";
import { isSameToken } from "../x402/token.ts";
import { Rotation, type WatchedRemote } from "./rotation.ts";
import { describeWallets, type FeeWallet } from "./wallets.ts";

export interface Facilitation {
  /** What settles: embedded where a network is settled here, else the remote ones. */
  readonly router: FacilitatorRouter;
  /** What is certain of a payment before it is handed to one elsewhere. */
  readonly firstLooks: FirstLooks;
  /** Not started: who sells nothing need not ask for them. */
  readonly feePayers: KnownFeePayers;
  /** On which networks payments are taken. */
  readonly networks: KnownNetworks;
  /** The chains that can be asked what became of a payment, by network. */
  readonly observers: ReadonlyMap<string, Observer>;
  /** Settles in this process, on the networks of {@link mechanisms}, and sees what it signed before to its end. */
  readonly embedded: EmbeddedFacilitator;
  /** Puts others in the place of all of these. */
  readonly rotation: Rotation;
  /** Those elsewhere, at the start. */
  readonly remotes: readonly RemoteFacilitator[];
  readonly mechanisms: readonly Mechanism[];
  readonly gate: NetworkGate;
  readonly probes: readonly NetworkProbe[];
  readonly wallets: readonly FeeWallet[];
  /** What of a token may be paid back on one day, atomic units. */
  readonly refunds: (network: string, asset: string) => bigint;
}

/** What facilitation stands on. */
export interface Ground {
  readonly ledger: Ledger;
  readonly telemetry: Telemetry;
  readonly time: Time;
  /** What is not sold for now. Default: nothing is stopped. */
  readonly stopped?: StopSource;
  readonly isDenied?: Surroundings["isDenied"];
}

/**
 * Builds everything and checks the networks, and whether facilitators elsewhere are there; `closing` gets what must be
 * closed. Starts no recovery. Whatever the checks find, the start goes on: what is closed opens when it can.
 */
export async function openFacilitation(
  config: Config,
  ground: Ground,
  closing: AsyncDisposableStack,
): Promise<Facilitation> {
  const { ledger, telemetry, time, stopped = NO_STOPS } = ground;
  const { facilitator } = config;
  const onDoubt = (network: NetworkName): void => gate.doubt(network);
  const at = { ...ground, onDoubt };
  const mechanisms = await createMechanisms(config, at);
  const observed = await createObservers(facilitator.observed, at);
  const gate = new NetworkGate([...mechanisms, ...observed], telemetry, time);
  const openRemote = (settings: RemoteSettings): WatchedRemote => watchRemote(settings, ground);
  const watched = facilitator.remote.map(openRemote);
  const remotes = watched.map(({ remote }) => remote);
  // A payment that was handed over before its network was settled here is looked for as well.
  const chains = new Map(
    [...observed, ...mechanisms].map((each) => [each.network as string, each]),
  );
  const opened = {
    mechanisms: openedBy(facilitator.embedded, ({ network }) => network, mechanisms),
    observers: openedBy(facilitator.observed, ({ network }) => network, observed),
    remotes: openedBy(facilitator.remote, ({ url }) => url, watched),
  };
  const rotation = new Rotation(config, { telemetry, time, at, openRemote, chains, opened, gate });
  closing.defer(() => rotation.close());
  // Before anybody can be asked about a network by mistake, and no longer than a start may take.
  const elsewhere = Promise.all(watched.map(({ lookout }) => lookout.open()));
  const [probes] = await Promise.all([
    gate.probe(),
    waitWithin(elsewhere, time.timeout(FIRST_ANSWERS_MS), undefined),
  ]);

  const { foreign } = facilitator;
  const { describeAsset, nativePrice } = describedBy(rotation);
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
  const asked = { mechanisms, ...feePayersAsked(config, router, remotes) };
  const feePayers = new KnownFeePayers({ router, telemetry, time, ...asked });
  const hasFeePayer = (network: string): boolean => feePayers.offered(network) !== undefined;
  const networks = new KnownNetworks({
    gate,
    router,
    remotes: watched,
    hasFeePayer,
    stopped,
    time,
  });
  networks.know(config);
  rotation.tell({
    embedded,
    use: (settlers, now) => {
      router.use(settlers);
      const inForce = now.remotes.map(({ remote }) => remote);
      feePayers.know({ ...now, ...feePayersAsked(now.config, router, inForce) });
      networks.know(now.config, now.remotes);
    },
  });
  const open = mechanisms.filter(({ network }) => gate.isOpen(network));
  return {
    router,
    firstLooks,
    feePayers,
    networks,
    observers,
    embedded,
    rotation,
    remotes,
    get mechanisms() {
      return rotation.mechanisms;
    },
    gate,
    ...(await lookAtAccounts(config, { probes, mechanisms, open }, ground)),
    refunds: (network, asset) => {
      const { decimals } = describeAsset(network, asset);
      const most = config.refunds?.maxPerDay ?? 0n;
      return (most * 10n ** BigInt(decimals)) / 10n ** BigInt(ATTODOLLAR_DECIMALS);
    },
  };
}

interface Started {
  readonly probes: readonly NetworkProbe[];
  readonly mechanisms: readonly Mechanism[];
  /** Of the networks that can be asked now. */
  readonly open: readonly Mechanism[];
}

/** What our accounts have at the start, and what speaks against it. */
async function lookAtAccounts(
  config: Config,
  { probes, mechanisms, open }: Started,
  ground: Ground,
): Promise<Pick<Facilitation, "probes" | "wallets">> {
  const { signal } = new AbortController();
  const read = open.map(async (mechanism) => {
    return [mechanism.network, await readBalances(mechanism, ground, signal)] as const;
  });
  const balances = new Map(await Promise.all(read));
  const shortOf = await findShortRefunders(config, { mechanisms: open, time: ground.time });
  return {
    probes: probes.map((probe) => {
      const { findings, ...rest } = withLosses(probe, config, balances);
      return { ...rest, findings: [...findings, ...(shortOf.get(probe.network) ?? [])] };
    }),
    wallets: describeWallets(config, mechanisms, balances),
  };
}

/** Keys for refunds that have nothing of a token: a warning for each. */
async function findShortRefunders(
  { facilitator }: Pick<Config, "facilitator">,
  { mechanisms, time }: Pick<Ground, "time"> & { readonly mechanisms: readonly Mechanism[] },
): Promise<ReadonlyMap<string, readonly Finding[]>> {
  const signal = time.timeout(FIRST_ANSWERS_MS);
  const found = mechanisms.map(async ({ network, refunder }) => {
    const assets = facilitator.embedded.find((each) => each.network === network)?.assets ?? [];
    const findings = assets.map(async ({ address, symbol }): Promise<readonly Finding[]> => {
      const balance = await refunder?.balance(address, signal).catch(() => undefined);
      if (refunder === undefined || balance !== 0n) return [];
      const message = `${network}: the key for refunds, ${refunder.address}, holds no ${symbol}: none is paid back in it`;
      return [{ level: "warning", message }];
    });
    return [network, (await Promise.all(findings)).flat()] as const;
  });
  return new Map<string, readonly Finding[]>(await Promise.all(found));
}

type Balances = ReadonlyMap<NetworkName, readonly WalletBalance[]>;

function withLosses(probe: NetworkProbe, config: Config, balances: Balances): NetworkProbe {
  for (const [network, [wallet]] of balances) {
    if (network !== probe.network || wallet === undefined) continue;
    return { ...probe, findings: [...probe.findings, ...findLosses(config, network, wallet)] };
  }
  return probe;
}

/** What is said of tokens and of gas, by the settings in force. */
function describedBy(rotation: Rotation) {
  return {
    describeAsset: (network: string, asset: string) => {
      const usual = findNetwork(network)?.asset;
      const assets: readonly Asset[] =
        rotation.settingsOf(network)?.assets ?? (usual === undefined ? [] : [usual]);
      const known = assets.find((each) => isSameToken(network, each.address, asset));
      return known ?? { symbol: "unknown", decimals: 0 };
    },
    nativePrice: (network: string): bigint | null => {
      const settings = rotation.settingsOf(network);
      return settings !== undefined && "nativePriceAttodollars" in settings
        ? settings.nativePriceAttodollars
        : null;
    },
  };
}

/**
 * Solana networks on which something is sold, and whom that makes us ask: facilitators elsewhere only where a payment on
 * Solana depends on what they tell.
 */
function feePayersAsked(
  { routes, facilitator }: Pick<Config, "routes" | "facilitator">,
  router: Pick<FacilitatorRouter, "isRemote">,
  remotes: readonly RemoteFacilitator[],
): Pick<FeePayerSources, "networks" | "remotes"> {
  const networks = soldNetworks(routes).filter((name) => networkOf(name).kind === "solana");
  const isSoldElsewhere = networks.some((name) => router.isRemote(name));
  // One of several is chosen by the account that a payment names, also for those who ask us to settle.
  const isChosenFrom = facilitator.listen !== null && remotes.length > 1;
  return { networks, remotes: isSoldElsewhere || isChosenFrom ? remotes : [] };
}

/** What was opened, beside its settings. */
function openedBy<Settings, Part>(
  all: readonly Settings[],
  nameOf: (settings: Settings) => string,
  parts: readonly Part[],
): ReadonlyMap<string, { readonly settings: Settings; readonly part: Part }> {
  return new Map(
    all.flatMap((settings, index) => {
      const part = parts[index];
      return part === undefined ? [] : [[nameOf(settings), { settings, part }] as const];
    }),
  );
}

/** With who looks whether it is there, and knows us. */
function watchRemote(
  settings: RemoteSettings,
  { telemetry, time }: Pick<Ground, "telemetry" | "time">,
): WatchedRemote {
  const { logger } = telemetry;
  const onDoubt = (): void => lookout.doubt();
  const remote = createRemote(settings, { telemetry, time, onDoubt });
  const probe = (signal: AbortSignal) => remote.probe(signal);
  const { name } = remote;
  const lookout: Lookout = new Lookout({
    what: "facilitator",
    name,
    away: "facilitator",
    probe,
    logger,
    time,
  });
  return { remote, lookout };
}

export function createRemote(
  settings: RemoteSettings,
  {
    telemetry,
    time,
    onDoubt,
  }: Pick<Ground, "telemetry" | "time"> & { readonly onDoubt?: () => void },
): RemoteFacilitator {
  const { cdp } = settings;
  const headers = settings.headers.map(({ name, value }) => [name, value.reveal()] as const);
  return new RemoteFacilitator({
    url: settings.url,
    headers: Object.fromEntries(headers),
    cdp: cdp === null ? undefined : { keyId: cdp.keyId, key: createPrivateKey(cdp.key.reveal()) },
    timeoutMs: settings.timeoutMs,
    confirm: settings.confirm,
    ...(onDoubt && { onDoubt }),
    telemetry,
    time,
  });
}
