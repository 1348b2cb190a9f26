/**
 * What a worker is told when it starts: the public side's part of the configuration, and what the public side shows that
 * is kept elsewhere. It crosses a pipe between two processes of ours and is written nowhere.
 */
import type { ToldCertificates } from "../certificates/told.ts";
import { Secret } from "../config/facilitator/secret.ts";
import type { ToldQualities } from "../discovery/quality.ts";
import type { EntryChanges } from "../discovery/shared-entries.ts";
import type { FeePayers, NetworkState, NetworkStates } from "../payments/sale/offers.ts";
import { PayerList } from "../x402/payer-list.ts";
import type { Stop, Stops, StopSource } from "../payments/sale/stops.ts";
import type { PublicSideConfig } from "./public-side.ts";
import type { EarlierConfig } from "./sales.ts";

export interface StartOrder {
  /** From 1. */
  readonly worker: number;
  /** How many workers there are. */
  readonly workers: number;
  readonly version: string;
  readonly config: PublicSideConfig;
  /** See `TermsChanges`. */
  readonly termsChanges: readonly (readonly [route: string, changedAt: number])[];
  readonly feePayers: Told;
  readonly networks: ToldStates;
  readonly stops: ToldStops;
  /** What others sell that is listed. */
  readonly others: EntryChanges;
  /** How well each route was delivered. */
  readonly quality: ToldQualities;
  /** Networks on which the process with the money writes transactions for buyers. */
  readonly draftNetworks: readonly string[];
  /** Configurations that were replaced a short while ago, the newest first. */
  readonly earlier: readonly EarlierConfig[];
  /** See `SignInOptions.key`. */
  readonly signInKey: Uint8Array;
  /** See `SecureOptions.ticketKeys`. */
  readonly ticketKeys: Buffer;
  /** What listeners serve that have no certificate of their own. */
  readonly certificates: ToldCertificates;
  /** Whether requests are remembered for the operator's page. */
  readonly hasTimeline: boolean;
}

/** The networks that are not simply open. */
export type ToldStates = readonly (readonly [network: string, state: NetworkState])[];

/** What is not sold for now, by scope. */
export type ToldStops = readonly (readonly [scope: string, stop: Stop])[];

/** Whom buyers are told as fee payer, by network. */
export type Told = readonly (readonly [network: string, address: string])[];

/**
 * A {@link Secret}, which no copy of an object would keep, crosses as a map with this one key: what others sell is in
 * the order as well, and they write whatever JSON they like, but no map.
 */
const PACKED_SECRET = "packedSecret";
/** The same for a {@link PayerList}. */
const PACKED_PAYERS = "coinslot.payers";

/** The part of a configuration that leaves the process with the keys. */
export function frontPart(config: PublicSideConfig): PublicSideConfig {
  const { file, listen, sidecar, publicUrl, hosts, sites, trustedProxies, limits } = config;
  const { shutdown, workers, upstreams, routes, unmatched, defaultUpstream, discovery, paywall } =
    config;
  const { support, logging, metrics, cors, protocol } = config;
  const named = { file, listen, sidecar, publicUrl, hosts, sites };
  const network = { ...named, trustedProxies, limits, shutdown, workers };
  const sold = { upstreams, routes, unmatched, defaultUpstream, discovery, paywall };
  return { ...network, ...sold, support, logging, metrics, cors, protocol };
}

/** A deep copy that can cross to another process. */
export function pack(value: unknown): unknown {
  if (value instanceof Secret) return new Map([[PACKED_SECRET, value.reveal()]]);
  if (value instanceof PayerList) return new Map([[PACKED_PAYERS, [value.chains, value.names]]]);
  return copy(value, pack);
}

/** What {@link pack} was given. */
export function unpack(value: unknown): unknown {
  if (!(value instanceof Map)) return copy(value, unpack);
  const secret: unknown = value.get(PACKED_SECRET);
  if (typeof secret === "string") return new Secret(secret);
  const payers: unknown = value.get(PACKED_PAYERS);
  if (!Array.isArray(payers)) return value;
  return new PayerList(payers[0] === "any" ? "any" : "that", payers[1]);
}

function copy(value: unknown, each: (member: unknown) => unknown): unknown {
  if (Array.isArray(value)) return value.map(each);
  if (typeof value !== "object" || value === null) return value;
  // Bytes and maps cross as they are.
  if (Object.getPrototypeOf(value) !== Object.prototype) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, each(member)]));
}

/** Fee payers as the process with the money tells them. */
export class FeePayerNews implements FeePayers {
  #revision = 0;
  #told: ReadonlyMap<string, string>;

  constructor(told: Told) {
    this.#told = new Map(told);
  }

  get revision(): number {
    return this.#revision;
  }

  tell(told: Told): void {
    this.#told = new Map(told);
    this.#revision += 1;
  }

  offered(network: string): string | undefined {
    return this.#told.get(network);
  }

  /** Of those that are told now; the payment service knows the others. */
  isKnown(network: string, address: string): boolean {
    return this.offered(network) === address;
  }
}

/** On which networks payments are taken, as the process with the money tells it. */
export class NetworkNews implements NetworkStates {
  #revision = 0;
  #told: ReadonlyMap<string, NetworkState>;
  readonly #stopped: StopSource;

  constructor(told: ToldStates, stopped: StopSource) {
    this.#told = new Map(told);
    this.#stopped = stopped;
  }

  get revision(): number {
    return this.#revision + this.#stopped.revision;
  }

  get stops(): Stops {
    return this.#stopped.stops;
  }

  tell(told: ToldStates): void {
    this.#told = new Map(told);
    this.#revision += 1;
  }

  of(network: string): NetworkState {
    return this.#told.get(network) ?? "open";
  }
}

/** What is not sold for now, as the process with the money tells it. */
export class StopNews implements StopSource {
  revision = 0;
  stops: Stops;

  constructor(told: ToldStops) {
    this.stops = new Map(told);
  }

  tell(told: ToldStops): void {
    this.stops = new Map(told);
    this.revision += 1;
  }
}
