/**
 * What is known of each network: whether payments on it are taken, why not, how far its chain is, and what it has cost
 * to settle there.
 */
import { Counter, Gauge } from "prom-client";
import type { MetricRegistry } from "./metric-registry.ts";

/**
 * Why payments on a network are not taken: no endpoint can be asked; they serve another chain; our accounts cannot pay;
 * our clock differs from the chain's; a token is another one than configured. Where others settle: none of them answers
 * as it should; they do not know us (401, 403); none says who pays the network fee. An operator has paused it; gas there
 * has cost as much in this hour as it may.
 */
export type ClosedReason =
  | "rpc"
  | "chain"
  | "wallet"
  | "clock"
  | "token"
  | "facilitator"
  | "unauthorized"
  | "fee-payer"
  | "paused"
  | "gas";

/** As an operator is told of it: `ledger`, nothing can be written down, and so no payment is taken anywhere. */
export type ToldReason = ClosedReason | "ledger";

/** What a transaction of ours has cost, in whole units of the network's own currency. */
interface Spent {
  readonly base: number;
  readonly priority: number;
  /** Null where nobody says what that currency is worth. */
  readonly dollars: number | null;
}

/** What is not done for a while, because payments did not move. */
const PAUSES = ["smart-wallets", "batches", "new-payers"] as const;

export class NetworkMeter {
  readonly #heads: Gauge;
  readonly #withHead = new Set<string>();
  readonly #revertedGas: Counter;
  readonly #pauses: Counter;
  readonly #spentGas: Counter;
  readonly #spentDollars: Counter;
  #readClosed: () => Promise<ReadonlyMap<string, ToldReason | null>> = async () => new Map();

  constructor(registry: MetricRegistry) {
    const registers = [registry];
    const labelNames = ["network"];
    this.#heads = new Gauge({
      name: "coinslot_rpc_head_timestamp_seconds",
      help: "Time of the newest block as its own chain tells it, Unix time, by network",
      labelNames,
      registers,
    });
    this.#revertedGas = new Counter({
      name: "coinslot_reverted_gas_total",
      help: "Gas that our transactions burnt on payments that they did not move, by network",
      labelNames,
      registers,
    });
    this.#pauses = new Counter({
      name: "coinslot_settlement_pauses_total",
      help: "How often such gas made us refuse smart wallets, send payments alone, or sign for few new payers, for a while, by network",
      labelNames: ["network", "reason"],
      registers,
    });
    this.#spentGas = new Counter({
      name: "coinslot_gas_spent_total",
      help: "What our transactions have cost that this process saw in a block first, whole units of the network's currency, by network and kind (priority: what was paid to be quicker; base: the rest)",
      labelNames: ["network", "kind"],
      registers,
    });
    this.#spentDollars = new Counter({
      name: "coinslot_gas_spent_dollars_total",
      help: "The same in dollars at nativePrice of that moment, by network; not there where that is not set",
      labelNames,
      registers,
    });
    const open = new Gauge({
      name: "coinslot_network_open",
      help: "1 where a payment on the network is taken now, 0 where it is not",
      labelNames,
      registers,
      collect: async () => {
        const closed = await this.#readClosed();
        open.reset();
        for (const [network, reason] of closed) {
          open.set({ network }, Number(reason === null));
        }
      },
    });
    const closed = new Gauge({
      name: "coinslot_network_closed_reason",
      help: "1 for the reason why payments on a network are not taken, by network; not there where they are",
      labelNames: ["network", "reason"],
      registers,
      collect: async () => {
        const reasons = await this.#readClosed();
        closed.reset();
        for (const [network, reason] of reasons) {
          if (reason !== null) closed.set({ network, reason }, 1);
        }
      },
    });
  }

  /** Those that are looked at from now on: a block of another one only grows old. */
  keepHeads(networks: readonly string[]): void {
    for (const gone of this.#withHead) {
      if (networks.includes(gone)) continue;
      this.#withHead.delete(gone);
      this.#heads.remove({ network: gone });
    }
  }

  /** @param timestamp of the newest block, Unix seconds */
  head(network: string, timestamp: number): void {
    this.#withHead.add(network);
    this.#heads.set({ network }, timestamp);
  }

  /** A transaction of ours was reverted as a whole, or did not move payments that it carried. */
  reverted(network: string, gas: number): void {
    this.#revertedGas.inc({ network }, gas);
  }

  /** Something is not done for a while, because transactions were reverted. */
  paused(network: string, reason: (typeof PAUSES)[number]): void {
    this.#pauses.inc({ network, reason });
  }

  /** A transaction of ours is in a block. */
  spent(network: string, { base, priority, dollars }: Spent): void {
    this.#spentGas.inc({ network, kind: "base" }, base);
    this.#spentGas.inc({ network, kind: "priority" }, priority);
    if (dollars !== null) this.#spentDollars.inc({ network }, dollars);
  }

  /** There from the beginning: a counter that begins at 1 looks to an alert like one that did not change. */
  begin(network: string): void {
    this.#revertedGas.inc({ network }, 0);
    for (const reason of PAUSES) this.#pauses.inc({ network, reason }, 0);
  }

  /** Why each network is closed is asked at each scrape; null: it is open. */
  observeClosed(read: () => Promise<ReadonlyMap<string, ToldReason | null>>): void {
    this.#readClosed = read;
  }
}
