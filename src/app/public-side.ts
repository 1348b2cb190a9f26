/**
 * The public side side: public listeners, the request path, the upstreams; or where a proxy asks. It takes no money itself but asks a
 * payment service for it, which is in this process, or in the one that forked this one; then there are several public sides
 * with the same configuration, on the same addresses.
 */
import type { AddressInfo } from "node:net";
import { PROXY_UPSTREAM, type Config } from "../config/config.ts";
import { keyPairFault } from "../config/facilitator/key-pair.ts";

import { NO_DRAFTS, type Drafts } from "../gateway/offers/drafts.ts";
import { askedUntil, type EarlierQuotes } from "../gateway/offers/earlier-quotes.ts";
import type { SitesPublisher } from "../publishing/site-publications.ts";
import { Gateway } from "../gateway/gateway.ts";
import { Holders } from "../gateway/holders.ts";
import type { ToldCertificates } from "../certificates/told.ts";
import { HeldCertificates } from "../gateway/listener/held-certificates.ts";
import { Listener } from "../gateway/listener/listener.ts";
import { Redirect, type RedirectPlaces } from "../gateway/listener/redirect.ts";
import type { Pots } from "../ledger/ledger.ts";
import { PotLeases } from "../payments/credits/pot-leases.ts";
import type { FeePayers, NetworkStates } from "../payments/sale/offers.ts";
import { Paywall } from "../payments/sale/paywall.ts";
import type { PaymentService } from "../payments/sale/payment-service.ts";
import { Sidecar } from "../gateway/sidecar/sidecar.ts";
import type { Engine } from "../gateway/upstream/upstream.ts";
import type { GatewaySettings, SiteSettings } from "../gateway/work.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { atOnce, inTurns, type Steps } from "../time/breath.ts";
import { systemTime, waitWithin } from "../time/time.ts";
import { Backends } from "./backends.ts";
import { clientOptions } from "./client-options.ts";
import { BlockhashHints } from "../payments/sale/blockhash-hints.ts";
import { MAX_EARLIER, type EarlierConfig } from "./sales.ts";
import { createEarlierQuotes, earlierSteps, siteSteps } from "./request-snapshot.ts";
import { SilentEngine } from "./silent-engine.ts";
import { placesOfEach } from "./places.ts";

/** The part of a configuration that a public side needs: no key of ours, and no facilitator's token. */
export type PublicSideConfig = Omit<
  Config,
  | "included"
  | "facilitator"
  | "refunds"
  | "store"
  | "keeping"
  | "admin"
  | "payers"
  | "watch"
  | "acme"
  | "webhooks"
>;

export interface PublicSideOptions {
  readonly config: PublicSideConfig;
  readonly telemetry: Telemetry;
  readonly payments: PaymentService;
  readonly feePayers: FeePayers;
  readonly networks: NetworkStates;
  /** The documents of that configuration. */
  readonly publish: SitesPublisher;
  /** Default: nobody is asked who he is. */
  readonly signInKey?: Uint8Array | undefined;
  /** Of this process' life: what buyers have prepaid, and what is counted. */
  readonly pots: Pots;
  /** Default: none. */
  readonly drafts?: Drafts;
  /** Configurations that were replaced a short while ago, the newest first. */
  readonly earlier?: readonly EarlierConfig[];
  /** See `SecureOptions.ticketKeys`. */
  readonly ticketKeys?: Buffer;
  /** How many public sides share the limits on requests in flight and on connections to upstreams, this one included. */
  readonly fronts: number;
  /** The folder in which commands are asked; default: there are none. */
  readonly commands?: string;
}

/** Where a public side listens. */
export interface PublicSidePlaces {
  /** In place of the configured ports, in the order of the listeners. */
  readonly ports?: readonly number[];
  /** The sockets of another process' listeners, in their order. */
  readonly sockets?: readonly object[];
}

/** How long requests that were cut at the end have to end, milliseconds. */
const CUT_MS = 1_000;

export class PublicSide {
  /** What a configuration that is replaced leaves behind is to go. */
  readonly #options: Omit<PublicSideOptions, "publish" | "earlier">;
  readonly #backends: Backends;
  readonly #gateway: Gateway;
  readonly #paywall: Paywall;
  readonly #blockhashes: BlockhashHints;
  readonly #leases: PotLeases;
  readonly #holders: Holders;
  /** Engines of configurations before, which end when nobody uses them any more. */
  readonly #leaving = new Set<Promise<void>>();
  /**
   * When the requests end that began before the present configuration, by the engines that they may ask: one that has
   * not changed is asked by those of several configurations.
   */
  #asking: ReadonlyMap<Engine, Promise<void>> = new Map();
  readonly #retiring = new AbortController();
  readonly #patience = new AbortController();
  readonly #held = new HeldCertificates();
  #config: PublicSideConfig;
  #ticketKeys: Buffer | undefined;
  #earlier: readonly EarlierQuotes[];
  #listeners: readonly Listener[] = [];
  #redirects: readonly Redirect[] = [];
  #sidecar: Sidecar | null = null;
  #configuring: Promise<void> = Promise.resolve();
  #isClosed = false;

  constructor(options: PublicSideOptions) {
    const { publish, earlier = [], ...lasting } = options;
    this.#options = lasting;
    const { config, telemetry, payments, fronts, feePayers, drafts = NO_DRAFTS } = lasting;
    const { metrics, logger } = telemetry;
    const { settlementWaitMs } = config.limits;
    this.#config = config;
    this.#ticketKeys = options.ticketKeys;
    this.#holders = new Holders(payments);
    this.#earlier = earlier.flatMap((each) =>
      createEarlierQuotes(each.config, feePayers, each.replacedMs, this.#holders),
    );
    this.#backends = new Backends({ telemetry, fronts, commands: lasting.commands ?? "" });
    this.#backends.configure(config);
    const paywall = (this.#paywall = new Paywall({
      payments,
      logger,
      settlementWaitMs,
      time: systemTime,
    }));
    this.#blockhashes = new BlockhashHints(drafts, systemTime);
    const atRisk = (): bigint => this.#config.credits?.atRisk ?? 0n;
    this.#leases = new PotLeases({ pots: lasting.pots, atRisk, time: systemTime, logger });
    this.#gateway = new Gateway({
      ...atOnce(this.#settings(publish)),
      paywall,
      leases: this.#leases,
      drafts,
      telemetry,
      challenged: this.#held,
    });
    metrics.observeInFlight(() => this.#gateway.work.inFlight);
    metrics.observePlaces(() => this.#gateway.work.places);
  }

  /**
   * Requests from here on are answered by this configuration, those that are in flight by the one before.
   * What was asked for until now may still be paid. `listen` and `limits.header` stay as they are. `publish` gives the
   * documents of that configuration. Nothing is opened any more for what is closed, which would keep the process alive.
   */
  configure(config: PublicSideConfig, publish: SitesPublisher): Promise<void> {
    if (this.#isClosed) return Promise.resolve();
    this.#configuring = this.#configure(config, publish);
    return this.#configuring;
  }

  async #configure(config: PublicSideConfig, publish: SitesPublisher): Promise<void> {
    const { feePayers } = this.#options;
    const beganMs = systemTime.now();
    const replaced = await inTurns(earlierSteps(this.#config, feePayers, beganMs, this.#holders));
    this.#config = config;
    const { connections, settlementWaitMs } = config.limits;
    const maxConnections = Math.ceil(connections / this.#options.fronts);
    for (const listener of this.#listeners) listener.limit(maxConnections);
    this.#paywall.hold(settlementWaitMs);
    const before = [...this.#backends.engines.values()];
    const unused = this.#backends.configure(config);
    const settings = await inTurns(this.#settings(publish));
    // What was asked for until this very moment is what may still be paid.
    const nowMs = systemTime.now();
    const until = replaced.map((each) => {
      return { ...each, replacedMs: nowMs, untilMs: each.untilMs + nowMs - each.replacedMs };
    });
    const all = [...until, ...this.#earlier].filter((each) => nowMs < each.untilMs);
    const bySite = Map.groupBy(all, ({ site }) => site);
    this.#earlier = [...bySite.values()].flatMap((some) => some.slice(0, MAX_EARLIER));
    const knowing = <Settings extends SiteSettings>(settings: Settings): Settings => {
      const earlier = this.#earlier.filter(({ site }) => site === settings.snapshot.site);
      return { ...settings, snapshot: { ...settings.snapshot, earlier } };
    };
    const hosts = (settings.hosts ?? []).map(([name, site]) => [name, knowing(site)] as const);
    const ended = this.#gateway.work.configure({ ...knowing(settings), hosts });
    const places = placesOf(config);
    if (places !== null) for (const redirect of this.#redirects) redirect.lead(places);
    this.#asking = new Map(
      before.map((engine) => [engine, afterBoth(this.#asking.get(engine), ended)]),
    );
    for (const engine of unused) {
      const leaving = this.#leave(engine, this.#asking.get(engine) ?? ended);
      this.#leaving.add(leaving);
      void leaving.finally(() => this.#leaving.delete(leaving));
    }
  }

  /** Resolves with the addresses once all of them accept connections. Rejects where one cannot be had. */
  async open({ ports = [], sockets = [] }: PublicSidePlaces = {}): Promise<readonly AddressInfo[]> {
    const { config, fronts, telemetry } = this.#options;
    const ticketKeys = this.#ticketKeys;
    const tickets = ticketKeys === undefined ? {} : { ticketKeys };
    const places = placesOf(this.#config);
    const { headerBytes, connections } = config.limits;
    const maxConnections = Math.ceil(connections / fronts);
    const { logger, metrics } = telemetry;
    const onUsed = (file: string, ms: number): void => metrics.configuration.certificate(file, ms);
    const retiring = this.#retiring.signal;
    const shared = { headerBytes, maxConnections, retiring, reusePort: fronts > 1, logger };
    const redirects: Redirect[] = [];
    this.#listeners = config.listen.map(({ host, port, tls, redirect }, index) => {
      const files = { judge: keyPairFault, logger, onUsed, ...tickets };
      const held = { held: this.#held, ...tickets };
      const secure = tls === null ? null : tls === "acme" ? held : { ...tls, ...files };
      const place = { host, port: ports[index] ?? port, tls: secure };
      const led = redirect && places !== null;
      const elsewhere = led ? new Redirect(this.#held, places) : undefined;
      if (elsewhere !== undefined) redirects.push(elsewhere);
      return new Listener(this.#gateway, { ...place, ...shared, redirect: elsewhere });
    });
    this.#redirects = redirects;
    this.#sidecar = this.#createSidecar();
    if (this.#sidecar !== null) return [await this.#sidecar.open()];
    const addresses: AddressInfo[] = [];
    for (const [index, listener] of this.#listeners.entries()) {
      addresses.push(await listener.open(sockets[index]));
    }
    return addresses;
  }

  #createSidecar(): Sidecar | null {
    const { sidecar, limits } = this.#options.config;
    if (sidecar === null) return null;
    const { listen, ...settings } = sidecar;
    const { headerBytes } = limits;
    const { logger } = this.#options.telemetry;
    const ground = { gateway: this.#gateway, retiring: this.#retiring.signal, headerBytes, logger };
    return new Sidecar({ ...listen, ...settings, ...ground });
  }

  /** Other processes on these addresses have gone on to ask for what was replaced. See {@link askedUntil}. */
  tellAsked(replacedMs: number, untilMs: number): void {
    askedUntil(this.#earlier, replacedMs, untilMs);
  }

  /** Of all processes on these addresses together. */
  tellTicketKeys(keys: Buffer): void {
    this.#ticketKeys = keys;
    for (const listener of this.#listeners) listener.tellTicketKeys(keys);
  }

  /** Of all processes on this ledger. */
  tellCertificates(told: ToldCertificates): void {
    this.#held.tell(told);
  }

  /** What listens, to be passed on to the process that takes this one's place. */
  get sockets(): readonly unknown[] {
    return this.#listeners.map(({ socket }) => socket);
  }

  /** From here on connections are not kept for another request. */
  retire(): void {
    this.#retiring.abort();
  }

  /** Accepts nothing new, finishes what is in flight until the signal ends, and closes everything. */
  async close(signal: AbortSignal): Promise<void> {
    this.retire();
    this.#isClosed = true;
    const cut = (): void => this.#patience.abort();
    signal.addEventListener("abort", cut, { once: true });
    if (signal.aborted) cut();
    await Promise.all(this.#listeners.map((listener) => listener.drain(signal)));
    await this.#sidecar?.drain(signal);
    // Settlements and deliveries go on after their clients have left.
    await this.#gateway.work.drain(signal);
    await this.#leases.drain();
    const isCut = this.#gateway.work.inFlight > 0;
    // Whoever asked for it hears of its faults.
    await this.#configuring.catch(() => undefined);
    const engines = [...this.#backends.engines.values()];
    await Promise.all([...engines.map((engine) => engine.close(signal)), ...this.#leaving]);
    if (isCut) {
      // What was cut ends now, and may have used something.
      await this.#gateway.work.drain(systemTime.timeout(CUT_MS));
      await this.#leases.drain();
    }
    signal.removeEventListener("abort", cut);
  }

  get #engines(): ReadonlyMap<string, Engine> {
    if (this.#config.sidecar === null) return this.#backends.engines;
    return new Map([[PROXY_UPSTREAM, new SilentEngine()]]);
  }

  /** Everything of the gateway that the configuration says. */
  *#settings(publish: SitesPublisher): Steps<GatewaySettings> {
    const config = this.#config;
    const { telemetry, feePayers, networks, drafts = NO_DRAFTS, fronts } = this.#options;
    const { metrics } = telemetry;
    const blockhashes = this.#blockhashes;
    const { signInKey } = this.#options;
    const holders = this.#holders;
    const known = { feePayers, networks, drafts, blockhashes, signInKey, holders };
    const ground = { metrics, ...known, earlier: this.#earlier };
    return {
      ...(yield* siteSteps(config, this.#engines, { ...ground, publish })),
      maxInFlight: placesOfEach(config.limits.inFlight, fronts),
      ...clientOptions(config, fronts),
    };
  }

  /** A request that has begun may ask its engine after a settlement that takes a minute. */
  async #leave(engine: Engine, ended: Promise<void>): Promise<void> {
    const { signal } = this.#patience;
    await waitWithin(ended, signal, undefined);
    await engine.close(signal);
  }
}

/** Where a listener leads that sells nothing; null: the configuration has no such place. */
function placesOf({
  publicUrl,
  hosts,
  sites,
}: Pick<PublicSideConfig, "publicUrl" | "hosts" | "sites">): RedirectPlaces | null {
  if (publicUrl?.startsWith("https:") !== true) return null;
  const own = (hosts ?? []).map((name) => [name, publicUrl] as const);
  const others = sites.map(({ name, publicUrl: told }) => {
    return [name, told.startsWith("https:") ? told : publicUrl] as const;
  });
  return { publicUrl, hosts: [...own, ...others] };
}

async function afterBoth(one: Promise<void> | undefined, other: Promise<void>): Promise<void> {
  await one;
  await other;
}
