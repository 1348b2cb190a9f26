/**
 * The money side: the ledger, what settles, what goes on with no client asking, and the facilitator's own
 * listener. There is one in every deployment of one process or of several workers: the ledger's file, the
 * account nonces and the keys are in this process and in no other.
 */
import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { setImmediate as turn } from "node:timers/promises";
import { Callers, type CallerToken } from "../facilitator/callers.ts";
import { FacilitatorEndpoints } from "../facilitator/endpoints.ts";
import { readClient } from "../gateway/client/client.ts";
import { networkOf } from "../http/ip-address.ts";
import type { NetworkName } from "../x402/network.ts";
import { TrustedProxies } from "../gateway/client/trusted-proxies.ts";
import type { FacilitatorRouter } from "../facilitator/facilitator-router.ts";
import type { NetworkProbe } from "../payments/settlement/network-gate.ts";
import type { Recovery } from "../payments/settlement/recovery.ts";
import { RecordedFacilitator } from "../facilitator/recorded-facilitator.ts";
import { guarded } from "../facilitator/guarded-facilitator.ts";
import { Holdings } from "../payments/sale/holdings.ts";
import { SaleGuard } from "../payments/sale/sale-guard.ts";
import { onTheWire, type WireFacilitator } from "../facilitator/wire-facilitator.ts";
import type { Readiness } from "../admin/admin.ts";
import type { Drafts } from "../gateway/offers/drafts.ts";
import type { Ledger } from "../ledger/ledger.ts";
import type { TextSigners } from "../mechanism/mechanism.ts";
import type { isSignedBy } from "../mechanism/solana/signing.ts";
import { ChainTextSigners } from "../mechanism/text-signers.ts";
import { findNetwork } from "../x402/network.ts";
import { sitesOf, soldNetworks, type Config } from "../config/config.ts";
import { Archive } from "./archive.ts";
import { LocalDrafts } from "./drafts.ts";
import { openFacilitation, type Facilitation } from "./facilitation.ts";
import type { KnownFeePayers } from "./fee-payers.ts";
import type { ClosedReason } from "../telemetry/network-meter.ts";
import { isMeant, type KnownNetworks } from "./known-networks.ts";
import { Certificates } from "../certificates/certificates.ts";
import { LeastAmounts } from "./gas-costs.ts";
import { startGauges } from "./gauges.ts";
import { QualityNews } from "../discovery/quality.ts";
import { startQuality } from "../publishing/quality.ts";
import { Hub } from "../publishing/hub/hub.ts";
import { startRecoveries } from "./recoveries.ts";
import type { Prepared } from "./reloading.ts";
import { Sales } from "./sales.ts";
import { openServer, type Parts } from "./server.ts";
import { saleRules } from "./sale-rules.ts";
import { startSweeper } from "./sweeper.ts";
import type { FeeWallet } from "./wallets.ts";
import { Teller } from "./webhooks.ts";

export interface SettlementProcess {
  readonly ledger: Ledger;
  readonly router: FacilitatorRouter;
  readonly feePayers: KnownFeePayers;
  readonly networks: KnownNetworks;
  /** Whom nothing is sold to, and what to nobody. */
  readonly guard: SaleGuard;
  /** Facilitators elsewhere. */
  readonly remotes: Facilitation["remotes"];
  readonly drafts: Drafts;
  /** Who has signed what wallets are asked to sign. */
  readonly signers: TextSigners;
  /** Who holds what, as its chain says. */
  readonly holdings: Holdings;
  /** By which challenges to sign in are made, here and wherever the same ledger is. */
  readonly signInKey: Uint8Array;
  readonly sales: Sales;
  /** What other gateways sell through our facilitator; undefined: nothing of it is listed. */
  readonly hub: Hub | undefined;
  /** What buyers are told of how well each route was delivered. */
  readonly quality: QualityNews;
  /** What an authority gives us; undefined: no listener wants any. */
  readonly certificates: Certificates | undefined;
  /** Of the facilitator's listener; null: none. */
  readonly address: AddressInfo | null;
  readonly probes: readonly NetworkProbe[];
  readonly wallets: readonly FeeWallet[];
  /** What is not sold for now, a sentence for each. */
  stopped(): readonly string[];
  readiness(): Promise<Readiness>;
  /** Opens and looks at what another configuration needs here. `isTrial`: it is not put in, whatever comes of that. */
  prepare(next: Config, isTrial: boolean): Promise<Prepared>;
}

/** Opens everything or rejects; `closing` gets what must be closed, but for the ledger. */
export async function openSettlementProcess(
  parts: Parts,
  ledger: Ledger,
): Promise<SettlementProcess> {
  const { config, telemetry, time, closing } = parts;
  const ground = { ledger, telemetry, time };
  const { metrics, logger } = telemetry;
  let inForce = config;
  let trusted = new TrustedProxies(config.trustedProxies);
  const rules = saleRules(config);
  const guard = new SaleGuard({ ledger, rules, meter: metrics.sales, logger, time });
  closing.defer(() => guard.stop());
  await guard.start();
  metrics.sales.observeStops(() => guard.stops);
  const [isDenied, isBarred] = [guard.isDenied.bind(guard), guard.isBarred.bind(guard)];
  const asked = { ...ground, stopped: guard, isDenied };
  const facilitation = await openFacilitation(config, asked, closing);
  startRecoveries(facilitation, { ...ground, isBarred }, closing);
  const sweeper = openSweeper(parts, ledger, () => inForce);
  closing.defer(() => sweeper?.stop());
  const least = new LeastAmounts(config);
  const teller = new Teller(config, facilitation.networks, ground);
  closing.defer(() => teller.stop());
  teller.start();
  const gauges = startGauges({
    ...ground,
    get mechanisms() {
      return facilitation.mechanisms;
    },
    assetsOf: (network) =>
      inForce.facilitator.embedded.find((each) => each.network === network)?.assets ?? [],
    onWallet: (network, wallet) => {
      least.note(network, wallet);
      teller.wallet(network, wallet);
    },
  });
  closing.defer(() => gauges.stop());
  const { feePayers, networks, router, observers, probes, remotes, wallets } = facilitation;
  const drafts = new LocalDrafts(observers, time);
  closing.defer(() => feePayers.stop());
  await feePayers.start();
  const hub = await openHub(parts, ledger);
  const quality = new QualityNews();
  const sales = await Sales.open(config, { ledger, feePayers, others: hub, quality, guard });
  const reading = openQuality(parts, { ledger, sales, news: quality });
  closing.defer(() => reading?.stop());
  const certificates = await openCertificates(parts, ledger, sales);
  const canStore = (): Promise<boolean> => canWrite(ledger);
  telemetry.metrics.networks.observeClosed(async () => {
    const otherwise = (await canStore()) ? null : "ledger";
    return new Map(networks.used.map((each) => [each, networks.closedReason(each) ?? otherwise]));
  });
  const callers = new Callers(tokensOf(config));
  const clientOf = (request: IncomingMessage): string => readClient(request, trusted).address;
  const served = { ledger, list: sales.list, hub, least, guard, callers, clientOf };
  const address = await openFacilitator(parts, facilitation, served);
  const stopped = (): readonly string[] => stopsOf(guard);
  const readiness = async (): Promise<Readiness> => {
    const said = networks.used.map((network) => {
      const reason = networks.closedReason(network);
      return `${network}: ${reason === undefined ? "open" : `closed (${reason})`}`;
    });
    // A process that is not ready is sent nobody, and so no authority either that is to look at it.
    for (const name of certificates?.missing ?? []) said.push(`${name}: no certificate yet`);
    said.push(...stopped());
    if (!(await canStore()))
      return { isReady: false, said: ["the ledger cannot be written", ...said] };
    const canServe = hasOpen(sales.config, networks);
    return { isReady: canServe, said: canServe ? said : ["nothing can be served", ...said] };
  };
  const signers = new ChainTextSigners(observers, await loadSolanaSigning(config));
  const signInKey = await ledger.signIns.key();
  const meter = metrics.holders;
  const holdings = new Holdings({ observers, signers, guard, meter, logger, time });
  const known = { feePayers, networks, guard, remotes, drafts, signers, signInKey, holdings };
  const selling = { ...known, sales, hub, quality, certificates };
  const prepare = async (next: Config, isTrial: boolean): Promise<Prepared> => {
    await ledger.ping();
    const signing = await loadSolanaSigning(next);
    const rotated = await facilitation.rotation.prepare(next);
    // Terms that are noted and never asked for would be told as changed when those before are read again.
    if (isTrial || rotated.problems.length > 0) return rotated;
    const sell = await orDrop(sales.prepare(next), rotated);
    return {
      ...rotated,
      async commit() {
        await rotated.commit();
        await turn();
        inForce = next;
        trusted = new TrustedProxies(next.trustedProxies);
        least.know(next);
        callers.know(tokensOf(next));
        await teller.know(next);
        if (signing !== undefined) signers.learn(signing);
        sell();
      },
    };
  };
  return { ledger, router, ...selling, address, probes, wallets, stopped, readiness, prepare };
}

function canWrite(ledger: Ledger): Promise<boolean> {
  return ledger.ping().then(
    () => true,
    () => false,
  );
}

async function orDrop<Value>(work: Promise<Value>, prepared: Prepared): Promise<Value> {
  try {
    return await work;
  } catch (cause) {
    await prepared.drop();
    throw cause;
  }
}

/**
 * Whether there is anything that a visitor, or a gateway that settles through us, could get; where nothing is sold and
 * nothing settled, there need not be.
 */
function hasOpen(config: Config, networks: KnownNetworks): boolean {
  const { routes, facilitator } = config;
  const isOpen = ({ network }: { readonly network: NetworkName }): boolean =>
    areWell(networks.closedReason(network));
  const isSettler = facilitator.listen !== null;
  if (isSettler && (facilitator.embedded.some(isOpen) || networks.hasElsewhere)) return true;
  if (!isSettler && networks.used.length === 0) return true;
  return (
    sitesOf(config).some(({ unmatched }) => unmatched === "free") ||
    routes.some(({ action }) => {
      if (action.kind !== "priced") return action.kind === "free";
      return action.offers.some(isOpen);
    })
  );
}

/** Open, or closed on purpose: buyers are told that by us, and not by whoever finds nobody ready. */
function areWell(reason: ClosedReason | undefined): boolean {
  return reason === undefined || isMeant(reason);
}

/** What is not sold, since when and why. */
function stopsOf({ stops, pauses }: SaleGuard): readonly string[] {
  return [...stops].map(([scope, { why, untilMs }]) => {
    const pause = pauses.find((each) => each.scope === scope);
    const until = untilMs === null ? "" : ` until ${new Date(untilMs).toISOString()}`;
    if (why !== "paused") return `${scope}: stopped by limits.${why}${until}`;
    const reason = pause?.reason ? `: ${pause.reason}` : "";
    return `${scope}: paused${until} by ${pause?.by ?? "somebody"}${reason}`;
  });
}

/** Undefined where nothing is sold on Solana. */
async function loadSolanaSigning({ routes }: Config): Promise<typeof isSignedBy | undefined> {
  const isSold = soldNetworks(routes).some((name) => findNetwork(name)?.kind === "solana");
  return isSold ? (await import("../mechanism/solana/signing.ts")).isSignedBy : undefined;
}

/** Undefined where everything is kept for ever. */
function openSweeper(
  { config, telemetry, time }: Parts,
  ledger: Ledger,
  inForce: () => Config,
): Recovery | undefined {
  const { keepMs, archive: folder } = config.keeping;
  if (keepMs === null) return undefined;
  const archive = folder === null ? undefined : new Archive(folder, inForce, time);
  const rules = { keepMs, config: inForce, archive: archive?.add };
  return startSweeper({ ledger, telemetry, time }, rules);
}

/** Undefined where no listener wants what an authority gives. */
async function openCertificates(
  { config: { acme }, telemetry: { logger, metrics }, time, closing }: Parts,
  { certificates: store }: Ledger,
  sales: Sales,
): Promise<Certificates | undefined> {
  if (acme === null) return undefined;
  const settings = () => sales.config.acme ?? acme;
  const meter = metrics.configuration;
  const certificates = new Certificates({ settings, store, time, logger, meter });
  closing.defer(() => certificates.stop());
  await certificates.start();
  return certificates;
}

/** Undefined where nothing is sold here. */
function openQuality(
  { config, telemetry: { logger }, time }: Parts,
  { ledger, sales, news }: { ledger: Ledger; sales: Sales; news: QualityNews },
): Recovery | undefined {
  if (config.routes.length === 0) return undefined;
  const { keepMs } = config.keeping;
  const { books } = ledger;
  return startQuality({ books, config: () => sales.config, keepMs, news, logger, time });
}

/** Where gateways of other processes settle through us, and what they sell may be listed. */
async function openHub(
  { config, telemetry, time, closing }: Parts,
  ledger: Ledger,
): Promise<Hub | undefined> {
  const { listen: address, gateways, catalogue } = config.facilitator;
  const listed = gateways.filter(({ urls }) => urls.length > 0);
  if (address === null || listed.length === 0) return undefined;
  const hub = await Hub.open({ gateways: listed, catalogue }, { ledger, telemetry, time });
  closing.defer(() => hub.close());
  return hub;
}

interface Served {
  readonly ledger: Ledger;
  readonly list: Sales["list"];
  readonly hub: Hub | undefined;
  readonly least: LeastAmounts;
  readonly guard: SaleGuard;
  readonly callers: Callers;
  /** The address of who asks, by the proxies that are believed now. */
  readonly clientOf: (request: IncomingMessage) => string;
}

/** Of those who may ask our facilitator. */
function tokensOf({ facilitator }: Pick<Config, "facilitator">): readonly CallerToken[] {
  const { bearer, gateways } = facilitator;
  return [
    ...(bearer === null ? [] : [{ gateway: null, bearer: bearer.reveal() }]),
    ...gateways.map((each) => ({ gateway: each.name, bearer: each.bearer.reveal() })),
  ];
}

function openFacilitator(
  parts: Parts,
  { embedded, mechanisms, networks, rotation, router }: Facilitation,
  { ledger, list, hub, least, guard, callers, clientOf }: Served,
): Promise<AddressInfo | null> {
  const { listen: address, basePath, remote } = parts.config.facilitator;
  if (remote.length === 0 && mechanisms.length === 0) return Promise.resolve(null);
  for (const { network, assets } of address === null ? [] : parts.config.facilitator.embedded) {
    // What is settled for others counts from 0, as what routes sell does.
    for (const { symbol: asset, decimals } of assets) {
      parts.telemetry.metrics.settledAmount({ network, asset, decimals, amountAtomic: 0n });
    }
  }
  const own = onTheWire(embedded);
  const recorded = new RecordedFacilitator({ facilitator: router, ledger, time: parts.time });
  // As it is when each is asked.
  const asked = (): WireFacilitator => (rotation.remotes.length === 0 ? own : recorded);
  const open: WireFacilitator = {
    verify: (...question) => asked().verify(...question),
    settle: (...question) => asked().settle(...question),
    supported: (signal) => asked().supported(signal),
  };
  const facilitator = guarded(open, { guard, ledger });
  const endpoints = new FacilitatorEndpoints({
    facilitator,
    list,
    basePath,
    callers,
    leastAmount: (paid) => least.of(paid),
    isClosed: (network) => networks.closedReason(network) !== undefined,
    addressOf: (request) => networkOf(clientOf(request)),
    ...(hub === undefined ? {} : { catalogue: hub }),
    logger: parts.telemetry.logger,
  });
  return openServer(parts, address, endpoints.handle);
}
