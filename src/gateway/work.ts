/**
 * What the gateway works on: by which settings, in which places, and when the last of it has ended. Nothing here says
 * what becomes of a request (`gateway.ts`).
 */
import { HostTable } from "../http/host-names.ts";
import type { PotLeases } from "../payments/credits/pot-leases.ts";
import type { Paywall } from "../payments/sale/paywall.ts";
import type { PlacesReading } from "../telemetry/metrics.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { waitWithin } from "../time/time.ts";
import { helpOf, type CrossOrigin } from "./answers.ts";
import type { ToolService } from "./calls/tool-service.ts";
import { Challenge, type ChallengeOptions } from "./challenge.ts";
import { areSameRates, type UnpaidRates } from "./client/rate-limit.ts";
import type { TrustedProxies } from "./client/trusted-proxies.ts";
import type { Snapshot } from "./decision.ts";
import type { Publisher } from "./declined.ts";
import { AnswerWatch, type AnswerLimits } from "./message/answer-watch.ts";
import { BodyWatch, type BodyLimits } from "./message/body-watch.ts";
import type { HeldCertificates } from "./listener/held-certificates.ts";
import type { InboundRequest, InboundSocket } from "./message/inbound.ts";
import { NO_DRAFTS, type Drafts } from "./offers/drafts.ts";
import { PaymentEntrance } from "./payment-entrance.ts";
import { Room, type Comer } from "./room.ts";
import { VisitIds, type VisitorGround } from "./visitor.ts";

/** What is sold to whoever asks by one name, and how that is told. */
export interface SiteSettings {
  readonly snapshot: Snapshot;
  readonly publish: Publisher;
  /** What messages at `snapshot.tools` are answered by; null or none: nothing is there. */
  readonly tools?: ToolService | null;
  readonly cors: CrossOrigin;
  /** Where buyers are helped, as a link; null or none: nowhere. */
  readonly support?: string | null;
}

/** What a new configuration may change while requests are served. */
export interface GatewaySettings extends SiteSettings {
  /** Of those who ask by these names, in place of what holds for all others. Default: of nobody. */
  readonly hosts?: readonly (readonly [name: string, site: SiteSettings])[];
  /** Requests that are forwarded or pay at the same time; of them an address has as many as are free, else 503. */
  readonly maxInFlight: number;
  /** Peers that say who their clients are. */
  readonly trustedProxies: TrustedProxies;
  /** Unpaid requests of one address to priced routes. */
  readonly unpaidRates: UnpaidRates;
  readonly bodyLimits: BodyLimits;
  readonly answerLimits: AnswerLimits;
}

export interface GatewayOptions extends GatewaySettings {
  readonly paywall: Paywall;
  /** Default: none. */
  readonly drafts?: Drafts;
  readonly telemetry: Telemetry;
  /** Of this process, on what buyers have prepaid, and on what is counted. Default: there is nothing of it. */
  readonly leases?: Pick<PotLeases, "reserve"> | undefined;
  /** What answers an authority that looks whether a name is ours. Default: nobody is asked to. */
  readonly challenged?: Pick<HeldCertificates, "answers">;
}

/** Settings with all that is made of them: a request goes by those that it began with. */
export interface Generation {
  readonly settings: GatewaySettings;
  readonly challenge: Challenge;
  readonly bodies: BodyWatch;
  /** The one site that a request is for, by the host that it names. */
  readonly siteOf: (request: Pick<InboundRequest, "headers">) => ServedSite;
  /** Requests that began with these and have not ended. */
  readonly begun: InFlight;
}

/** The settings of a site, and what is made of them. */
export interface ServedSite extends SiteSettings {
  readonly ground: VisitorGround;
}

export class Work {
  readonly ids = new VisitIds();
  /** None of them is of a configuration: those that are replaced are to go. */
  readonly #lasting: Omit<ChallengeOptions, "unpaidRates">;
  readonly #inFlight = new InFlight();
  readonly #room = new Room();
  readonly #entrance = new PaymentEntrance(this.#room);
  #generation: Generation;

  constructor(options: GatewayOptions) {
    const { paywall, drafts = NO_DRAFTS, telemetry, unpaidRates } = options;
    this.#lasting = { paywall, drafts, telemetry };
    const challenge = new Challenge({ ...this.#lasting, unpaidRates });
    this.#generation = this.#generationOf(options, challenge);
  }

  /** Of the settings in force. */
  get generation(): Generation {
    return this.#generation;
  }

  get inFlight(): number {
    return this.#inFlight.count;
  }

  /** Places of what is forwarded or pays, and who had to make room. */
  get places(): PlacesReading {
    const { taken, evicted } = this.#room;
    return { taken, waiting: this.#entrance.waiting, evicted, total: this.#most };
  }

  /** Of the requests that have one. */
  get placedSockets(): readonly InboundSocket[] {
    return this.#room.sockets;
  }

  /** Nearly all of them are taken: whoever comes gets fewer streams. */
  get isPressed(): boolean {
    return this.#room.isPressed(this.#most);
  }

  get #most(): number {
    return this.#generation.settings.maxInFlight;
  }

  /** A request begins: by these settings, for {@link end}. */
  begin(): Generation {
    const generation = this.#generation;
    this.#inFlight.enter();
    generation.begun.enter();
    return generation;
  }

  end({ begun }: Generation): void {
    begun.leave();
    this.#inFlight.leave();
  }

  /**
   * A place for what nobody pays for: at once, or after a while. What comes of it gives the place back, once;
   * undefined: there is none for that address.
   */
  place(address: string, comer: Comer): (() => void) | Promise<(() => void) | undefined> {
    return (
      this.#room.enter(address, this.#most, "free", comer) ??
      this.#room.wait(address, this.#most, "free", comer)
    );
  }

  /** What is done in such a place, which is given back when it is done. Undefined: there was none. */
  async inPlace<Done>(
    address: string,
    comer: Comer,
    run: () => Promise<Done>,
  ): Promise<Done | undefined> {
    const leave = await this.place(address, comer);
    if (leave === undefined) return undefined;
    try {
      return await run();
    } finally {
      leave();
    }
  }

  /** A place for a payment that is presented, in its turn. */
  placePayment(address: string, payer: Comer): Promise<(() => void) | undefined> {
    return this.#entrance.enter(address, this.#most, payer);
  }

  /**
   * Requests from here on go by these settings; resolves when none goes by those just before. What is counted of
   * unpaid requests is forgotten where their limits change.
   */
  configure(settings: GatewaySettings): Promise<void> {
    const before = this.#generation;
    const { unpaidRates } = settings;
    const isSame = areSameRates(before.settings.unpaidRates, unpaidRates);
    const challenge = isSame ? before.challenge : new Challenge({ ...this.#lasting, unpaidRates });
    this.#generation = this.#generationOf(settings, challenge);
    return before.begun.ended();
  }

  /**
   * Resolves when nothing is in flight, or when the signal ends. Settlements and deliveries go on after
   * their clients have left, so a listener without connections says nothing about them.
   */
  async drain(signal: AbortSignal): Promise<void> {
    if (this.inFlight > 0) await waitWithin(this.#inFlight.ended(), signal, undefined);
  }

  #generationOf(settings: GatewaySettings, challenge: Challenge): Generation {
    const { bodyLimits, answerLimits, hosts = [] } = settings;
    const shared = { ids: this.ids, answers: new AnswerWatch(answerLimits) };
    const siteFrom = (site: SiteSettings): ServedSite => {
      const { snapshot, publish, cors, support = null, tools = null } = site;
      const told = { cors, help: helpOf(support) };
      return { snapshot, publish, tools, cors, support, ground: { ...shared, told } };
    };
    const own = siteFrom(settings);
    const named = new HostTable(hosts.map(([name, site]) => [name, siteFrom(site)] as const));
    return {
      settings,
      challenge,
      bodies: new BodyWatch(bodyLimits),
      siteOf: ({ headers: { host = "" } }) => named.of(host) ?? own,
      begun: new InFlight(),
    };
  }
}

/** How many requests are being worked on, and when the last of them has ended. */
class InFlight {
  #count = 0;
  #idle: PromiseWithResolvers<void> | null = null;

  get count(): number {
    return this.#count;
  }

  enter(): void {
    this.#count += 1;
  }

  leave(): void {
    this.#count -= 1;
    if (this.#count > 0) return;
    this.#idle?.resolve();
    this.#idle = null;
  }

  /** Resolves when there are none, at once where there are none now. */
  ended(): Promise<void> {
    if (this.#count === 0) return Promise.resolve();
    this.#idle ??= Promise.withResolvers();
    return this.#idle.promise;
  }
}
