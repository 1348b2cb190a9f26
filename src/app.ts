/**
 * The composition root: a configuration becomes a running process. Parts are opened in the order in
 * which they need each other and closed in the reverse one, so that a shutdown stops accepting, finishes
 * what is in flight, and only then lets go of the chain and the ledger.
 */
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { createAdminHandler } from "./admin/admin.ts";
import type { ToldElsewhere } from "./app/fee-payers.ts";
import { openFacilitation, type Facilitation } from "./app/facilitation.ts";
import { startGauges } from "./app/gauges.ts";
import { startRecoveries } from "./app/recoveries.ts";
import { startStrangerWatch } from "./app/strangers.ts";
import { createListing, createSnapshot, type List } from "./app/selling.ts";
import { openLedger } from "./app/store.ts";
import type { Wallet } from "./app/wallets.ts";
import type { Config, ListenAddress, Upstream } from "./config/config.ts";
import { FacilitatorEndpoints } from "./facilitator/endpoints.ts";
import type { Probe } from "./facilitator/network-gate.ts";
import { RecordedFacilitator } from "./facilitator/recorded-facilitator.ts";
import { Gateway } from "./gateway/gateway.ts";
import { drain, listen, Listener } from "./gateway/listener.ts";
import { Paywall } from "./gateway/paywall.ts";
import { openUpstream } from "./gateway/open-upstream.ts";
import { defaultUpstreamOptions, type Engine } from "./gateway/upstream.ts";
import type { Ledger } from "./ledger/ledger.ts";
import { createLogger } from "./telemetry/logger.ts";
import { Metrics } from "./telemetry/metrics.ts";
import type { Telemetry } from "./telemetry/telemetry.ts";
import { systemTime } from "./time/time.ts";

/** A process that serves. */
export interface Running {
  readonly addresses: {
    readonly gateway: readonly AddressInfo[];
    readonly facilitator: AddressInfo | null;
    readonly admin: AddressInfo | null;
  };
  /** What the start-up checks of each embedded network found. */
  readonly probes: readonly Probe[];
  /** Our accounts that pay network fees. */
  readonly wallets: readonly Wallet[];
  /** Who pays network fees on Solana networks that others settle, as told so far. */
  readonly feePayers: readonly ToldElsewhere[];
  readonly telemetry: Telemetry;
  /**
   * Turns readiness red, stops accepting after `shutdown.delay` (or at once), finishes what is in flight within
   * `shutdown.within`, closes everything. Idempotent.
   */
  close(options?: { readonly atOnce: boolean }): Promise<void>;
}

/** Of the listeners beside the gateway's, whose requests are small and come from our own side. */
const TIMEOUTS = {
  headersTimeout: 15_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 5_000,
};

/** What all parts of one start share. */
interface Parts {
  readonly config: Config;
  readonly telemetry: Telemetry;
  readonly ledger: Ledger;
  /** Closed last to first. */
  readonly closing: AsyncDisposableStack;
  /** Aborts when a shutdown begins: connections are not kept for another request. */
  readonly retiring: AbortController;
  /** Aborts when the time for a shutdown is up. */
  readonly patience: AbortController;
}

/** Starts everything that the configuration asks for, or nothing: what was opened is closed again. */
export async function start(config: Config, version: string): Promise<Running> {
  await using closing = new AsyncDisposableStack();
  const telemetry = {
    logger: createLogger(config.logging),
    metrics: new Metrics(version),
  };
  const time = systemTime;
  const ledger = await openLedger(config, { logger: telemetry.logger, time });
  closing.defer(() => ledger.close());
  const retiring = new AbortController();
  const patience = new AbortController();
  const parts: Parts = { config, telemetry, ledger, closing, retiring, patience };

  let draining = false;
  /** Undefined until every listener is open. */
  let serving: Facilitation | undefined;
  const readiness = async (): Promise<readonly string[]> => {
    if (draining) return ["shutting down"];
    if (serving === undefined) return ["starting"];
    const closed = serving.gate.closed().map((name) => `${name}: RPC checks have not passed`);
    const store = await ledger.ping().then(
      () => [],
      () => ["the ledger cannot be written"],
    );
    return [...closed, ...store];
  };
  const admin = await openServer(parts, config.admin, createAdminHandler({ telemetry, readiness }));

  const ground = { ledger, telemetry, time };
  const facilitation = await openFacilitation(config, ground, closing);
  startRecoveries(facilitation, ground, closing);
  const strangers = startStrangerWatch(facilitation, ground);
  closing.defer(() => strangers.stop());
  const gauges = startGauges({ ...ground, mechanisms: facilitation.mechanisms });
  closing.defer(() => gauges.stop());
  const { feePayers } = facilitation;
  closing.defer(() => feePayers.stop());
  await feePayers.start();
  const list = await createListing(config, ledger, feePayers);
  const facilitator = await openFacilitator(parts, facilitation, list);
  const gateway = config.routes.length === 0 ? [] : await openGateway(parts, facilitation, list);
  serving = facilitation;

  const owned = closing.move();
  const close = async (atOnce: boolean): Promise<void> => {
    draining = true;
    retiring.abort();
    if (!atOnce) await time.sleep(config.shutdown.delayMs);
    const timer = setTimeout(() => patience.abort(), config.shutdown.withinMs);
    try {
      await owned.disposeAsync();
    } finally {
      clearTimeout(timer);
    }
  };
  let closed: Promise<void> | undefined;
  return {
    addresses: { gateway, facilitator, admin },
    probes: facilitation.probes,
    wallets: facilitation.wallets,
    feePayers: feePayers.elsewhere(),
    telemetry,
    close: ({ atOnce } = { atOnce: false }) => (closed ??= close(atOnce)),
  };
}

async function openGateway(
  parts: Parts,
  { mesh, feePayers }: Facilitation,
  list: List,
): Promise<readonly AddressInfo[]> {
  const { config, telemetry, ledger, closing, retiring, patience } = parts;
  const engines = new Map<string, Engine>();
  for (const upstream of config.upstreams) {
    const engine = openUpstream(upstreamOptions(config, upstream));
    engines.set(upstream.name, engine);
    closing.defer(() => engine.close(patience.signal));
  }
  const { settlementWaitMs, inFlight, headerBytes } = config.limits;
  const { logger, metrics } = telemetry;
  const gateway = new Gateway({
    snapshot: createSnapshot(config, engines, { metrics, feePayers }),
    paywall: new Paywall({
      facilitator: mesh,
      feePayers,
      redemptions: ledger,
      logger,
      settlementWaitMs,
      time: systemTime,
    }),
    list,
    cors: typeof config.cors === "string" ? config.cors : new Set(config.cors),
    maxInFlight: inFlight,
    telemetry,
  });
  metrics.observeInFlight(() => gateway.inFlight);
  const listeners = config.listen.map(
    (address) => new Listener(gateway, { ...address, headerBytes, retiring: retiring.signal }),
  );
  const addresses: AddressInfo[] = [];
  for (const listener of listeners) addresses.push(await listener.open());
  closing.defer(async () => {
    await Promise.all(listeners.map((listener) => listener.drain(patience.signal)));
    // Settlements and deliveries go on after their clients have left.
    await gateway.drain(patience.signal);
  });
  return addresses;
}

function openFacilitator(
  parts: Parts,
  { embedded, mesh }: Facilitation,
  list: List,
): Promise<AddressInfo | null> {
  const { listen: address, basePath, bearer, remote } = parts.config.facilitator;
  const facilitator =
    remote.length === 0
      ? embedded
      : new RecordedFacilitator({ facilitator: mesh, ledger: parts.ledger });
  if (facilitator === undefined) return Promise.resolve(null);
  const endpoints = new FacilitatorEndpoints({
    facilitator,
    list,
    basePath,
    bearer: bearer?.reveal(),
    logger: parts.telemetry.logger,
  });
  return openServer(parts, address, endpoints.handle);
}

/** A listener that is not the gateway's; null where none is configured. */
async function openServer(
  { closing, patience, config }: Parts,
  address: ListenAddress | null,
  handler: RequestListener,
): Promise<AddressInfo | null> {
  if (address === null) return null;
  const server = createServer({ maxHeaderSize: config.limits.headerBytes, ...TIMEOUTS }, handler);
  const opened = await listen(server, address);
  closing.defer(() => drain(server, patience.signal));
  return opened;
}

function upstreamOptions({ limits }: Config, upstream: Upstream) {
  const { url: origin, connectTimeoutMs, responseTimeoutMs, idleTimeoutMs } = upstream;
  return {
    ...defaultUpstreamOptions,
    origin,
    connections: limits.inFlight,
    connectTimeoutMs,
    responseTimeoutMs,
    idleTimeoutMs,
    bodyLimitBytes: limits.bodyBytes,
  };
}
