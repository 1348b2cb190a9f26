/**
 * What a worker is told when it starts: the public side's part of the configuration, and what the public side shows that
 * is kept elsewhere. It crosses a pipe between two processes of ours and is written nowhere.
 */
import { deserialize, serialize } from "node:v8";
import type { ToldCertificates } from "../certificates/told.ts";
import { Secret } from "../config/facilitator/secret.ts";
import type { ToldQualities } from "../discovery/quality.ts";
import type { EntryChanges } from "../discovery/shared-entries.ts";
import type { FeePayers, NetworkState, NetworkStates } from "../payments/sale/offers.ts";
import { PayerList } from "../x402/payer-list.ts";
import type { Steps } from "../time/breath.ts";
import type { LogLevel } from "../telemetry/logger.ts";
import type { Stop, Stops, StopSource } from "../payments/sale/stops.ts";
import type { PublicSideConfig } from "./public-side.ts";
import type { EarlierConfig } from "./sales.ts";

/** What of a {@link StartOrder} grows with the configuration. */
export interface SoldOrder {
  readonly config: PublicSideConfig;
  /** See `TermsChanges`. */
  readonly termsChanges: readonly (readonly [route: string, changedAt: number])[];
  /** Configurations that were replaced a short while ago, the newest first. */
  readonly earlier: readonly EarlierConfig[];
}

export interface StartOrder extends SoldOrder {
  /** From 1. */
  readonly worker: number;
  /** How many workers there are. */
  readonly workers: number;
  readonly version: string;
  /** As it was set last. */
  readonly level: LogLevel;
  readonly feePayers: Told;
  readonly networks: ToldStates;
  readonly stops: ToldStops;
  /** What others sell that is listed. */
  readonly others: EntryChanges;
  /** How well each route was delivered. */
  readonly quality: ToldQualities;
  /** Networks on which the process with the money writes transactions for buyers. */
  readonly draftNetworks: readonly string[];
  /** See `SignInOptions.key`. */
  readonly signInKey: Uint8Array;
  /** See `SecureOptions.ticketKeys`. */
  readonly ticketKeys: Buffer;
  /** What listeners serve that have no certificate of their own. */
  readonly certificates: ToldCertificates;
  /** The folder in which commands are asked. */
  readonly commands: string;
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
  const { support, logging, metrics, cors, mcp, protocol, members, sessions, credits, passes } =
    config;
  const named = { file, listen, sidecar, publicUrl, hosts, sites };
  const network = { ...named, trustedProxies, limits, shutdown, workers };
  // Workers ask commands, and start none.
  const asked = upstreams.map((each): (typeof upstreams)[number] => {
    const { command } = each;
    return command === null ? each : { ...each, command: { ...command, env: [] } };
  });
  const sold = { upstreams: asked, routes, unmatched, defaultUpstream, discovery, paywall };
  const known = { members, sessions, credits, passes };
  return { ...network, ...sold, ...known, support, logging, metrics, cors, mcp, protocol };
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
  // Bytes and maps cross as they are.
  if (!isPlain(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, each(member)]));
}

function isPlain(value: unknown): value is object {
  const isObject = typeof value === "object" && value !== null;
  return isObject && Object.getPrototypeOf(value) === Object.prototype;
}

/** What {@link packSteps} has made: a value in which long lists stand for parts, and these as bytes. */
export interface PackedInParts {
  readonly value: unknown;
  readonly parts: readonly Uint8Array[];
}

/** Members of a list that are packed in one step, and as bytes of their own where there are more. */
const PART = 100;
/** As {@link PACKED_SECRET}: from which part to which. */
const PACKED_LIST = "coinslot.parts";

/** The same as {@link pack} of a value that may have ten thousand routes: of what it leaves little is left to be copied. */
export function* packSteps(value: unknown): Steps<PackedInParts> {
  const parts: Uint8Array[] = [];
  return { value: yield* packInto(value, parts), parts };
}

function* packInto(value: unknown, parts: Uint8Array[]): Steps<unknown> {
  if (Array.isArray(value) && value.length > PART) {
    const from = parts.length;
    for (let at = 0; at < value.length; at += PART) {
      parts.push(serialize(pack(value.slice(at, at + PART))));
      yield;
    }
    return new Map([[PACKED_LIST, [from, parts.length]]]);
  }
  if (Array.isArray(value)) {
    const packed: unknown[] = [];
    for (const each of value) packed.push(yield* packInto(each, parts));
    return packed;
  }
  if (!isPlain(value)) return pack(value);
  const packed: [name: string, value: unknown][] = [];
  for (const [name, member] of Object.entries(value)) {
    packed.push([name, yield* packInto(member, parts)]);
  }
  return Object.fromEntries(packed);
}

/** What {@link packSteps} was given. */
export function unpackParts({ value, parts }: PackedInParts): unknown {
  const range: unknown = value instanceof Map ? value.get(PACKED_LIST) : undefined;
  if (Array.isArray(range)) {
    const own = parts.slice(Number(range[0]), Number(range[1]));
    return own.flatMap((part) => unpack(deserialize(part)));
  }
  if (value instanceof Map) return unpack(value);
  return copy(value, (member) => unpackParts({ value: member, parts }));
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
