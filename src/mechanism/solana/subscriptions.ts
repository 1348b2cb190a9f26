/**
 * The websockets of all endpoints: whichever node first sees a transaction in a block tells. See
 * `pubsub-channel.ts` for what each of them does.
 */
import type { Time } from "../../time/time.ts";
import type { Rpc } from "../rpc.ts";
import type { SolanaCommitment } from "./confirmation.ts";
import { PubsubChannel, type SubscriptionState } from "./pubsub-channel.ts";

export interface SubscriptionsOptions {
  /** The whole HTTP URL of each endpoint. */
  readonly httpUrls: ReadonlyMap<Rpc, string>;
  readonly commitment: SolanaCommitment;
  readonly time: Time;
  readonly onNotified: (signature: string) => void;
  readonly onSubscribed: (signature: string) => void;
  readonly onTrouble: (message: string) => void;
}

export class Subscriptions {
  readonly #channels: ReadonlyMap<Rpc, PubsubChannel>;

  /** Opens no connection. */
  constructor({ httpUrls, ...options }: SubscriptionsOptions) {
    const entries = [...httpUrls].map(([rpc, httpUrl]) => {
      return [rpc, new PubsubChannel({ ...options, host: rpc.host, httpUrl })] as const;
    });
    this.#channels = new Map(entries);
  }

  /** Wants to hear of a transaction from these endpoints. Never waits. */
  follow(signature: string, rpcs: Iterable<Rpc>): void {
    for (const rpc of rpcs) this.#channels.get(rpc)?.follow(signature);
  }

  /** The best that any endpoint has promised. */
  state(signature: string): SubscriptionState {
    // All of them are asked: each remembers that it is wanted still.
    const states = new Set([...this.#channels.values()].map((each) => each.state(signature)));
    if (states.has("live")) return "live";
    return states.has("starting") ? "starting" : "none";
  }

  /** Nobody wants to hear of it any more. `isMissed`: it was confirmed, and nobody had told. */
  drop(signature: string, isMissed: boolean): void {
    for (const channel of this.#channels.values()) channel.drop(signature, isMissed);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#channels.values()].map((channel) => channel.close()));
  }
}
