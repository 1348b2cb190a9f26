/**
 * Who pays the network fee on the Solana networks on which something is sold. A buyer signs for that account,
 * so it has to be told in every 402: it is ours where the network is settled here, else that of a facilitator
 * elsewhere, which is asked for it at the start and then again and again.
 */
import type { FacilitatorRouter } from "../facilitator/facilitator-router.ts";
import type { RemoteFacilitator } from "../facilitator/remote.ts";

import type { FeePayers } from "../payments/sale/offers.ts";
import type { Mechanism } from "../mechanism/mechanism.ts";
import type { Telemetry } from "../telemetry/telemetry.ts";
import { type Time, waitWithin } from "../time/time.ts";
import type { NetworkName } from "../x402/network.ts";
import { messageOf } from "../x402/result.ts";

/** How long a start waits for the first answers, milliseconds; what comes later counts as soon as it comes. */
export const FIRST_ANSWERS_MS = 3_000;
/** Longest that a facilitator may take to tell, milliseconds. */
const ANSWER_TIMEOUT_MS = 10_000;
/** Pause before all are asked again, milliseconds. */
export const REFRESH_MS = 60_000;
/** The first such pause while nobody is known for a network, milliseconds; each next one is twice as long. */
export const FIRST_RETRY_MS = 1_000;
/** The longest pause while nobody is known for a network, milliseconds. */
export const MAX_RETRY_MS = 15_000;

/**
 * For so long no change is looked for, milliseconds: that takes a look at every account, and each 402 asks.
 * A buyer may be told an account that was told so long ago, and can pay with it.
 */
export const SAME_MS = 250;

export interface FeePayerSources {
  /** Solana networks on which something is sold. */
  readonly networks: readonly NetworkName[];
  /** What settles here, on whatever network. */
  readonly mechanisms: readonly Pick<Mechanism, "network" | "kind" | "accounts">[];
  /** What settled here until a while ago: buyers may have been told its accounts. Default: nothing. */
  readonly leaving?: readonly Pick<Mechanism, "network" | "accounts">[];
  readonly router: Pick<FacilitatorRouter, "feePayer" | "hasFeePayer" | "isRemote">;
  /**
   * Those of the router that are asked; empty: nothing depends on what they tell. Where nothing is sold, they
   * are asked for payments that others bring, and nothing is said about their silence.
   */
  readonly remotes: readonly Pick<RemoteFacilitator, "name" | "supported">[];
  readonly telemetry: Telemetry;
  readonly time: Time;
}

export interface ToldElsewhere {
  readonly network: NetworkName;
  readonly address: string | null;
}

export class KnownFeePayers implements FeePayers {
  #sources: FeePayerSources;
  /** What settles here, by network. */
  #here: ReadonlyMap<string, FeePayerSources["mechanisms"][number]> = new Map();
  /** What is told as of {@link revision}, by network. */
  #offered: { readonly network: NetworkName; address: string | undefined }[] = [];
  readonly #closing = new AbortController();
  /** Facilitators whose last answer could not be had. */
  readonly #silent = new Set<string>();
  /** Networks about which the log was told that nobody is known. */
  readonly #missed = new Set<NetworkName>();
  #revision = 0;
  #comparedMs = Number.NEGATIVE_INFINITY;
  #isStarted = false;
  #isAsking = false;
  #asking: Promise<void> = Promise.resolve();

  constructor(sources: FeePayerSources) {
    this.#sources = sources;
    this.know({});
  }

  /** What is sold and what settles from now on, in place of what did. Who has to be asked is asked from now on, too. */
  know(
    now: Partial<Pick<FeePayerSources, "networks" | "mechanisms" | "leaving" | "remotes">>,
  ): void {
    this.#sources = { ...this.#sources, ...now };
    const { networks, mechanisms } = this.#sources;
    this.#here = new Map(mechanisms.map((each) => [each.network, each]));
    const before = new Map(this.#offered.map(({ network, address }) => [network, address]));
    this.#offered = networks.map((network) => ({ network, address: this.offered(network) }));
    const isSame = this.#offered.every(({ network, address }) => before.get(network) === address);
    if (!isSame) this.#revision += 1;
    if (this.#isStarted && !this.#isAsking) void this.start();
  }

  /** Solana networks on which something is sold. */
  get networks(): readonly NetworkName[] {
    return this.#sources.networks;
  }

  get revision(): number {
    const nowMs = this.#sources.time.now();
    if (nowMs - this.#comparedMs >= SAME_MS) {
      this.#comparedMs = nowMs;
      this.#compare();
    }
    return this.#revision;
  }

  offered(network: string): string | undefined {
    const mechanism = this.#here.get(network);
    if (mechanism === undefined) return this.#sources.router.feePayer(network);
    const feePayer = mechanism.kind.extra?.["feePayer"];
    return typeof feePayer === "string" ? feePayer : undefined;
  }

  isKnown(network: string, address: string): boolean {
    const { leaving = [], router } = this.#sources;
    const ours = [this.#here.get(network), ...leaving.filter((each) => each.network === network)];
    if (ours.some((mechanism) => mechanism?.accounts.includes(address))) return true;
    return router.hasFeePayer(network, address);
  }

  /** Whom buyers are told on networks that are settled elsewhere; null: nobody yet. */
  elsewhere(): readonly ToldElsewhere[] {
    const networks = this.#sources.networks.filter((network) => !this.#here.has(network));
    return networks.map((network) => ({ network, address: this.offered(network) ?? null }));
  }

  /**
   * Asks everybody, waits a while for the answers where something is sold for which they are needed, and goes
   * on asking until it is stopped.
   */
  async start(): Promise<void> {
    this.#isStarted = true;
    if (this.#sources.remotes.length === 0) return;
    this.#isAsking = true;
    const first = this.#ask();
    this.#asking = this.#askAgain(first);
    if (this.elsewhere().length === 0) return;
    await waitWithin(first, this.#sources.time.timeout(FIRST_ANSWERS_MS), undefined);
  }

  /** Resolves when nobody is being asked any more. Idempotent. */
  async stop(): Promise<void> {
    this.#closing.abort();
    await this.#asking;
  }

  #compare(): void {
    for (const each of this.#offered) {
      const address = this.offered(each.network);
      if (address === each.address) continue;
      each.address = address;
      this.#revision += 1;
    }
  }

  async #askAgain(first: Promise<void>): Promise<void> {
    const { signal } = this.#closing;
    await first;
    let retryMs = FIRST_RETRY_MS;
    while (!signal.aborted) {
      const isMissing = this.elsewhere().some(({ address }) => address === null);
      await this.#sources.time.sleep(isMissing ? retryMs : REFRESH_MS, signal);
      retryMs = isMissing ? Math.min(2 * retryMs, MAX_RETRY_MS) : FIRST_RETRY_MS;
      if (!signal.aborted) await this.#ask();
    }
  }

  /** One round, and what is to be said about it. Never rejects. */
  async #ask(): Promise<void> {
    const { remotes, time } = this.#sources;
    const signal = AbortSignal.any([this.#closing.signal, time.timeout(ANSWER_TIMEOUT_MS)]);
    // What an answer tells is remembered by the facilitator that gave it.
    const answers = await Promise.allSettled(remotes.map((remote) => remote.supported(signal)));
    if (this.#closing.signal.aborted) return;
    for (const [index, { name }] of remotes.entries()) {
      const answer = answers[index];
      if (answer?.status === "rejected") this.#failed(name, answer.reason);
      else this.#silent.delete(name);
    }
    this.#compare();
    const { logger } = this.#sources.telemetry;
    for (const { network, address: feePayer } of this.elsewhere()) {
      if ((feePayer === null) === this.#missed.has(network)) continue;
      if (feePayer === null) {
        this.#missed.add(network);
        logger.warn({ network }, "nobody says who pays the network fee: nothing is sold on it now");
      } else {
        this.#missed.delete(network);
        logger.info({ network, feePayer }, "it is said who pays the network fee: sales go on");
      }
    }
  }

  #failed(facilitator: string, cause: unknown): void {
    if (this.#silent.has(facilitator) || this.elsewhere().length === 0) return;
    this.#silent.add(facilitator);
    const said =
      "a facilitator does not say who pays its network fees on Solana; until it does, what it said " +
      "before counts, and without that its payments there are not offered";
    const detail = messageOf(cause);
    this.#sources.telemetry.logger.warn({ facilitator, detail }, said);
  }
}
