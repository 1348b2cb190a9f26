/**
 * Who writes unsigned transactions for buyers: the process with the chains. Workers ask it. Writing one costs
 * about as much as refusing a payment, and so that asking for many is of no use there is a limit for all together.
 */
import type { Config } from "../config/config.ts";
import type { Drafts } from "../gateway/offers/drafts.ts";
import type { Observer } from "../mechanism/mechanism.ts";
import type { Time } from "../time/time.ts";
import type { BlockhashHint } from "../x402/version-2.ts";
import type { PaymentRequirements } from "../x402/x402.ts";
import type { CallOptions, Channel, Handler } from "../workers/channel.ts";

/** Longest that a buyer waits for a transaction, milliseconds. */
const DRAFT_MS = 10_000;
/** How much longer the way between two processes may take, milliseconds. */
const MARGIN_MS = 2_000;
/** What is asked over that way. */
const WITHIN: CallOptions = { withinMs: DRAFT_MS + MARGIN_MS };
/** Written in a second at most, for all buyers together: a tenth of a second of work. */
export const MAX_A_SECOND = 100;
const SECOND_MS = 1_000;

type Writing = Pick<Observer, "draft" | "blockhash">;

/** Solana networks whose chain this configuration can ask, be it settled here or elsewhere. */
export function draftNetworks({ facilitator }: Pick<Config, "facilitator">): ReadonlySet<string> {
  const chains = [...facilitator.embedded, ...facilitator.observed];
  return new Set(chains.filter(({ kind }) => kind === "solana").map(({ network }) => network));
}

/** Transactions that are written in this process. */
export class LocalDrafts implements Drafts {
  readonly #observers: ReadonlyMap<string, Writing>;
  readonly #time: Time;
  #secondMs = Number.NEGATIVE_INFINITY;
  #written = 0;

  constructor(observers: ReadonlyMap<string, Writing>, time: Time) {
    this.#observers = observers;
    this.#time = time;
  }

  get networks(): ReadonlySet<string> {
    const able = [...this.#observers].filter(([, { draft }]) => draft !== undefined);
    return new Set(able.map(([network]) => network));
  }

  async draft(requirement: PaymentRequirements, payer: string): Promise<string> {
    const observer = this.#observers.get(requirement.network);
    if (observer?.draft === undefined)
      throw new Error("nobody writes transactions for this network");
    const nowMs = this.#time.now();
    if (Math.abs(nowMs - this.#secondMs) >= SECOND_MS) {
      this.#secondMs = nowMs;
      this.#written = 0;
    }
    this.#written += 1;
    if (this.#written > MAX_A_SECOND) throw new Error("too many transactions are asked for");
    return observer.draft(requirement, payer, this.#time.timeout(DRAFT_MS));
  }

  async blockhash(network: string): Promise<BlockhashHint> {
    const observer = this.#observers.get(network);
    if (observer?.blockhash === undefined) throw new Error("nobody reads that chain");
    return observer.blockhash(this.#time.timeout(DRAFT_MS));
  }
}

/** What a worker may ask for. */
export function draftDesk(drafts: Drafts): Readonly<Record<string, Handler>> {
  return {
    draft: ([requirement, payer]) => {
      return drafts.draft(requirement as PaymentRequirements, String(payer));
    },
    blockhash: ([network]) => drafts.blockhash(String(network)),
  };
}

/** Transactions for a worker, written in the process that forked it. */
export class RemoteDrafts implements Drafts {
  readonly networks: ReadonlySet<string>;
  readonly #channel: Pick<Channel, "call">;

  constructor(channel: Pick<Channel, "call">, networks: readonly string[]) {
    this.networks = new Set(networks);
    this.#channel = channel;
  }

  async draft(requirement: PaymentRequirements, payer: string): Promise<string> {
    return String(await this.#channel.call("draft", [requirement, payer], WITHIN));
  }

  async blockhash(network: string): Promise<BlockhashHint> {
    return (await this.#channel.call("blockhash", [network], WITHIN)) as BlockhashHint;
  }
}
