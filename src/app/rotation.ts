/**
 * Who settles and through which endpoints, in place of who did, while payments are under way. What is new is opened and
 * looked at first; then it takes over what the one before has not signed, and the ledger has the rest. What a
 * configuration that was replaced has asked for may still be paid: its tokens, its accounts on Solana and its networks
 * stay until that is over. Whatever has not changed goes on undisturbed.
 */
import { isDeepStrictEqual } from "node:util";
import type {
  Config,
  EmbeddedNetwork,
  ObservedNetwork,
  Problem,
  RemoteFacilitatorSettings,
} from "../config/config.ts";
import type { RemoteFacilitator } from "../facilitator/remote.ts";
import type { Settlers } from "../facilitator/settlers.ts";
import type { Mechanism } from "../mechanism/mechanism.ts";
import type { EmbeddedFacilitator } from "../payments/settlement/embedded.ts";
import type { Lookout, Looked } from "../payments/settlement/lookout.ts";
import type { NetworkGate, PreparedNetwork } from "../payments/settlement/network-gate.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import type { Time } from "../time/time.ts";
import { findNetwork, networkOf } from "../x402/network.ts";
import {
  createMechanism,
  createObserver,
  payeesOn,
  type ObservedChain,
  type AllowedPayees,
  type SettledNetwork,
  type Surroundings,
} from "./chains.ts";
import { about } from "./problem.ts";
import { longestQuoteMs } from "./request-snapshot.ts";
import { MAX_EARLIER } from "./sales.ts";
import { pack } from "./start-order.ts";

/** So long what was replaced may still be asked by what began with it, milliseconds. */
const LEAVE_MS = 120_000;
/** Pause before it is looked again whether all is decided on a network that goes, milliseconds. */
const UNDECIDED_MS = 10_000;

type Facilitators = Config["facilitator"];

interface Opened<Settings, Part> {
  readonly settings: Settings;
  readonly part: Part;
}

/** A facilitator elsewhere, with who looks whether it is there. */
export interface WatchedRemote {
  readonly remote: RemoteFacilitator;
  readonly lookout: Lookout;
}

/** All that is open, by network and by URL. */
interface Parts {
  readonly mechanisms: ReadonlyMap<string, Opened<SettledNetwork, Mechanism>>;
  readonly observers: ReadonlyMap<string, Opened<ObservedNetwork, ObservedChain>>;
  readonly remotes: ReadonlyMap<string, Opened<RemoteFacilitatorSettings, WatchedRemote>>;
}

/** A configuration that was replaced, as long as it may be paid what it asked for. */
interface Earlier {
  readonly config: Pick<Config, "facilitator">;
  readonly untilMs: number;
}

export interface RotationGround {
  readonly telemetry: Telemetry;
  readonly time: Time;
  readonly at: Surroundings;
  readonly openRemote: (settings: RemoteFacilitatorSettings) => WatchedRemote;
  /** Chains that can be asked, by network; kept as they are now. */
  readonly chains: Map<string, ObservedChain | Mechanism>;
  /** Those that settle, and are about to: opened and checked at the start. */
  readonly opened: Parts;
  readonly gate: NetworkGate;
}

/** What settles, told of all that changes. */
export interface Rotated {
  readonly embedded: EmbeddedFacilitator;
  readonly use: (settlers: Settlers, now: Now) => void;
}

/** What is in force once a change is made. */
export interface Now {
  readonly config: Config;
  readonly mechanisms: readonly Mechanism[];
  readonly leaving: readonly Mechanism[];
  readonly remotes: readonly WatchedRemote[];
}

export interface PreparedRotation {
  readonly problems: readonly Problem[];
  commit(): Promise<void>;
  drop(): Promise<void>;
}

interface Next {
  readonly parts: Parts;
  readonly payees: AllowedPayees;
  readonly networks: readonly PreparedNetwork[];
  /** What is open for it alone. */
  readonly opened: readonly Closing[];
}

interface Closing {
  close(): Promise<void>;
}

export class Rotation {
  readonly #ground: RotationGround;
  #config: Config;
  #parts: Parts;
  #rotated: Rotated | undefined;
  #earlier: readonly Earlier[] = [];
  /** What was replaced and may still be asked. */
  readonly #leaving = new Map<Closing, NodeJS.Timeout>();
  #tidying: NodeJS.Timeout | undefined;
  #isClosed = false;
  /** Changes come one after the other. */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(config: Config, ground: RotationGround) {
    this.#ground = ground;
    this.#config = config;
    this.#parts = ground.opened;
  }

  get mechanisms(): readonly Mechanism[] {
    return [...this.#parts.mechanisms.values()].map(({ part }) => part);
  }

  get remotes(): readonly WatchedRemote[] {
    return [...this.#parts.remotes.values()].map(({ part }) => part);
  }

  /** Of that network, with what is settled there since an earlier configuration asked for it. */
  settingsOf(network: string): SettledNetwork | ObservedNetwork | undefined {
    const { mechanisms, observers } = this.#parts;
    return (mechanisms.get(network) ?? observers.get(network))?.settings;
  }

  /** Who is told of changes. */
  tell(rotated: Rotated): void {
    this.#rotated = rotated;
  }

  /**
   * Opens and looks at what is new in it. Where something that is new, or was open until now, cannot be used, that
   * speaks against it.
   */
  async prepare(config: Config): Promise<PreparedRotation> {
    const turn = Promise.withResolvers<void>();
    const before = this.#turn;
    this.#turn = turn.promise;
    await before;
    try {
      const earlier = this.#earlierBeside(this.#config);
      const { next, problems } = await this.#open(config, earlier);
      return {
        problems,
        commit: () => this.#commit(config, next, earlier).finally(() => turn.resolve()),
        drop: () => closeAll(next.opened).finally(() => turn.resolve()),
      };
    } catch (cause) {
      turn.resolve();
      throw cause;
    }
  }

  /** Closes everything that is open, what was replaced too. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#tidying);
    await this.#turn;
    for (const timer of this.#leaving.values()) clearTimeout(timer);
    const { remotes, observers, mechanisms } = this.#parts;
    await closeAll([...remotes.values()].map(({ part }) => part.lookout));
    await closeAll([...remotes.values()].map(({ part }) => part.remote));
    await this.#ground.gate.close();
    const chains = [...observers.values(), ...mechanisms.values()].map(({ part }) => part);
    await closeAll([...chains, ...this.#leaving.keys()]);
    this.#leaving.clear();
  }

  /** Those of which something may still be paid, the newest first. */
  #earlierBeside(replaced: Config): readonly Earlier[] {
    const nowMs = this.#ground.time.now();
    const { facilitator, routes, limits } = replaced;
    const untilMs = nowMs + longestQuoteMs(routes) + limits.settlementWaitMs;
    return [{ config: { facilitator }, untilMs }, ...this.#stillEarlier()].slice(0, MAX_EARLIER);
  }

  #stillEarlier(): readonly Earlier[] {
    return this.#earlier.filter(({ untilMs }) => this.#ground.time.now() < untilMs);
  }

  async #open(
    config: Config,
    earlier: readonly Earlier[],
  ): Promise<{ readonly next: Next; readonly problems: readonly Problem[] }> {
    const { at, gate, openRemote } = this.#ground;
    const all = [config, ...earlier.map((each) => each.config)].map((each) => each.facilitator);
    const payees = payeesOf(all);
    const before = this.#parts;
    const opened: Closing[] = [];
    const networks: PreparedNetwork[] = [];
    const problems: Problem[] = [];
    const judge = (
      where: readonly string[],
      looked: Looked,
      isOpenNow: boolean | undefined,
    ): void => {
      if (looked.state === "open" || isOpenNow === false) return;
      const said = looked.findings.map(({ message }) => message).join("; ");
      const message = said === "" ? `${where.at(-1) ?? ""} does not answer` : said;
      problems.push(
        about(config, { code: "not-ready", message, suggestion: TRY_AGAIN, path: where }),
      );
    };
    const openChain = async <Settings extends SettledNetwork | ObservedNetwork, Part extends Chain>(
      settings: Settings,
      running: ReadonlyMap<string, Opened<Settings, Part>>,
      create: (settings: Settings) => Promise<Part>,
    ): Promise<readonly [string, Opened<Settings, Part>]> => {
      const { network } = settings;
      const known = running.get(network);
      if (known !== undefined && isSame(known.settings, settings)) return [network, known];
      const part = await create(settings);
      opened.push(part);
      const prepared = await gate.prepare(part);
      networks.push(prepared);
      opened.push(prepared.lookout);
      const isKnown = before.mechanisms.has(network) || before.observers.has(network);
      const isOpenNow = isKnown ? gate.closedReason(network) === undefined : undefined;
      judge(["facilitator", network], prepared.looked, isOpenNow);
      return [network, { settings, part }];
    };
    const settled = settledNetworks(all);
    const names = new Set<string>(settled.map(({ network }) => network));
    const observed = config.facilitator.observed.filter(({ network }) => !names.has(network));
    try {
      const [mechanisms, observers, remotes] = await Promise.all([
        Promise.all(
          settled.map((each) =>
            openChain(each, before.mechanisms, (settings) => {
              return createMechanism(settings, { payees, refunds: config.refunds }, at);
            }),
          ),
        ),
        Promise.all(
          observed.map((each) =>
            openChain(each, before.observers, (settings) => createObserver(settings, at)),
          ),
        ),
        Promise.all(
          config.facilitator.remote.map(async (settings) => {
            const known = before.remotes.get(settings.url);
            if (known !== undefined && isSame(known.settings, settings)) {
              return [settings.url, known] as const;
            }
            const part = openRemote(settings);
            opened.push(part.lookout, part.remote);
            const looked = await part.lookout.open({ isTrial: true });
            const isOpenNow = known && known.part.lookout.closed === undefined;
            judge(["facilitator", "remote", settings.url], looked, isOpenNow);
            return [settings.url, { settings, part }] as const;
          }),
        ),
      ]);
      const parts = {
        mechanisms: new Map(mechanisms),
        observers: new Map(observers),
        remotes: new Map([...remotes, ...this.#leavingRemotes(config, all)]),
      };
      return { next: { parts, payees, networks, opened }, problems };
    } catch (cause) {
      await closeAll(opened);
      throw cause;
    }
  }

  /** Those of earlier configurations, as they are. */
  #leavingRemotes(
    { facilitator }: Config,
    all: readonly Facilitators[],
  ): readonly (readonly [string, Opened<RemoteFacilitatorSettings, WatchedRemote>])[] {
    const wanted = new Set(all.flatMap(({ remote }) => remote.map(({ url }) => url)));
    const stay = new Set(facilitator.remote.map(({ url }) => url));
    return [...this.#parts.remotes].filter(([url]) => wanted.has(url) && !stay.has(url));
  }

  async #commit(config: Config, next: Next, earlier: readonly Earlier[]): Promise<void> {
    const { gate, chains } = this.#ground;
    const before = this.#parts;
    const { parts, payees, networks } = next;
    this.#config = config;
    this.#earlier = earlier;
    this.#parts = parts;
    const mechanisms = this.mechanisms;
    for (const mechanism of mechanisms) {
      mechanism.allow(payeesOn(networkOf(mechanism.network).kind, payees));
    }
    await Promise.all(networks.map((each) => gate.put(each)));
    const asked = new Map<string, Mechanism | ObservedChain>(
      [...parts.observers, ...parts.mechanisms].map(([network, { part }]) => [network, part]),
    );
    const changed = [...new Set([...chains.keys(), ...asked.keys()])].filter(
      (network) => chains.get(network) !== asked.get(network),
    );
    for (const network of changed) {
      const chain = asked.get(network);
      if (chain === undefined) chains.delete(network);
      else chains.set(network, chain);
    }
    await this.#rotated?.embedded.replace(mechanisms, changed);
    this.#tellAll();
    const gone = changed.filter((network) => !asked.has(network));
    await Promise.all(gone.map((network) => gate.remove(network)));
    for (const kind of ["observers", "mechanisms"] as const) {
      for (const [network, { part }] of before[kind]) {
        if (parts[kind].get(network)?.part !== part) this.#leave(part);
      }
    }
    for (const [url, { part }] of before.remotes) {
      if (parts.remotes.get(url)?.part === part) continue;
      await part.lookout.close();
      this.#leave(part.remote);
    }
    this.#tidySoon();
  }

  #tellAll(): void {
    const { facilitator } = this.#config;
    const { mechanisms } = this.#parts;
    const stay = new Set<string>(facilitator.embedded.map(({ network }) => network));
    const isElsewhere = facilitator.remote.length > 0;
    const urls = new Set(facilitator.remote.map(({ url }) => url));
    const remotes = [...this.#parts.remotes].map(([url, { part }]) => {
      return { ...part, isLeaving: !urls.has(url) };
    });
    // What goes and can be settled elsewhere is, at once; what cannot be is settled here until nobody brings it any more.
    const here = [...mechanisms.keys()].filter((network) => stay.has(network) || !isElsewhere);
    const shared = [...mechanisms.keys()].filter((network) => {
      return isSolana(network) && (!stay.has(network) || this.#wasElsewhere(network));
    });
    const inForce = (network: string): boolean => here.includes(network);
    const now = {
      config: this.#config,
      mechanisms: this.mechanisms.filter(({ network }) => inForce(network)),
      leaving: this.mechanisms.filter(({ network }) => !inForce(network)),
      remotes: remotes.filter(({ isLeaving }) => !isLeaving),
    };
    this.#rotated?.use({ here, shared, remotes }, now);
  }

  /** Whether a configuration that may still be paid had it settled by others. */
  #wasElsewhere(network: string): boolean {
    return this.#earlier.some(({ config: { facilitator } }) => {
      return (
        facilitator.remote.length > 0 &&
        !facilitator.embedded.some((each) => each.network === network)
      );
    });
  }

  #leave(part: Closing): void {
    const timer = setTimeout(() => {
      this.#leaving.delete(part);
      void part.close();
    }, LEAVE_MS);
    this.#leaving.set(part, timer.unref());
  }

  /** What only earlier configurations want goes when nothing of them can be paid any more. */
  #tidySoon(): void {
    clearTimeout(this.#tidying);
    const untilMs = Math.min(...this.#earlier.map((each) => each.untilMs));
    if (this.#isClosed || untilMs === Infinity) return;
    const pauseMs = Math.max(0, untilMs - this.#ground.time.now()) + 1;
    this.#tidying = setTimeout(() => void this.#tidy(), Math.min(pauseMs, MAX_PAUSE_MS)).unref();
  }

  async #tidy(): Promise<void> {
    const { logger } = this.#ground.telemetry;
    await this.#turn;
    if (this.#isClosed) return;
    const turn = Promise.withResolvers<void>();
    this.#turn = turn.promise;
    try {
      this.#earlier = this.#stillOpen();
      const { next } = await this.#open(this.#config, this.#earlier);
      await this.#commit(this.#config, next, this.#earlier);
    } catch (err) {
      logger.error({ err }, "what an earlier configuration wanted could not be put away");
    } finally {
      turn.resolve();
    }
  }

  /** Of a network that goes, what is signed is seen to its end with the key that has signed it. */
  #stillOpen(): readonly Earlier[] {
    const nowMs = this.#ground.time.now();
    const stay = new Set(this.#config.facilitator.embedded.map(({ network }) => network));
    return this.#earlier.flatMap((each) => {
      if (nowMs < each.untilMs) return [each];
      const isUndecided = each.config.facilitator.embedded.some(({ network }) => {
        return !stay.has(network) && (this.#rotated?.embedded.openOn(network) ?? 0) > 0;
      });
      return isUndecided ? [{ ...each, untilMs: nowMs + UNDECIDED_MS }] : [];
    });
  }
}

type Chain = Mechanism | ObservedChain;

const TRY_AGAIN = "nothing has changed; try again when it can be used";
/** Longest pause that a timer takes, milliseconds. */
const MAX_PAUSE_MS = 2 ** 31 - 1;

/** The newest configuration first. */
function settledNetworks(all: readonly Facilitators[]): readonly SettledNetwork[] {
  const found = new Map<string, SettledNetwork>();
  for (const settings of all.flatMap(({ embedded }) => embedded)) {
    const now = found.get(settings.network);
    found.set(settings.network, now === undefined ? settings : withEarlier(now, settings));
  }
  return [...found.values()];
}

/** Its tokens are taken a while longer, and on Solana, where buyers name it, so are its accounts. */
function withEarlier(now: SettledNetwork, earlier: EmbeddedNetwork): SettledNetwork {
  if (now.kind === "evm" && earlier.kind === "evm") {
    return { ...now, assets: allOf(now.assets, earlier.assets, ({ address }) => address) };
  }
  if (now.kind !== "solana" || earlier.kind !== "solana") return now;
  const signers = allOf([...now.signers, ...(now.leaving ?? [])], earlier.signers, keyOf);
  const assets = allOf(now.assets, earlier.assets, ({ address }) => address);
  const leaving = signers.slice(now.signers.length);
  return { ...now, assets, ...(leaving.length > 0 && { leaving }) };
}

function keyOf({ key }: EmbeddedNetwork["signers"][number]): string {
  return key.reveal();
}

function isSolana(network: string): boolean {
  return findNetwork(network)?.kind === "solana";
}

function allOf<Each>(
  now: readonly Each[],
  earlier: readonly Each[],
  nameOf: (each: Each) => string,
): readonly Each[] {
  const known = new Set(now.map(nameOf));
  return [...now, ...earlier.filter((each) => !known.has(nameOf(each)))];
}

function payeesOf(all: readonly Facilitators[]): AllowedPayees {
  const lists = all.map(({ payees }) => payees);
  return lists.includes("any") ? "any" : [...new Set(lists.flat())];
}

function isSame(one: unknown, other: unknown): boolean {
  return isDeepStrictEqual(pack(one), pack(other));
}

async function closeAll(parts: readonly Closing[]): Promise<void> {
  await Promise.all(parts.map((part) => part.close()));
}
